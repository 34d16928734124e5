"""Several injectors of one tag: add one, put them in order, switch one, set its context."""

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

from taxpr_jupyter._edits.attach import make
from taxpr_jupyter._edits.attached import Attached, Unread
from taxpr_jupyter._edits.edited import Place, Several
from taxpr_jupyter._edits.in_order import must_be_alone, together
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
            for each in (*site.injector.each, made):
                if alone := must_be_alone(each.name, each.injector):
                    raise PanelError(f"{alone}: {site.title}")
            return self._put(site.injector, [*_labelled(site.injector), ("", made)])

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
            labelled = _labelled(before)
            return self._put(before, [labelled[k] for k in order])

        self._trials.attach("injectors", place)

    def switch(self, address: Place, on: bool, part: int) -> None:
        """Switches one of the injectors of a tag, see `Editor.switch`."""

        def place() -> Attached:
            before = self.injector(address)
            one = _part(before, part)
            return self._replaced(before, part, dataclasses.replace(one, off=not on))

        self._trials.attach("injectors", place)

    def set_ctx(self, address: Place, ctx: Any, part: int | None = None) -> None:
        """Sets the first context of a function that is attached.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`.
            ctx: A PyTree of arrays and numbers.
            part: Which of several injectors of the tag, from 0; None for the one with a context.

        Raises:
            PanelError: If there is no such function.
        """

        def place() -> Attached:
            before = self.injector(address)
            if part is None and not before.parts:
                return self._store.place(self._trials.pending(before.with_ctx(ctx)))
            named = [k for k, one in enumerate(before.each) if one.kind == "function"]
            asking = [k for k, one in enumerate(before.each) if one.asks_ctx] or named
            if part is None and len(asking) != 1:
                one_of = f": give part=, one of {', '.join(map(str, asking))}" if asking else ""
                title = self._store.edited.the_site(address).title
                raise PanelError(
                    f"{before.name} at the tag {title} have {len(asking) or 'no'} contexts{one_of}"
                )
            k = asking[0] if part is None else part
            now = ctx.read() if isinstance(ctx, Unread) else ctx
            return self._replaced(before, k, _part(before, k).with_ctx(now))

        self._trials.attach("injectors", place)

    def label(self, address: Place, labels: Sequence[str]) -> None:
        """Gives the values of the injectors of a tag the names that begin with these labels."""

        def place() -> Attached:
            before = self.injector(address)
            if not labels or list(labels) == [label for label, _ in before.parts]:
                return before
            return self._put(before, list(zip(labels, before.each, strict=True)))

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

    def _put(self, before: Attached, every: Sequence[tuple[str, Attached]]) -> Attached:
        """Replaces the injectors of a tag by others, to be tried out.

        Args:
            before: The injectors, or one.
            every: The new ones, each with its label; those without one are the last.
        """
        if any(one.unread for _, one in every):
            raise PanelError(f"The context of {before.name} is still computed: try again after it")
        bare = {"error": None, "note": "", "warned": (), "trial": None, "edits": False}
        known = [label for label, _ in every if label]
        new = together([dataclasses.replace(one, **bare) for _, one in every], known)
        off = new.off or (bool(before.parts) and before.off)
        new = dataclasses.replace(new, key=before.key, variable=before.variable, off=off)
        return self._store.place(self._trials.pending(new))

    def _replaced(self, before: Attached, part: int, new: Attached) -> Attached:
        """Replaces one of the injectors of a tag."""
        every = _labelled(before)
        every[part] = every[part][0], new
        return self._put(before, every)


def _part(attached: Attached, part: int) -> Attached:
    every = attached.each
    if not 0 <= part < len(every):
        raise PanelError(f"{_has(every)}, and none number {part}")
    return every[part]


def _labelled(attached: Attached) -> list[tuple[str, Attached]]:
    """The injectors of a tag, each with the beginning of the names of its values; one has none."""
    labels = [label for label, _ in attached.parts] or [""]
    return list(zip(labels, attached.each, strict=True))


def _has(every: Sequence[Attached]) -> str:
    return f"The tag has {count_of(len(every), 'injector')}"
