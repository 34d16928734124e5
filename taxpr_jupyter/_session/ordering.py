"""Several injectors of one tag: add one, put them in order, switch one of them."""

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

from taxpr_jupyter._edits.attach import make
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edited import Place, Several
from taxpr_jupyter._edits.in_order import together
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.trials import Trials
from taxpr_jupyter._store.store import Store


class Ordering:
    """Changes which injectors a tag has, and their order.

    It looks the injectors up while the store is locked: else those that another thread adds
    meanwhile would be lost.
    """

    def __init__(self, store: Store, trials: Trials) -> None:
        self._store = store
        self._trials = trials

    @overload
    def append(  # pyright: ignore[reportOverlappingOverload] - a place can be anything
        self, address: Several, injector: Any, *, ctx: Any = (), **values: Any
    ) -> list[Attached]: ...

    @overload
    def append(
        self, address: Place, injector: Any, *, ctx: Any = (), **values: Any
    ) -> Attached: ...

    def append(self, address: Place, injector: Any, *, ctx: Any = (), **values: Any) -> Any:
        """Attaches a further injector to a tag: it gets what those before it have made.

        The parameters are then called ``scale.factor``, ``add.value`` and so on.

        Args:
            address: As for `attach`.
            injector: As for `attach`. Injectors by `taxpr.switched` and its like are refused.
            ctx: The first context of a function.
            **values: Values of the injector's parameters.

        Returns:
            All injectors of the tag, as they are attached together; for a list it is a list.

        Raises:
            PanelError: As for `attach`.

        Warns:
            UserWarning: As for `attach`.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.cos(x) + 1, (0.0,))
            >>> attached = session.attach("0:cos", "scale", factor=3.0)
            >>> print(session.append("0:cos", "2 - x"))
            scale(factor=3), 2 - x
            >>> float(session.run().outputs)
            0.0
            >>> session.arrange("0:cos", [1, 0])
            >>> float(session.run().outputs)
            4.0
        """

        def place(one: Place) -> Attached:
            site = self._store.edited.site(one, or_list=True)
            if site is None or site.injector is None:
                return self._trials.put(one, injector, ctx, values)
            made = make(site.key, injector, ctx, values, self._store.namespace)
            return self._put(site.injector, [*site.injector.each, made])

        return self._trials.attach_at(address, place)

    def arrange(self, address: Place, order: Sequence[int]) -> None:
        """Puts the injectors of a tag in another order; those that are not named are removed.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`.
            order: Their numbers, from 0, in the new order.

        Raises:
            PanelError: The tag has no injectors with these numbers.
        """

        def place() -> Attached:
            before = self.injector(address)
            every = before.each
            if not order or len(set(order)) < len(order) or not {*order} <= {*range(len(every))}:
                raise PanelError(f"{_has(every)}, from 0: {order} is no order")
            return self._put(before, [every[k] for k in order])

        self._trials.attach("injectors", place)

    def switch(self, address: Place, on: bool, part: int) -> None:
        """Switches one of the injectors of a tag, see `Editor.switch`."""

        def place() -> Attached:
            before = self.injector(address)
            every = before.each
            if not 0 <= part < len(every):
                raise PanelError(f"{_has(every)}, and none number {part}")
            every[part] = dataclasses.replace(every[part], off=not on)
            return self._put(before, every)

        self._trials.attach("injectors", place)

    def injector(self, address: Place, *, or_list: bool = False) -> Attached:
        """The injector of a tag, or several as one.

        Raises:
            PanelError: If there is no such tag, or it has none.
        """
        site = self._store.edited.the_site(address, or_list=or_list)
        if site.injector is None:
            raise PanelError(f"The tag {site.title} has no injector")
        return site.injector

    def _put(self, before: Attached, every: Sequence[Attached]) -> Attached:
        """Replaces the injectors of a tag by others, to be tried out."""
        bare = {"error": None, "note": "", "warned": (), "trial": None, "edits": False}
        new = together([dataclasses.replace(one, **bare) for one in every])
        off = new.off or (bool(before.parts) and before.off)
        new = dataclasses.replace(new, key=before.key, variable=before.variable, off=off)
        return self._store.place(self._trials.pending(new))


def _has(every: Sequence[Attached]) -> str:
    return f"The tag has {count_of(len(every), 'injector')}"
