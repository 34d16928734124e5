"""The equations whose derivatives are compared, and the values that they are given."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Jaxpr, JaxprEqn, StoredJaxpr
from taxpr._derivatives.spread_again import spread_again
from taxpr._devices.fetched import block_at
from taxpr._hops.interpreter import Backwards, Forwards
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._keeping.run import run
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._recordings.part import KeptValue
from taxpr._sites.values import values_of
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

# Those with a derivative that a user can give.
_RULED = tuple(
    kind
    for kind in (
        _compat.custom_jvp_call_p,
        _compat.custom_vjp_call_p,
        _compat.CustomJVPTraced,
        _compat.CustomVJPTraced,
        _compat.custom_linear_solve_p,
        _compat.linear_call_p,
        _compat.custom_transpose_p,
    )
    if kind is not None
)
# Those that have forward mode only by way of the function, and not by their rule.
_REVERSE = (
    _compat.custom_vjp_call_p,
    _compat.CustomVJPTraced,
    _compat.linear_call_p,
    _compat.custom_transpose_p,
)


@dataclasses.dataclass(frozen=True, eq=False)
class DerivedCall:
    """An equation with a derivative.

    Attributes:
        eqn: The equation.
        address: Its address.
        jaxpr: The jaxpr that has it.
        operands: For each of its operands the address of the value, or the value of a literal.
        outside: The addresses, outside of loops and calls, of operands that are only handed in.
        spread: The `jax.shard_map` equations around it, the outermost first.
    """

    eqn: JaxprEqn
    address: Address
    jaxpr: Jaxpr
    operands: tuple[Any, ...]
    outside: Mapping[str, str]
    spread: tuple[JaxprEqn, ...]

    def addresses(self, operand: int) -> Iterator[str]:
        """The addresses of an operand, from the inside out; none of a literal."""
        at = self.operands[operand]
        while isinstance(at, str):
            yield at
            at = self.outside.get(at)

    @property
    def reverse(self) -> bool:
        """Whether its rule is for reverse mode."""
        return _compat.kind_of(self.eqn) in _REVERSE

    def function(self) -> Callable[..., list[Array]]:
        """It as a function of its operands, literals among them, that returns a list of arrays."""
        # One value may be two operands, and a literal is a value here.
        invars = [_compat.fresh_var(_compat.aval_of(atom)) for atom in self.eqn.invars]
        eqn: Any = self.eqn
        outvars = [x for x in self.eqn.outvars if not _compat.is_dropped(x)]
        alone = _compat.rebuilt(
            self.jaxpr,
            eqns=[eqn.replace(invars=invars)],
            invars=invars,
            outvars=outvars,
            constvars=(),
            consts=(),
        )
        run = _compat.jaxpr_as_fun(_compat.closed(alone))
        return spread_again(self.spread, invars, run) if self.spread else run


def ruled_calls(program: Program) -> list[DerivedCall]:
    """The calls of functions with a rule of their own, inner ones after those around them."""
    every = _calls(program.jaxpr, Address(), {}, ())
    return [one for one in every if _compat.kind_of(one.eqn) in _RULED]


def single_equations(program: Program) -> list[DerivedCall]:
    """The equations that hold no others, without those that a rule of the user's replaces."""
    every = list(_calls(program.jaxpr, Address(), {}, ()))
    ruled = [f"{one.address}/" for one in every if _compat.kind_of(one.eqn) in _RULED]
    return [
        one
        for one in every
        if not nested_jaxprs(one.eqn) and not one.address.startswith(tuple(ruled))
    ]


def _calls(
    stored: StoredJaxpr, home: Address, outside: dict[str, str], spread: tuple[JaxprEqn, ...]
) -> Iterator[DerivedCall]:
    inner, at = _compat.open_jaxpr(stored), addresses_of(stored, home)
    for local, eqn in numbered(inner):
        if is_tag(eqn):
            continue
        operands: list[Any] = [
            atom.val if _compat.is_literal(atom) else at.get(id(atom)) for atom in eqn.invars
        ]
        yield DerivedCall(eqn, home / local, inner, tuple(operands), outside, spread)
        more = (eqn,) if eqn.primitive is _compat.shard_map_p else ()
        for nested in nested_jaxprs(eqn):
            if nested.rule or nested.idle:
                continue
            below = home / local / nested.label
            for k, (operand, role) in enumerate(zip(nested.operands, nested.in_roles, strict=True)):
                if operand is not None and role in ("const", "arg"):
                    outer = operands[operand]
                    outside |= {f"{below}/in{k}": outer} if isinstance(outer, str) else {}
            yield from _calls(nested.stored, below, outside, (*spread, *more))


class Differentiated(Forwards[bool]):
    """Which values a derivative goes through: made of floats of the inputs, and of floats.

    Attributes:
        found: By address.
    """

    nothing = False

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.found: dict[str, bool] = {}
        self.run(program.jaxpr, [True] * len(program.invars), Address())

    def join(self, each: Sequence[bool]) -> bool:
        """Those of any."""
        return any(each)

    def made(self, eqn: JaxprEqn, operands: Sequence[bool]) -> Sequence[bool]:
        """No derivative goes through `jax.lax.stop_gradient`."""
        stops = eqn.primitive is _compat.stop_gradient_p
        return [any(operands) and not stops] * len(eqn.outvars)

    def held(self, var: Any, of: bool, address: Address | None) -> bool:
        """Notes it."""
        of = of and _jnp.issubdtype(getattr(var.aval, "dtype", np.int32), np.floating)
        if address is not None:
            self.found[address] = self.found.get(address, False) or of
        return of


class Reaching(Backwards[bool]):
    """Which results of equations a derivative comes back to, from the results of the program.

    Args:
        program: The program.
        results: For each of its results whether it is differentiated.

    Attributes:
        found: By the address of an equation, for each of its results.
    """

    nothing = unused = False

    def __init__(self, program: Program, results: Sequence[bool]) -> None:
        self.found: dict[str, Sequence[bool]] = {}
        self.run(program.jaxpr, results, Address())

    def join(self, each: Sequence[bool]) -> bool:
        """Those of any."""
        return any(each)

    def entered(self, eqn: JaxprEqn, here: Address) -> Sequence[Nested]:
        """The function of a rule, and not the rule."""
        del here
        return [one for one in nested_jaxprs(eqn) if not (one.rule or one.idle)]

    def needed(
        self, eqn: JaxprEqn, outs: Sequence[bool], inside: Sequence[bool] | None, here: Address
    ) -> Sequence[bool]:
        """All operands of a differentiated equation; inside of a loop the needed ones."""
        self.found[here] = outs
        stops = eqn.primitive is _compat.stop_gradient_p
        return inside or [any(outs) and not stops] * len(eqn.invars)


class Iteration(NamedTuple):
    """The place of a call: the iterations of loops around, and the device in a `jax.shard_map`."""

    loops: tuple[int, ...]
    device: str
    process: int | None


class Given:
    """The operands of equations as a run had them.

    Args:
        program: The program.
        flat: Its flat inputs.
        calls: The equations.
        memory: The bytes that the values may take; see `watch`.
    """

    def __init__(
        self, program: Program, flat: Sequence[Array], calls: Sequence[DerivedCall], memory: Any
    ) -> None:
        asked = {x for one in calls for x in one.operands if isinstance(x, Address)}
        values = [one for one in values_of(program.jaxpr) if one.address in asked]
        ran = run(program, flat, values, "auto", memory)
        self._kept: dict[str, KeptValue] = ran.kept
        self.skipped = ran.skipped

    def of(self, call: DerivedCall) -> Iterator[tuple[Iteration, list[Any]]]:
        """The operands of an equation, in its first and its last iteration.

        Returns:
            The iteration, and the operands. Nothing where it did not run, or its operands were too
            large to be kept.
        """
        known = [self._kept.get(x) if isinstance(x, Address) else x for x in call.operands]
        kept = [one for one in known if isinstance(one, KeptValue)]
        if any(one is None or (isinstance(one, KeptValue) and one.value is None) for one in known):
            return
        axes = {
            name: n for one in kept for name, n in zip(one.axes, np.shape(one.value), strict=False)
        }
        ran = [
            at
            for at in itertools.product(*map(range, axes.values()))
            if all(_fired(one, dict(zip(axes, at, strict=True))) for one in kept)
        ]
        for at in dict.fromkeys([*ran[:1], *ran[-1:]]):
            where = dict(zip(axes, at, strict=True))
            loops = tuple(k for name, k in where.items() if not name.startswith("mesh "))
            on: tuple[str, int | None] = "", None
            if len(loops) < len(where):
                one = next(
                    one for one in kept if any(name.startswith("mesh ") for name in one.axes)
                )
                on = one.lies_on(where, (*_index(one, where), *(0 for _ in one.shape)))
            yield (
                Iteration(loops, *on),
                [_taken(one, where) if isinstance(one, KeptValue) else one for one in known],
            )


def _index(one: KeptValue, where: dict[str, int]) -> tuple[int, ...]:
    return tuple(where[name] for name in one.axes)


def _fired(one: KeptValue, where: dict[str, int]) -> bool:
    return one.fired is None or bool(np.asarray(one.fired)[_index(one, where)])


def _taken(one: KeptValue, where: dict[str, int]) -> Any:
    index = _index(one, where)
    if any(name.startswith("mesh ") for name in one.axes):
        return block_at(one.value, index)
    return _jnp.asarray(one.value)[index]
