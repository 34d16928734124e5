"""Attaching injectors to tags: handlers, the context to begin with, the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from taxpr._criteria import Maybe
from taxpr._errors import InjectorError, SelectorError
from taxpr._inject import handler_for
from taxpr._injector import Injector, InjectorKind, from_function
from taxpr._selectors import select
from taxpr._thread import Handler
from taxpr._walk import Site


class Attached(NamedTuple):
    """Injectors at their sites.

    Attributes:
        chosen: The sites with their handlers.
        ctx: The context to begin with.
        report: ``(ctx) -> dict``: what a final context says.
    """

    chosen: list[tuple[Site, Handler]]
    ctx: Any
    report: Callable[[Any], dict[str, Any]]


def attach_function(fn: Callable[..., Any], ctx: Any, sites: Sequence[Site]) -> Attached:
    """A function at all of the sites, with one context."""
    handler = handler_for(fn, jax.tree.structure(ctx))
    return Attached([(site, handler) for site in sites], ctx, lambda ctx: {"ctx": ctx})


def attach_one(injector: Injector, sites: Sequence[Site]) -> Attached:
    """An injector at all of the sites, with a context of its own."""
    ctx = injector.initial(sites)
    return Attached(_at_sites(injector, sites, _indexed(ctx)), ctx, injector.report_of)


def attach_many(mapping: Mapping[Any, Any], sites: Sequence[Site]) -> Attached:
    """Injectors at the sites that their keys select, with a dict of contexts.

    Raises:
        SelectorError: If a key selects nothing, or two select one site.
        InjectorError: If a value is no injector.
    """
    injectors: dict[str, Injector] = {}
    chosen: dict[str, list[Site]] = {}
    taken: dict[str, str] = {}
    for where, given in mapping.items():
        key, found = _key(where), select(sites, where)
        if key in injectors:
            raise SelectorError(f"inject: the mapping has the key {key!r} twice.")
        for site in found:
            if site.address in taken:
                raise SelectorError(
                    f"inject: {taken[site.address]!r} and {key!r} both select the {site}. "
                    "Select each tag once."
                )
            taken[site.address] = key
        check_injector(given)
        injectors[key] = given if isinstance(given, Injector) else from_function(given)
        chosen[key] = found
    ctx = {key: one.initial(chosen[key]) for key, one in injectors.items()}
    indices = _indexed(ctx)
    pairs = [
        pair for key, one in injectors.items() for pair in _at_sites(one, chosen[key], indices[key])
    ]

    def report(ctx: dict[str, Any]) -> dict[str, Any]:
        return {key: one.report_of(ctx[key]) for key, one in injectors.items()}

    return Attached(pairs, ctx, report)


def check_injector(given: Any) -> None:
    """Raise where something is no injector."""
    if isinstance(given, InjectorKind):
        raise InjectorError(f"inject: {given.name} needs its values: {given.name}().")
    if not callable(given):
        raise InjectorError(
            f"inject: {given!r} is a {type(given).__name__}. An injector is made by a kind, "
            "as in scale(0.5), or is a function (ctx, token, params) -> (token, ctx)."
        )


def _key(where: Any) -> str:
    if isinstance(where, str):
        return where
    if isinstance(where, Maybe):
        return _key(where.where)
    return where.address if isinstance(where, Site) else repr(where)


def _indexed(ctx: Any) -> Any:
    """The structure of a context with the index of each leaf in its place."""
    leaves, tree = jax.tree.flatten(ctx)
    return jax.tree.unflatten(tree, range(len(leaves)))


def _at_sites(
    injector: Injector, sites: Sequence[Site], indices: Any
) -> list[tuple[Site, Handler]]:
    """The sites with their handlers; ``indices`` has the index of each leaf of its context."""
    chosen = []
    for site in sites:
        uses, tree = jax.tree.flatten(injector.part_of(indices, site.address))
        chosen.append((site, handler_for(injector, tree, tuple(uses))))
    return chosen
