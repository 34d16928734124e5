"""The table of higher-order primitives: one entry for each, read by all.

An entry says which jaxprs an equation holds, which of its operands feed them, and how a context is
threaded through them. Search, injection, edits and drawing read the same entry.
`taxpr._hops.protocol` defines an entry, `taxpr._hops.entries` has them, and `register_hop` adds the
entries of other libraries.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from taxpr import _compat
from taxpr._compat import JaxprEqn, Kind, StoredJaxpr
from taxpr._given import of_equation, refuse_no_equation
from taxpr._hops.nested import Change, Nested, ParamPath, plain
from taxpr._hops.protocol import Hop, Inject

# Entries of the primitives of a module; None while that is not imported.
Entries = Callable[[], "Mapping[Kind, Hop] | None"]


class _Table:
    """The entries, which may be read while another thread adds some.

    They are replaced as a whole, so a reader sees the old or the new entries.
    """

    def __init__(self) -> None:
        self.hops: Mapping[Kind, Hop] = {}
        self.changes = 0
        self.brought: set[Kind] = set()  # by others
        self._fixed: set[Kind] = set()
        self._later: list[Entries] = []
        self.without: set[Kind] = set()  # known to have no entry
        self._lock = threading.RLock()

    def add(self, entries: Mapping[Kind, Hop], *, fixed: bool = False) -> None:
        with self._lock:
            self._fixed.update(entries if fixed else ())
            self.hops = {**self.hops, **entries}
            self.without = self.without - entries.keys()
            self.changes += 1

    def bring(self, kind: Kind, hop: Hop) -> bool:
        with self._lock:
            if kind in self._fixed:
                return False
            self.brought.add(kind)
            self.add({kind: hop})
            return True

    def add_later(self, entries: Entries) -> None:
        with self._lock:
            self._later.append(entries)
            self.without = set()

    def add_loaded(self) -> None:
        with self._lock:
            for entries in list(self._later):
                if (found := entries()) is not None:
                    self._later.remove(entries)
                    # What the module itself has brought is newer than what we know of it.
                    self.add({k: hop for k, hop in found.items() if k not in self.brought})

    def get(self, kind: Kind) -> Hop | None:
        """The entry of a kind; None without one, as for all kinds that hold no jaxpr."""
        hop = self.hops.get(kind)
        if hop is not None or kind in self.without:
            return hop
        with self._lock:
            # A module that is imported later has primitives that nobody has seen yet.
            self.add_loaded()
            if kind not in self.hops:
                self.without.add(kind)
            return self.hops.get(kind)


_TABLE = _Table()


def register(kind: Kind | None, hop: Hop) -> None:
    """Add an entry of taxpr's own; None, a primitive that this JAX does not have, adds nothing.

    The results of the entry are not checked, and ``own_derivative=None`` means False.
    """
    if kind is not None:
        _TABLE.add({kind: hop}, fixed=True)


def bring(kind: Kind, hop: Hop) -> bool:
    """Add an entry of another library; False if taxpr's own entry stays."""
    return _TABLE.bring(kind, hop)


def register_when_loaded(entries: Entries) -> None:
    """Add the entries of a library once somebody has imported it."""
    _TABLE.add_later(entries)


def registered() -> Mapping[Kind, Hop]:
    """Our own entries, by `taxpr._compat.kind_of` of the equations.

    That is, as far as the modules of their primitives are imported.
    """
    _TABLE.add_loaded()
    return {kind: hop for kind, hop in _TABLE.hops.items() if kind not in _TABLE.brought}


def changes() -> int:
    """The number of changes of the table, as part of cache keys."""
    return _TABLE.changes


def _entry(eqn: JaxprEqn) -> Hop | None:
    return _TABLE.get(_compat.kind_of(eqn))


@of_equation
def nested_jaxprs(eqn: JaxprEqn) -> tuple[Nested, ...]:
    """The jaxprs that an equation holds, in the order of execution.

    Args:
        eqn: An equation of a jaxpr, of any primitive.

    Example:
        >>> import jax
        >>> from taxpr import nested_jaxprs, trace
        >>> program = trace(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x))(1.0)
        >>> [nested.title for nested in nested_jaxprs(program.eqns[0])]
        ['scan body']
    """
    kind, params = _compat.kind_of(eqn), eqn.params
    # Most equations hold none, and are asked again and again: for them, without further calls.
    if kind in _TABLE.without and _compat.HIDING_PARAM not in params:
        for value in params.values():
            if value.__class__ not in _PLAIN_TYPES:
                break
        else:
            return ()
    hop = _TABLE.get(kind)
    if hop is not None:
        return tuple(hop.nested(eqn))
    if _compat.HIDING_PARAM in params or not _is_plain(params.values()):
        return found_in_params(eqn)
    return ()


def rule_jaxprs(eqn: JaxprEqn) -> tuple[Nested, ...]:
    """The jaxprs that run instead of the equation's own when it is differentiated."""
    hop = _entry(eqn)
    return hop.rules(eqn) if hop and hop.rules else ()


def with_rules(eqn: JaxprEqn, change: Change) -> JaxprEqn:
    """The equation with all jaxprs of its rules changed; the same object if it has none."""
    hop = _entry(eqn)
    return hop.with_rules(eqn, change) if hop and hop.with_rules else eqn


def is_hop(eqn: JaxprEqn) -> bool:
    """Whether an equation holds jaxprs.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import is_hop, trace
        >>> program = trace(lambda x: jax.lax.map(jnp.sin, x) * 2)(jnp.ones(3))
        >>> [(eqn.primitive.name, is_hop(eqn)) for eqn in program.eqns]
        [('scan', True), ('mul', False)]
    """
    refuse_no_equation("is_hop", eqn)
    return bool(nested_jaxprs(eqn))


_IDLE = "it is there for derivatives, and a tag, which marks the primal only, never fires there"


@of_equation
def injectable(eqn: JaxprEqn, nested: Nested | None = None) -> str | None:
    """None if `inject` can enter the equation, else the reason why it refuses.

    Args:
        eqn: An equation that holds jaxprs, see `is_hop`.
        nested: One of its jaxprs, which may be refused by itself; None asks for the equation alone.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import injectable, trace
        >>> program = trace(lambda x: jax.lax.map(jnp.sin, x))(jnp.ones(3))
        >>> print(injectable(program.eqns[0]))
        None
    """
    hop = _entry(eqn)
    if hop is None:
        return (
            "taxpr has no rule for this primitive, so it does not know the order in which its "
            "jaxprs run, or how often (taxpr.register_hop adds one)"
        )
    if hop.refusal is not None or nested is None:
        return hop.refusal
    return nested.refusal or (_IDLE if nested.idle else None)


def dropped(eqn: JaxprEqn) -> str | None:
    """The param or rule that injection drops, in words; None if it keeps everything."""
    hop = _entry(eqn)
    return hop.drops if hop else None


def is_loop(eqn: JaxprEqn) -> bool:
    """Whether an equation is a loop, such as a scan or a while loop."""
    hop = _entry(eqn)
    return hop is not None and hop.loops


def in_loop(eqn: JaxprEqn, nested: Nested) -> bool:
    """Whether each iteration of a loop runs a nested jaxpr."""
    return is_loop(eqn) and not nested.once


def has_rules(eqn: JaxprEqn) -> bool:
    """Whether an equation has a derivative rule of its own, which only ``"drop"`` replaces."""
    hop = _entry(eqn)
    if hop is None or hop.own_derivative is not None:
        return hop is not None and bool(hop.own_derivative)
    # Where one of our entries says nothing, the rule is that of what runs.
    return is_brought(eqn) and _compat.has_jvp(eqn.primitive)


def is_brought(eqn: JaxprEqn) -> bool:
    """Whether the entry of an equation is another library's, which is checked."""
    return _compat.kind_of(eqn) in _TABLE.brought


def inject_rule(eqn: JaxprEqn) -> Inject | None:
    """The rule that threads a context through the equation, or None."""
    hop = _entry(eqn)
    return hop.inject if hop else None


def found_in_params(eqn: JaxprEqn) -> tuple[Nested, ...]:
    """The jaxprs in an equation's params, or hidden in them, whatever the primitive."""
    found: list[Nested] = []
    in_params = [(path, path, stored) for path, stored in _jaxprs_in(eqn.params, ())]
    concealed = _jaxprs_in(_compat.hidden(eqn), ())
    for path, param, stored in [*in_params, *((path, None, stored) for path, stored in concealed)]:
        label = "".join(f"[{part}]" if index else str(part) for index, part in enumerate(path))
        title = f"{eqn.primitive.name} {label}"
        # It is unknown how operands feed this jaxpr, and how often it runs.
        found.append(
            plain(label, title, param, stored, first_operand=None, trips=None, conditional=True)
        )
    return tuple(found)


# Types that are neither jaxprs nor containers of values, as they turn up among params.
_PLAIN_TYPES: set[type[Any]] = set()


def _is_plain(values: Iterable[Any]) -> bool:
    """A quick test that the values hold no jaxpr; values with a dict fail it without one, too."""
    for value in values:
        kind: type[Any] = value.__class__
        if kind in _PLAIN_TYPES:
            continue
        if kind is tuple or issubclass(kind, (tuple, list)):
            if not _is_plain(value):
                return False
        elif issubclass(kind, dict) or _compat.is_jaxpr(value):
            return False
        else:
            _PLAIN_TYPES.add(kind)
    return True


def _is_dict(value: object) -> TypeGuard[dict[str | int, Any]]:
    return isinstance(value, dict)


def _jaxprs_in(value: object, path: ParamPath) -> Iterator[tuple[ParamPath, StoredJaxpr]]:
    if _compat.is_jaxpr(value):
        yield path, value
    elif _is_dict(value):
        for key, item in value.items():
            yield from _jaxprs_in(item, (*path, key))
    elif _compat.is_sequence(value):
        for index, item in enumerate(value):
            yield from _jaxprs_in(item, (*path, index))


def replace_nested(eqn: JaxprEqn, new: Mapping[str, StoredJaxpr]) -> JaxprEqn:
    """The equation with the jaxprs of some labels replaced by others of the same type."""
    params = dict(eqn.params)
    kept = False
    hidden: list[Nested] = []
    for nested in nested_jaxprs(eqn):
        jaxpr = new.get(nested.label, nested.stored)
        kept |= _compat.tag_effect in _compat.open_jaxpr(jaxpr).effects
        if nested.label in new and nested.param is None:
            hidden.append(nested)
        elif nested.label in new:
            params = _with_item(params, nested.param or (), jaxpr)
    effects = eqn.effects if kept else set(eqn.effects) - {_compat.tag_effect}
    eqn = eqn.replace(params=params, effects=effects)
    for nested in hidden:
        assert nested.rebuilt is not None, "what cannot be replaced is refused before"
        eqn = nested.rebuilt(eqn, new[nested.label])
    return eqn


def _with_item(container: Any, path: ParamPath, item: StoredJaxpr) -> Any:
    if not path:
        return item
    key, rest = path[0], path[1:]
    if _is_dict(container):
        return {**container, key: _with_item(container[key], rest, item)}
    items = [
        _with_item(value, rest, item) if index == key else value
        for index, value in enumerate(container)
    ]
    # A named tuple (custom_linear_solve's four jaxprs) keeps its type.
    return type(container)(*items) if hasattr(container, "_fields") else type(container)(items)
