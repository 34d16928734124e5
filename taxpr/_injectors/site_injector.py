"""`SiteInjector`: the base of injectors that need to know the tag at which they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from taxpr._compat import PyTree
from taxpr._engine.handler import Handler
from taxpr._engine.inject import handler_for
from taxpr._engine.iterations import Counters, loops_around
from taxpr._injectors.injector import Injector
from taxpr._sites.site import Site


class SiteInjector(Injector):
    """An `Injector` whose calls also get the site.

    Attributes:
        keeps_state: Whether they never change the state.
        of_examples: Whether they may run for each example of a batch, by `per_example`.
    """

    keeps_state: ClassVar[bool] = False
    of_examples: ClassVar[bool] = False

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        """For each loop around a site, outermost first, whether calls need its iteration.

        Args:
            site: The tag.
            part: A tree with the structure of the context that the site sees.
        """
        del part
        return [False] * len(loops_around(site))

    def fire_at(
        self, site: Site, index: Sequence[Any], ctx: PyTree, token: PyTree, params: dict[str, Any]
    ) -> tuple[PyTree, PyTree]:
        """Inject at a site.

        Args:
            site: The tag.
            index: For each loop around it, outermost first, the place of the iteration on the
                axis of collected values, int32; None where it is not ``counted``.
            ctx: The part of the context that the site sees.
            token: The token.
            params: The params of the tag.

        Returns:
            ``(token, ctx)``.
        """
        raise NotImplementedError


def site_handler(injector: Injector, site: Site, indices: Any, counters: Counters) -> Handler:
    """The handler of an injector at a site.

    ``indices`` has the index of each leaf of the injector's context in its place.
    """
    part = injector.part_of(indices, site.address)
    own, tree = jax.tree.flatten(part)
    if not isinstance(injector, SiteInjector):
        return handler_for(injector, tree, tuple(own), injector.observes)
    loops = counters.of(site, injector.counted(site, part), injector.observes)

    def run(ctx: PyTree, token: PyTree, params: dict[str, Any]) -> Any:
        mine, counts = ctx
        left = iter(counts)
        index = [loop and loop.index(next(left)) for loop in loops]
        result = injector.fire_at(site, index, mine, token, params)
        if not (isinstance(result, tuple) and len(result) == 2):
            return result  # for whoever called to complain about
        injector.check_token(token, result[0])
        return result[0], (result[1], counts)

    run.__name__ = injector.name
    counts = [loop.counter for loop in loops if loop]
    uses = (*own, *counts)
    return handler_for(run, jax.tree.structure((part, counts)), uses, injector.observes)
