"""The iterations of a Python loop as the body of a scan, if they are alike."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import Jaxpr, JaxprEqn
from taxpr._compile_time.unrolled import Unrolled
from taxpr._errors import RefusedError
from taxpr._source.statements import statements_of
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

# The position of an equation in an iteration, and the number of its result.
_Place = tuple[int, int]
_BINDS = re.compile(r"([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*) (?:[-+*/@]=|=) ")
_OVER = re.compile(r"for [A-Za-z_]\w* in ([A-Za-z_][\w.]*)")
_CUSTOM = (_compat.custom_jvp_call_p, _compat.custom_vjp_call_p)


@dataclasses.dataclass
class _Slot:
    """An operand of the body: a carry, a value that each iteration has of its own, or one of all.

    Attributes:
        var: It in the body.
        atoms: The operands of the iterations; if it is a carry, only the first.
        source: If it is a carry, the place in an iteration that makes the next one.
    """

    var: Any
    atoms: list[Any]
    source: _Place | None = None


class LoopBody:
    """The iterations of a loop, as the body of a scan.

    Args:
        jaxpr: The jaxpr that has all iterations.
        loop: The loop.

    Attributes:
        loop: The loop.
        first: The position of its first equation.
        last: The position of its last one.
        before: Its equations that only prepare an iteration, such as a slice of all layers.
        eqns: The equations of the body, by their positions in an iteration.
        used: The values that are read behind the loop, with their iterations and places.

    Raises:
        RefusedError: If the iterations are not alike.
    """

    def __init__(self, jaxpr: Jaxpr, loop: Unrolled) -> None:
        self.loop = loop
        numbers = {id(eqn): k for k, eqn in enumerate(jaxpr.eqns)}
        every = sorted(loop.eqns, key=lambda eqn: numbers[id(eqn)])
        self.first, self.last = numbers[id(every[0])], numbers[id(every[-1])]
        size, rest = divmod(len(every), loop.iterations)
        if rest or loop.iteration is None or self.last - self.first + 1 != len(every):
            raise unlike(loop, "they have other equations")
        self._iterations = [every[k * size : (k + 1) * size] for k in range(loop.iterations)]
        if effects := [eqn for eqn in every if eqn.effects]:
            raise unlike(loop, f"{effects[0].primitive.name} has an effect")
        self.before: list[JaxprEqn] = []
        self._made: dict[Any, tuple[int, _Place]] = {
            x: (iteration, (at, k))
            for iteration, eqns in enumerate(self._iterations)
            for at, eqn in enumerate(eqns)
            for k, x in enumerate(eqn.outvars)
        }
        self._slots: dict[Any, _Slot] = {}
        self.eqns: dict[int, JaxprEqn] = {}
        for at in range(size):
            self._add(at, [iteration[at] for iteration in self._iterations])
        used = [jaxpr.outvars, *(eqn.invars for eqn in jaxpr.eqns[self.last + 1 :])]
        atoms = [x for one in used for x in one if not _compat.is_literal(x)]
        self.used = {x: self._made[x] for x in atoms if x in self._made}

    def _add(self, at: int, alike: Sequence[JaxprEqn]) -> None:
        one = alike[0]
        for other in alike[1:]:
            if other.primitive is not one.primitive or len(other.invars) != len(one.invars):
                raise unlike(self.loop, f"one has {one.primitive.name}, another another equation")
        if not all(_same(one, other) for other in alike[1:]):
            if any(self._inside(eqn) for eqn in alike):
                raise unlike(self.loop, f"{one.primitive.name} has other parameters")
            self.before += alike
            for eqn in alike:
                for x in eqn.outvars:
                    self._made.pop(x)
            return
        slots = [self._slot([eqn.invars[k] for eqn in alike]) for k in range(len(one.invars))]
        new: Any = one
        self.eqns[at] = new.replace(invars=slots)

    def _inside(self, eqn: JaxprEqn) -> list[Any]:
        """The operands of an equation that are made in the loop."""
        return [x for x in eqn.invars if not _compat.is_literal(x) and x in self._made]

    def _slot(self, atoms: Sequence[Any]) -> Any:
        """The operand of the body in the place of one in each iteration."""
        if len({str(_compat.aval_of(x)) for x in atoms}) > 1:
            raise unlike(self.loop, "their shapes or types differ")
        first, second = atoms[0], atoms[1]
        made = [None if _compat.is_literal(x) else self._made.get(x) for x in atoms]
        if made[0] is not None and made == [(k, made[0][1]) for k in range(len(atoms))]:
            return first
        if _compat.is_literal(first) and all(
            _compat.is_literal(x) and np.array_equal(x.val, first.val) for x in atoms
        ):
            return first
        source = None if made[0] or made[1] is None else made[1][1]
        if source and made[1:] == [(k, source) for k in range(len(atoms) - 1)]:
            key: Any = ("carry", source, id(first) if _compat.is_literal(first) else first)
            slot = _Slot(_compat.fresh_var(_compat.aval_of(second)), [first], source)
        elif any(one is not None for one in made):
            raise unlike(self.loop, "an iteration reads a value of an earlier one than the last")
        else:
            key = tuple(id(x) for x in atoms)
            slot = _Slot(_compat.fresh_var(_compat.aval_of(first)), list(atoms))
        return self._slots.setdefault(key, slot).var

    @property
    def code(self) -> str:
        """The scan in the place of the loop, as one writes it."""
        names: dict[str, None] = {}
        for one in self._slots.values():
            for statement in statements_of(self.eqns[one.source[0]]) if one.source else ():
                in_loop = any(head == self.loop.code for head, _ in statement.loops)
                if in_loop and (match := _BINDS.match(statement.text)):
                    names.update(dict.fromkeys(re.findall(r"\w+", match[1])))
        carry = ", ".join(names) or "carry"
        carry = f"({carry})" if len(names) > 1 else carry
        over = _OVER.fullmatch(self.loop.code)
        xs = f"jax.tree.map(lambda *x: jnp.stack(x), *{over[1]})" if over else "stacked"
        return f"{carry}, _ = jax.lax.scan(body, {carry}, {xs})"

    def run(self, read: Callable[[Any], Any]) -> dict[Any, Any]:
        """The values that are used behind the loop; `read` gives those before it."""
        slots = list(self._slots.values())
        carries = [one for one in slots if one.source is not None]
        of_all = [one for one in slots if one.source is None and len(set(map(id, one.atoms))) == 1]
        of_each = [one for one in slots if one not in carries and one not in of_all]
        sources = [x.source for x in carries if x.source]
        ends = [(self.loop.iterations - 1, place) for place in sources]  # the carry in the end
        wanted = dict.fromkeys(
            place for iteration, place in self.used.values() if (iteration, place) not in ends
        )
        if any(at not in self.eqns for at, _ in sources):
            raise unlike(self.loop, "an iteration reads what the last one was given")
        results = [self.eqns[at].outvars[k] for at, k in (*sources, *wanted)]
        jaxpr = self._jaxpr([x.var for x in (*carries, *of_all, *of_each)], results)
        body, fixed = _compat.jaxpr_as_fun(jaxpr), [read(one.atoms[0]) for one in of_all]

        def iteration(carry: Any, given: Any) -> Any:
            made = body(*carry, *fixed, *given)
            return made[: len(carries)], made[len(carries) :]

        xs = [self._stacked(one.atoms, read) for one in of_each]
        init = [_jnp.asarray(read(one.atoms[0])) for one in carries]
        last, each = _jax.lax.scan(iteration, init, xs, length=self.loop.iterations)
        found = dict(zip(wanted, each, strict=True))
        final = {one.source: x for one, x in zip(carries, last, strict=True)}
        return {
            var: final[place] if (iteration, place) in ends else found[place][iteration]
            for var, (iteration, place) in self.used.items()
        }

    def _stacked(self, atoms: Sequence[Any], read: Callable[[Any], Any]) -> Any:
        """The values of all iterations in one array, a new one or their source."""
        makers = {id(x): eqn for eqn in self.before for x in eqn.outvars}
        found = [makers.get(id(x)) for x in atoms]
        whole = found[0].invars[0] if found[0] is not None else None
        if whole is not None and all(
            eqn is not None
            and eqn.primitive is _jax.lax.slice_p
            and eqn.invars[0] is whole
            and eqn.params["start_indices"][0] == k
            for k, eqn in enumerate(found)
        ):
            shape = (len(atoms), *_compat.aval_of(atoms[0]).shape)
            if _compat.aval_of(whole).shape == (shape[0], *shape[2:]):
                return _jnp.reshape(read(whole), shape)
        return _jnp.stack([read(x) for x in atoms])

    def _jaxpr(self, invars: Sequence[Any], outvars: Sequence[Any]) -> Any:
        like = self.loop.iteration
        assert like is not None
        parts: Any = {"eqns": [*self.eqns.values()], "invars": invars, "outvars": outvars}
        return _compat.closed(_compat.rebuilt(like.jaxpr, **parts, constvars=(), consts=()))


def _same(some: JaxprEqn, other: JaxprEqn) -> bool:
    """Whether the parameters of two equations are equal; rules for derivatives are not compared."""
    names = [k for k in some.params if some.primitive not in _CUSTOM or k == "call_jaxpr"]
    return all(_equal(some.params[k], other.params.get(k)) for k in names)


def _equal(some: Any, other: Any) -> bool:
    if some is other:
        return True
    if _compat.is_jaxpr(some) and _compat.is_jaxpr(other):
        consts = [*map(id, _compat.consts_of(some))], [*map(id, _compat.consts_of(other))]
        return consts[0] == consts[1] and str(some) == str(other)
    if isinstance(some, tuple) and isinstance(other, tuple):
        pair: Any = some, other
        return len(pair[0]) == len(pair[1]) and all(map(_equal, *pair))
    try:
        return bool(some == other)
    except ValueError:  # arrays
        return False


def unlike(loop: Unrolled, why: str) -> RefusedError:
    return RefusedError(
        f"scan: the iterations of `{loop.code}` ({loop.place}) are not alike: {why}. A "
        "jax.lax.scan runs one body for all of them."
    )
