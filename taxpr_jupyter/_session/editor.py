"""The part of a session that changes the program: tags, injectors, their values."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, overload

from taxpr_jupyter._edits.attach import Choice, choices
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edited import Edited, Place, Several
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._edits.steps import EditStep
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.ordering import Ordering
from taxpr_jupyter._session.trials import Trials
from taxpr_jupyter._store.store import Store, without
from taxpr_jupyter._store.tracer import Tracer
from taxpr_jupyter._tracing.changed import SourceChange


class Editor:
    """Adds and removes tags and injectors."""

    def __init__(self, store: Store, trials: Trials, tracer: Tracer, ordering: Ordering) -> None:
        self._store = store
        self._trials = trials
        self._ordering = ordering
        self._tracer = tracer

    def choices(self) -> dict[str, Choice]:
        """The names for `attach`: ready injectors, and functions of the namespace."""
        return choices(self._store.namespace)

    def sites(self) -> tuple[SiteRow, ...]:
        """All tags in program order, from the source and added ones."""
        with self._store.lock:
            return self._store.edited.sites

    @overload
    def tag(  # pyright: ignore[reportOverlappingOverload] - a place can be anything
        self, address: Several, name: str | None = None, **params: Any
    ) -> list[str]: ...

    @overload
    def tag(self, address: Place, name: str | None = None, **params: Any) -> str: ...

    def tag(self, address: Place, name: str | None = None, **params: Any) -> Any:
        """Tags a value.

        A value that was tagged so before stays as it is: a cell may run again.

        Args:
            address: The value, or an equation with one result; a variable, such as ``"loss.h"`` or
                ``"h#1"`` for its second value; or a selector of one value such as `taxpr.var`. A
                list means all values of its items. Those with a tag keep it.
            name: The tag's name; by default the variable that held the value, or ``tag1``,
                ``tag2``, …. Of several values the others get a number after it.
            **params: More params of the tag.

        Returns:
            The address of the value; for a list it is a list.

        Raises:
            PanelError: If there is no such value, or its tag exists or may not be called so.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> session.tag("0:sin", name="s")
            '0:sin.0'
        """
        if isinstance(address, list):
            return self._tag_all(address, name, params)
        with self._store.change("tags"):
            site = self._store.edited.site(address, or_list=True)
            own = name or (site.name if site else None)  # tagged before by its own name
            if site is not None and site.added and site.params == {"name": own, **params}:
                return site.key
            key = self._store.edited.untagged_value(address)
            params = {"name": self._store.edited.new_name(name, key), **params}
            self._store.put(tags={**self._store.edits.tags, key: params})
            return key

    def untag(self, address: Place) -> None:
        """Removes an added tag, with its injector.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`. A
                list means all tags that were added at the values of its items.

        Raises:
            PanelError: If there is no such tag, or it is in the source.
        """
        several = isinstance(address, list)
        with self._store.change("tags") as step:
            if several:
                sites = [site for site in self._sites_at(address) if site.added]
                step.text = f"no tag at {count_of(len(sites), 'value')}"
            else:
                sites = [self._added(address, "removed", or_list=True)]
            if not sites:
                raise PanelError("None of these values has a tag that was added")
            edits, gone = self._store.edits, [site.key for site in sites]
            self._tracer.put(
                tags=without(edits.tags, *gone), attached=without(edits.attached, *gone)
            )

    def rename(self, address: Place, name: str) -> None:
        """Gives an added tag another name.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`.
            name: The new name.

        Raises:
            PanelError: If there is no such tag, it is in the source, or the name is taken.
        """
        with self._store.change("tags"):
            site = self._added(address, "renamed")
            if name != site.name:
                params = {**site.params, "name": self._store.edited.new_name(name)}
                self._store.put(tags={**self._store.edits.tags, site.key: params})

    @overload
    def attach(  # pyright: ignore[reportOverlappingOverload]
        self, address: Several, injector: Any, *, ctx: Any = (), **values: Any
    ) -> list[Attached]: ...

    @overload
    def attach(
        self, address: Place, injector: Any, *, ctx: Any = (), **values: Any
    ) -> Attached: ...

    def attach(self, address: Place, injector: Any, *, ctx: Any = (), **values: Any) -> Any:
        """Attaches an injector to a tag; a value without a tag is tagged first.

        The injector is tried out at once, without running anything. If it raises, or
        changes a shape, it stays attached with the reason in `Attached.error`. Warnings of taxpr,
        such as about an unchanged derivative, are in `Attached.note`, too.

        If the program differentiates the value of a variable, an injector without a state, or a
        function without a context, edits the source there, as `taxpr.edit` does: the program is
        traced anew, so derivatives are the changed function's, and other addresses may change. If
        that is not possible, it stays an injection, and the note says why.

        Args:
            address: A tag or a value, or a tag's name; a variable, see `tag`; or a selector such as
                `taxpr.var`. A list means all values of its items, in one step to undo.
            injector: The name of a ready injector or of a function in the notebook; a line of
                Python, ``"2 * x"`` or ``"lambda h: 2 * h"``; a `taxpr.injectors.Injector`; or a
                function ``(ctx, token, params) -> (token, ctx)``.
            ctx: The first context of a function.
            **values: Values of the injector's parameters.

        Returns:
            The injector as it is attached; `set_value` changes it. For a list it is a list.

        Raises:
            PanelError: If there is no such value or injector, or it has no such parameter.

        Warns:
            taxpr.errors.StaleDerivativeWarning: See `taxpr.Program.inject`.
            taxpr.errors.DroppedRuleWarning: See `taxpr.Program.inject`.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> session.set_value("0:sin", "value", 3.0)
            >>> session.injectors["0:sin.0"].values
            {'value': 3.0}
        """
        return self._trials.attach_at(
            address, lambda one: self._trials.put(one, injector, ctx, values)
        )

    def detach(self, address: Place) -> None:
        """Removes the injector of a tag; the tag stays.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`. A
                list means all injectors at the values of its items.

        Raises:
            PanelError: If it has none.
        """
        several = isinstance(address, list)
        with self._store.change("injectors") as step:
            if several:
                gone = [site.key for site in self._sites_at(address) if site.injector]
                step.text = f"no injector at {count_of(len(gone), 'value')}"
            else:
                gone = [self._ordering.injector(address, or_list=True).key]
            if not gone:
                raise PanelError("None of these values has an injector")
            self._tracer.put(attached=without(self._store.edits.attached, *gone))

    def switch(self, address: Place, on: bool, part: int | None = None) -> None:
        """Switches an injector off, so that it stays with its values and does nothing, or on again.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`. A
                list means all injectors at the values of its items.
            on: Whether it is to act.
            part: Which of several injectors of the tag, from 0; None for all together.

        Raises:
            PanelError: If it has none, or the source cannot be traced with it.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.0,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> session.switch("0:sin", on=False)
            >>> float(session.run().outputs), str(session.injectors["0:sin.0"])
            (1.0, 'add(value=2), off')
        """
        if part is not None:
            self._ordering.switch(address, on, part)
            return
        program = self._store.program
        with self._store.change("values"):
            if isinstance(address, list):
                every = [site.injector for site in self._sites_at(address) if site.injector]
            else:
                every = [self._ordering.injector(address, or_list=True)]
            if not every:
                raise PanelError("None of these values has an injector")
            now = {one.key: dataclasses.replace(one, off=not on) for one in every}
            self._tracer.put(attached={**self._store.edits.attached, **now})
        if self._store.program is program:
            self._store.tell("folding")  # pictures show injectors that act

    def set_value(
        self, address: Place | Several, param: str, value: Any, *, step: Hashable = None
    ) -> None:
        """Sets a parameter of an injector. Nothing is traced or compiled again.

        Except for integers and bools of a plain function: these are fixed when it is traced, so it
        is tried out again.

        Args:
            address: The tag or its value, or the tag's name; or a selector such as `taxpr.var`. A
                list means all injectors at the values of its items, as one step.
            param: The name of the parameter.
            value: Its value.
            step: `undo` takes back all values of it in a row with an equal ``step``.

        Raises:
            PanelError: If there is no such injector or parameter, or it cannot have that value; of
                several none is changed then.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.tanh(jnp.sin(x)), (0.5,))
            >>> attached = session.attach(["0:sin", "1:tanh"], "scale")
            >>> session.set_value(["0:sin", "1:tanh"], "factor", 0.5)
            >>> [str(one) for one in session.injectors.values()]
            ['scale(factor=0.5)', 'scale(factor=0.5)']
        """

        def changed(now: Attached) -> Attached:
            new = now.with_value(param, value)
            changes = [SourceChange(one.variable, one.injector).key for one in (now, new)]
            traced_anew = new.error or changes[0] != changes[1]
            return self._trials.pending(new) if traced_anew else new

        def place() -> Attached:
            if isinstance(address, list):
                every = [site.injector for site in self._sites_at(address) if site.injector]
                if not every:
                    raise PanelError("None of these values has an injector")
            else:
                every = [self._ordering.injector(address, or_list=True)]
            made = [self._store.place(one) for one in [changed(one) for one in every]]
            return next((one for one in made if one.trial), made[-1])

        self._trials.attach("values", place, kind=(str(address), param, step))
        if isinstance(address, list):
            self._trials.try_rest()

    def undo(self) -> str:
        """Takes back the last step: a tag, an injector or its values, a line, a value of a state.

        Several values of one parameter in a row count as one step, until a run that you asked for.
        So do the values of one drag of a slider. Open nodes in the picture, and runs, stay
        unchanged.

        Returns:
            The step, in words.

        Raises:
            PanelError: There is nothing to undo.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> session.undo(), session.injectors
            ('add at tag1', {})
            >>> session.redo(), list(session.injectors)
            ('add at tag1', ['0:sin.0'])
        """
        return self._go(self._store.steps.undo)

    def redo(self) -> str:
        """Does again what `undo` took back last.

        Returns:
            The step, in words.

        Raises:
            PanelError: There is nothing to redo, or something else was changed since.
        """
        return self._go(self._store.steps.redo)

    @property
    def undoes(self) -> str:
        """The step that `undo` would take back, in words; empty without one."""
        return self._store.steps.undoes

    @property
    def redoes(self) -> str:
        """The step that `redo` would do again, in words; empty without one."""
        return self._store.steps.redoes

    # ---- within ------------------------------------------------------------------

    def _go(self, way: Callable[[Edited], EditStep]) -> str:
        with self._store.change("tags", step=None) as change:
            before = self._store.edits
            text = self._store.go(way(self._store.edited))
            change.what = self._store.edits.change_from(before) or change.what
        if change.what == "values":
            self._store.tell("folding")  # a picture shows injectors that act
        return text

    def _tag_all(self, places: Several, name: str | None, params: Mapping[str, Any]) -> list[str]:
        with self._store.change("tags") as step:
            every = list(self._store.edited.each_of(places))
            tagged = {site.key for site in self._store.edited.sites}
            bare = [key for key in every if key not in tagged]
            for key in bare:
                edited = self._store.edited
                own = {"name": edited.new_name(name, key, numbered=True), **params}
                self._store.put(tags={**edited.edits.tags, edited.untagged_value(key): own})
            step.text = f"tag {count_of(len(bare), 'value')}"
            return every

    def _sites_at(self, places: Several) -> list[SiteRow]:
        edited = self._store.edited
        every = edited.each_of(places)
        return [site for site in edited.sites if site.key in every]

    def _added(self, address: Place, verb: str, *, or_list: bool = False) -> SiteRow:
        site = self._store.edited.the_site(address, or_list=or_list)
        if not site.added:
            raise PanelError(f"The tag {site.title} is in the source and can only be {verb} there")
        return site
