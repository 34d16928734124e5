"""The table of higher-order primitives: one entry for each, read by all.

An entry says which jaxprs an equation holds, which of its operands feed them,
and how a context is threaded through them. Search, injection, edits and drawing
read the same entry. The entries are in `taxpr._hops`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from taxpr import _compat


@dataclasses.dataclass(frozen=True)
class Nested:
    """One jaxpr held by an equation.

    Attributes:
        label: Its part of an address, such as ``"body"``.
        title: Its name for people, such as ``"scan body"``.
        param: Where it is stored, as a path into ``eqn.params``; None where it is
            hidden and cannot be replaced.
        stored: The jaxpr as stored, open or closed.
        operands: For each invar the index of the operand that feeds it, or None.
        in_roles: For each invar its role: ``"const"``, ``"carry"``, ``"x"``, ``"arg"``.
        results: For each outvar the index of the result that it feeds, or None.
        out_roles: For each outvar its role: ``"carry"``, ``"y"``, ``"out"``, ``"predicate"``.
        back: Pairs (outvar, invar) that feed back into the next iteration.
        trips: How often it runs each time the equation runs; None when that is
            known only at run time.
        conditional: Whether it may be passed over.
        recomputed: Whether it repeats work of a forward pass in a backward pass.
        facts: Short facts for people, such as ``{"length": 5}``.
    """

    label: str
    title: str
    param: tuple[Any, ...] | None
    stored: Any
    operands: tuple[int | None, ...]
    in_roles: tuple[str, ...]
    results: tuple[int | None, ...]
    out_roles: tuple[str, ...]
    back: tuple[tuple[int, int], ...] = ()
    trips: int | None = 1
    conditional: bool = False
    recomputed: bool = False
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def jaxpr(self) -> _compat.Jaxpr:
        """The open view: eqns, invars, outvars, constvars."""
        return _compat.open_jaxpr(self.stored)

    @property
    def consts(self) -> Sequence[Any]:
        """The values of the constvars."""
        return _compat.consts_of(self.stored)


class Emission(NamedTuple):
    """What one collected tag hands out of a jaxpr.

    Attributes:
        value: The leaves of the token; scans around it stack them on leading axes.
        fired: None when the tag fires on every run; else how often it fired, int32,
            of the shape of the leading axes of scans.
    """

    value: list[Any]
    fired: Any


Emits = dict[str, Emission]


class Threaded(Protocol):
    """A nested jaxpr with the context threaded through it.

    Attributes:
        jaxpr: Closed, from ``[*ctx, *args]`` to ``[*outs, *ctx, *emitted leaves]``.
        hoisted: ``jaxpr`` with its consts as leading arguments, and these consts.
        touched: Whether it holds a selected tag; if not, the context passes by.

    Its emissions are keyed by label and address, such as ``"body/t0"``.
    """

    jaxpr: Any
    hoisted: tuple[Any, list[Any]]
    touched: bool

    def __call__(self, ctx: Sequence[Any], args: Sequence[Any]) -> tuple[list, list, Emits]:
        """Evaluate: ``(ctx, outs, emits)``."""
        ...

    def unpack(self, flat: Sequence[Any]) -> tuple[list, list, Emits]:
        """Split the results of ``jaxpr`` into ``(ctx, outs, emits)``."""
        ...

    def emitted(self) -> Emits:
        """The emissions as avals."""
        ...


class Inject(Protocol):
    """How an equation is rebuilt with a context; called under a trace."""

    def __call__(
        self,
        eqn: _compat.JaxprEqn,
        ctx: list[Any],
        operands: list[Any],
        thread: Callable[[str], Threaded],
    ) -> tuple[list[Any], list[Any], Emits]:
        """Return ``(ctx, results, emits)``."""
        ...


@dataclasses.dataclass(frozen=True)
class Hop:
    """The entry of one higher-order primitive.

    Attributes:
        nested: The jaxprs of an equation.
        inject: How the context goes through; None where that is refused.
        refusal: Why it is refused; None where it is not.
    """

    nested: Callable[[_compat.JaxprEqn], tuple[Nested, ...]]
    inject: Inject | None = None
    refusal: str | None = None


_HOPS: dict[_compat.Primitive, Hop] = {}
_LATER: dict[tuple[str, str], Hop] = {}


def register(primitive: _compat.Primitive | None, hop: Hop) -> None:
    """Add an entry; None, a primitive that this JAX does not have, adds nothing."""
    if primitive is not None:
        _HOPS[primitive] = hop


def register_when_loaded(module: str, name: str, hop: Hop) -> None:
    """Add an entry for the primitive ``name`` of a JAX module once that module is imported."""
    _LATER[module, name] = hop


def registered() -> dict[_compat.Primitive, Hop]:
    """The whole table, as far as the modules of its primitives are imported."""
    _register_loaded()
    return dict(_HOPS)


def _register_loaded() -> None:
    for (module, name), hop in list(_LATER.items()):
        if (primitive := _compat.primitive_if_loaded(module, name)) is not None:
            register(primitive, hop)
            del _LATER[module, name]


def _hop(primitive: _compat.Primitive) -> Hop | None:
    """The entry of a primitive that may be higher-order."""
    if primitive not in _HOPS:
        _register_loaded()
    return _HOPS.get(primitive)


def nested_jaxprs(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    """The jaxprs that an equation holds, in the order in which they run.

    Example:
        >>> import jax
        >>> from taxpr import nested_jaxprs, trace
        >>> program = trace(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x))(1.0)
        >>> [nested.title for nested in nested_jaxprs(program.eqns[0])]
        ['scan body']
    """
    hop = _HOPS.get(eqn.primitive)
    if hop is not None:
        return hop.nested(eqn)
    if _compat.HIDING_PARAM in eqn.params or not _is_plain(eqn.params.values()):
        return found_in_params(eqn)
    return ()


def is_hop(eqn: _compat.JaxprEqn) -> bool:
    """Whether an equation holds jaxprs."""
    return bool(nested_jaxprs(eqn))


def injectable(eqn: _compat.JaxprEqn) -> str | None:
    """None when `inject` can go into the equation, else the reason why it refuses."""
    hop = _hop(eqn.primitive)
    if hop is None:
        return (
            "taxpr has no rule for this primitive, so it does not know in which order, or how "
            "often, its jaxprs run"
        )
    return hop.refusal


def inject_rule(eqn: _compat.JaxprEqn) -> Inject | None:
    """How a context goes through the equation; None where that is refused."""
    hop = _hop(eqn.primitive)
    return hop.inject if hop else None


def plain(
    label: str,
    title: str,
    param: tuple[Any, ...] | None,
    stored: Any,
    *,
    first_operand: int | None = 0,
    role: str = "arg",
    **more: Any,
) -> Nested:
    """A nested jaxpr whose invars are the operands from ``first_operand`` on.

    With ``first_operand=None`` operands and results do not map one to one.
    """
    inner = _compat.open_jaxpr(stored)
    n_in, n_out = len(inner.invars), len(inner.outvars)
    mapped = first_operand is not None
    start = first_operand or 0
    return Nested(
        label=label,
        title=title,
        param=param,
        stored=stored,
        operands=tuple(range(start, start + n_in)) if mapped else (None,) * n_in,
        in_roles=(role,) * n_in,
        results=tuple(range(n_out)) if mapped else (None,) * n_out,
        out_roles=("out",) * n_out,
        **more,
    )


def found_in_params(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    """The jaxprs in an equation's params, or hidden in them, whatever the primitive."""
    found = []
    in_params = [(path, path, stored) for path, stored in _jaxprs_in(eqn.params, ())]
    concealed = _jaxprs_in(_compat.hidden(eqn), ())
    for path, param, stored in [*in_params, *((path, None, stored) for path, stored in concealed)]:
        label = "".join(f"[{part}]" if index else str(part) for index, part in enumerate(path))
        title = f"{eqn.primitive.name} {label}"
        # How its operands feed such a jaxpr is not known, nor how often it runs.
        found.append(
            plain(label, title, param, stored, first_operand=None, trips=None, conditional=True)
        )
    return tuple(found)


# Types that are neither jaxprs nor containers of values, as they turn up among params.
_PLAIN_TYPES: set[type] = set()


def _is_plain(values: Iterable[Any]) -> bool:
    """A quick test that the values hold no jaxpr; values with a dict fail it without one, too."""
    for value in values:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            continue
        if kind is tuple or isinstance(value, (tuple, list)):
            if not _is_plain(value):
                return False
        elif isinstance(value, dict) or _compat.is_jaxpr(value):
            return False
        else:
            _PLAIN_TYPES.add(kind)
    return True


def _jaxprs_in(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if _compat.is_jaxpr(value):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _jaxprs_in(item, (*path, key))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _jaxprs_in(item, (*path, index))


def replace_nested(eqn: _compat.JaxprEqn, new: Mapping[str, Any]) -> _compat.JaxprEqn:
    """The equation with the jaxprs of some labels replaced by others of the same type."""
    params = dict(eqn.params)
    kept = False
    for nested in nested_jaxprs(eqn):
        jaxpr = new.get(nested.label, nested.stored)
        kept |= _compat.tag_effect in _compat.open_jaxpr(jaxpr).effects
        if nested.label in new:
            assert nested.param is not None, "hidden jaxprs are refused before"
            params = _with_item(params, nested.param, jaxpr)
    effects = eqn.effects if kept else set(eqn.effects) - {_compat.tag_effect}
    return eqn.replace(params=params, effects=effects)


def _with_item(container: Any, path: tuple[Any, ...], item: Any) -> Any:
    if not path:
        return item
    key, rest = path[0], path[1:]
    if isinstance(container, dict):
        return {**container, key: _with_item(container[key], rest, item)}
    items = [
        _with_item(value, rest, item) if index == key else value
        for index, value in enumerate(container)
    ]
    # A named tuple (custom_linear_solve's four jaxprs) keeps its type.
    return type(container)(*items) if hasattr(container, "_fields") else type(container)(items)
