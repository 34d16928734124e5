"""Attach injectors to tags: make their handlers, the initial context, and the report."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax

from taxpr._compat import Array, JaxprEqn, PyTree
from taxpr._engine.handler import Handled, Handler
from taxpr._engine.inject import handler_for
from taxpr._engine.iterations import Counters
from taxpr._errors import SelectorError, name_of
from taxpr._hops.protocol import Options
from taxpr._injectors.as_injector import Chain, Given, as_injector, in_some
from taxpr._injectors.injector import Injector
from taxpr._injectors.parameters import Parameter
from taxpr._injectors.site_injector import SiteInjector, site_handler
from taxpr._sites.criteria import Maybe, Places, Selector, is_list
from taxpr._sites.site import Site
from taxpr._sites.skipped import Skipped, merged
from taxpr._where.pick import pick_tags


class Attached(NamedTuple):
    """Injectors at their sites.

    Attributes:
        chosen: The sites with their handlers.
        counters: The counters of loops that the handlers use.
        ctx: The initial context.
        report: ``(ctx, initial) -> dict``: makes a report of a final context. ``initial`` is the
            initial context if states are stacked, one for each device, else None.
        no_sums: The leaves of the context that are no sums, by index; see `Options`.
        read_only: The leaves of the context that do not change, by index.
        parameters: The parameters of the injectors and their places in the context.
        skipped: The places that selectors skipped.
    """

    chosen: list[tuple[Site, Handler]]
    counters: Counters
    ctx: PyTree
    report: Callable[[PyTree, PyTree], PyTree]
    no_sums: dict[int, str]
    read_only: frozenset[int]
    parameters: tuple[Parameter, ...]
    skipped: tuple[Skipped, ...] = ()


def attach_function(
    fun: Callable[..., tuple[PyTree, PyTree]], ctx: PyTree, sites: Sequence[Site]
) -> Attached:
    """Attach a function to all sites, with one context."""
    handler = handler_for(fun, jax.tree.structure(ctx))
    chosen = [(site, handler) for site in sites]

    def report(ctx: PyTree, _: PyTree) -> PyTree:
        return {"ctx": ctx}

    return Attached(chosen, Counters(0), ctx, report, {}, frozenset(), ())


def attach_one(injector: Injector | Chain, sites: Sequence[Site], options: Options) -> Attached:
    """Attach an injector, or a chain of them, to all sites."""
    attached = _attached({None: (_at(injector, sites), sites)}, options)

    told = attached.report

    def report(final: PyTree, initial: PyTree) -> PyTree:
        return told({None: final}, {None: initial})[None]

    return attached._replace(ctx=attached.ctx[None], report=report)


def attach_many(
    pairs: Iterable[tuple[Selector, Given]], sites: Sequence[Site], options: Options
) -> Attached:
    """Attach injectors to the sites that their selectors mean, with a dict of contexts.

    Raises:
        SelectorError: If a key selects nothing, or two select one site.
        InjectorError: If a value is no injector.
    """
    parts: dict[str | None, tuple[Injector | Chain, Sequence[Site]]] = {}
    taken: dict[str, str] = {}
    skipped: list[tuple[Skipped, ...]] = []
    for where, given in pairs:
        where, given = in_some(where, given)
        key, (found, over) = _key(where), pick_tags(sites, where, change=True)
        skipped.append(over)
        if _has_predicate(where):
            key = _unused(key, parts)
        if key in parts:
            raise SelectorError(f"inject: the mapping has the key {key!r} twice.")
        for site in found:
            if site.address in taken:
                raise SelectorError(
                    f"inject: {taken[site.address]!r} and {key!r} both select the {site}. "
                    "Select each tag once; several injectors for one tag are a list, run in its "
                    "order: {where: [first, second]}."
                )
            taken[site.address] = key
        parts[key] = _at(as_injector(given), found), found
    return _attached(parts, options)._replace(skipped=merged(*skipped))


def _attached(
    parts: dict[str | None, tuple[Injector | Chain, Sequence[Site]]], options: Options
) -> Attached:
    """Attach injectors to sites, with a dict of contexts; the key may be None."""
    ctx = {key: _initial(*part) for key, part in parts.items()}
    indices = _indexed(ctx)
    counters = Counters(jax.tree.structure(ctx).num_leaves, options)
    chosen: list[tuple[Site, Handler]] = []
    no_sums: dict[int, str] = {}
    read_only: set[int] = set()
    parameters: list[Parameter] = []
    for key, (one, sites) in parts.items():
        chosen += _at_sites(one, sites, indices[key], counters)
        no_sums |= _no_sums(one, indices[key])
        read_only |= _read_only(one, indices[key])
        parameters += _parameters(key, one, indices[key])

    injectors = {key: one for key, (one, _) in parts.items()}
    # A report keeps no sites, which hold the program.
    tags: dict[str, JaxprEqn] = {site.address: site.eqn for site, _ in chosen}

    def report(final: PyTree, initial: PyTree) -> PyTree:
        before = initial or dict.fromkeys(injectors)
        return {key: _report(one, final[key], before[key], tags) for key, one in injectors.items()}

    read = frozenset(read_only)
    return Attached(chosen, counters, ctx, report, no_sums, read, tuple(parameters))


def _at(given: Injector | Chain, sites: Sequence[Site]) -> Injector | Chain:
    if isinstance(given, tuple):
        return tuple(one.at(sites) for one in given)
    return given.at(sites)


def _initial(given: Injector | Chain, sites: Sequence[Site]) -> PyTree:
    if isinstance(given, tuple):
        return tuple(one.initial(sites) for one in given)
    return given.initial(sites)


def _report(
    given: Injector | Chain, ctx: PyTree, initial: PyTree, tags: Mapping[str, JaxprEqn]
) -> PyTree:
    if isinstance(given, tuple):
        each = zip(given, ctx, initial or (None,) * len(given), strict=True)
        return tuple(_report(*one, tags) for one in each)
    return given.report_of(ctx, initial, tags)


def _no_sums(given: Injector | Chain, indices: PyTree) -> dict[int, str]:
    """The indices of the leaves of states that do not add up, with the injector's name."""
    if isinstance(given, tuple):
        return {
            k: v for pair in zip(given, indices, strict=True) for k, v in _no_sums(*pair).items()
        }
    return {} if given.adds_up else dict.fromkeys(jax.tree.leaves(indices["state"]), given.name)


def _read_only(given: Injector | Chain, indices: PyTree) -> set[int]:
    """The indices of leaves that do not change: values, and states of injectors that keep them."""
    if isinstance(given, tuple):
        return {k for pair in zip(given, indices, strict=True) for k in _read_only(*pair)}
    stays = isinstance(given, SiteInjector) and given.keeps_state
    return set(jax.tree.leaves((indices["values"], indices["state"] if stays else ())))


def _parameters(key: str | None, given: Injector | Chain, indices: PyTree) -> Iterator[Parameter]:
    if isinstance(given, tuple):
        for one, part in zip(given, indices, strict=True):
            yield from _parameters(key, one, part)
        return
    for name, leaves in indices["values"].items():
        yield Parameter(key, given.name, name, leaves)


def _key(where: Selector) -> str:
    """The key of a selector's context. It is equal in each run, so it contains no ``id()``."""
    if isinstance(where, (str, Places)):
        return where if isinstance(where, str) else where.text
    if isinstance(where, Maybe):
        return _key(where.where)
    if isinstance(where, Site):
        return where.address
    if is_list(where):
        return f"({', '.join(repr(one) if isinstance(one, str) else _key(one) for one in where)})"
    if not callable(where):
        return repr(where)
    fun = getattr(where, "func", where)  # of a partial
    name = getattr(fun, "__qualname__", None) or name_of(fun)
    code = getattr(fun, "__code__", None)
    return f"{name}:{code.co_firstlineno}" if code else name


def _has_predicate(where: Selector) -> bool:
    if isinstance(where, Maybe):
        return _has_predicate(where.where)
    return any(map(_has_predicate, where)) if is_list(where) else callable(where)


def _unused(key: str, taken: Collection[str | None]) -> str:
    """The key, with a number appended if one line has several lambdas."""
    numbered = (key if k == 1 else f"{key} #{k}" for k in itertools.count(1))
    return next(one for one in numbered if one not in taken)


def _indexed(ctx: PyTree) -> PyTree:
    """The context with each leaf replaced by its index."""
    leaves, tree = jax.tree.flatten(ctx)
    return jax.tree.unflatten(tree, range(len(leaves)))


def _at_sites(
    given: Injector | Chain, sites: Sequence[Site], indices: PyTree, counters: Counters
) -> list[tuple[Site, Handler]]:
    """The sites with their handlers; ``indices`` has the index of each leaf of its context.

    Sites with the same work share one handler object, because the engine compares handlers by
    identity.
    """
    injectors, parts = (given, indices) if isinstance(given, tuple) else ((given,), (indices,))
    made: dict[Hashable, Handler] = {}
    pairs: list[tuple[Site, Handler]] = []
    for site in sites:
        row: list[Handler] = []
        for k, (one, part) in enumerate(zip(injectors, parts, strict=True)):
            handler = site_handler(one, site, part, counters)
            own = isinstance(one, SiteInjector)
            row.append(handler if own else made.setdefault((k, handler.uses), handler))
        whole = row[0]
        if isinstance(given, tuple):
            whole = made.setdefault(tuple(map(id, row)), _in_order(row))
        pairs.append((site, whole))
    return pairs


def _in_order(handlers: Sequence[Handler]) -> Handler:
    """One handler that runs several, each with its own leaves of the context."""
    parts = [handler.uses or () for handler in handlers]
    uses = tuple(dict.fromkeys(index for part in parts for index in part))

    def run(address: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        now = dict(zip(uses, ctx, strict=True))
        for handler, part in zip(handlers, parts, strict=True):
            new, changed, _ = handler.run(address, eqn, [now[k] for k in part], token)
            now.update(zip(part, new, strict=True))
            token = list(changed)
        return list(now.values()), token, None

    return Handler(
        run,
        uses,
        injects=handlers[0].injects,
        observes=all(handler.observes for handler in handlers),
        seen=tuple(index for handler in handlers for index in handler.seen),
    )
