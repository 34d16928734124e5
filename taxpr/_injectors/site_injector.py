"""`SiteInjector`: the base of injectors that need to know their tag."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import jax

from taxpr._compat import Array, Params, PyTree
from taxpr._engine.handler import Handler
from taxpr._engine.inject import handler_for
from taxpr._engine.iterations import Counters, loops_around
from taxpr._errors import InjectorError
from taxpr._injectors.injector import Injector
from taxpr._sites.site import Site


class Firing(NamedTuple):
    """One firing of a tag.

    Attributes:
        site: The tag.
        places: For each loop around it, outermost first, the place of the iteration on the axis of
            collected values, int32; None where it is not ``counted``.
        params: The params of the tag.
    """

    site: Site
    places: Sequence[Array | None]
    params: Params


class SiteInjector(Injector):
    """An `Injector` whose calls also get the site.

    Attributes:
        keeps_state: Whether they never change the state.
        of_examples: Whether they may run for each example of a batch, by `per_example`.
    """

    keeps_state: ClassVar[bool] = False
    of_examples: ClassVar[bool] = False

    @classmethod
    def of(cls, given: Injector, /, **more: Any) -> Self:
        """An injector as one of this class, with more fields."""
        fields = {one.name: getattr(given, one.name) for one in dataclasses.fields(Injector)}
        return cls(**fields | more)

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        """For each loop around a site, outermost first, whether calls need its iteration.

        Args:
            site: The tag.
            part: A tree with the structure of the context that the site sees.
        """
        del part
        return [False] * len(loops_around(site))

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        """Inject at a site: ``(token, ctx)``; ``ctx`` is the part of the context that it sees."""
        raise NotImplementedError


def inject_at(one: Injector, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
    """Inject by an injector, whether it needs to know the tag or not."""
    if isinstance(one, SiteInjector):
        return one.fire_at(at, ctx, token)
    return one(ctx, token, at.params)


def without_site(name: str) -> Callable[..., NoReturn]:
    """Raise where an injector that needs the tag is called without one."""

    def fire(*_: object) -> NoReturn:
        raise InjectorError(f"{name}: it runs at the tags of a program: attach it by inject.")

    return fire


def site_handler(injector: Injector, site: Site, indices: PyTree, counters: Counters) -> Handler:
    """The handler of an injector at a site.

    ``indices`` has the index of each leaf of the injector's context in its place.
    """
    part = injector.part_of(indices, site.address)
    own, tree = jax.tree.flatten(part)
    if not isinstance(injector, SiteInjector):
        return handler_for(injector, tree, tuple(own), injector.observes)
    loops = counters.of(site, injector.counted(site, part), injector.observes)

    def run(ctx: PyTree, token: PyTree, params: Params) -> tuple[PyTree, PyTree]:
        mine, counts = ctx
        left = iter(counts)
        index = [loop and loop.index(next(left)) for loop in loops]
        result = injector.fire_at(Firing(site, index, params), mine, token)
        if not (isinstance(result, tuple) and len(result) == 2):
            return result  # for whoever called to complain about
        injector.check_token(token, result[0])
        return result[0], (result[1], counts)

    run.__name__ = injector.name
    counts = [loop.counter for loop in loops if loop]
    uses = (*own, *counts)
    return handler_for(run, jax.tree.structure((part, counts)), uses, injector.observes)
