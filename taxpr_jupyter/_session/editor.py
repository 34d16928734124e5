"""The part of a session that is changed: tags, injectors, their values, folding."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._edits import attach as _attach
from taxpr_jupyter._edits.attach import Attached
from taxpr_jupyter._edits.drawn import Drawn
from taxpr_jupyter._edits.edits import adopted
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import HeatKind, checked_heat, count_of
from taxpr_jupyter._session.changing import Changing, without
from taxpr_jupyter._text.short import visible
from taxpr_jupyter._tree.refold import refolded


class Editor(Changing):
    """A program and the changes made to it, which any thread may make.

    Every method takes addresses as the picture has them, and also keys and names of tags; what
    is an address is not looked up as a name. An equation with one result stands for that
    result. A method that cannot do what it was asked for raises `PanelError` and changes nothing.

    Args:
        program: The program as traced.
        namespace: Where functions to inject are looked up.
        drawn: Draws the program.

    Attributes:
        program: The program as traced.
        namespace: Where functions to inject are looked up.
        notes: Remarks for the user.
        view_state: A place for views to keep what a cell that is run again should show again.
    """

    def __init__(self, program: taxpr.Program, namespace: Mapping[str, Any], drawn: Drawn) -> None:
        super().__init__(program)
        self.program = program
        self.namespace = namespace
        self.notes: tuple[str, ...] = ()
        self.view_state: dict[str, Any] = {}
        self._drawn = drawn

    @property
    def edited(self) -> taxpr.Program:
        """The program with the added tags."""
        return self._edited.program

    @property
    def tags(self) -> dict[str, dict[str, Any]]:
        """The params of the added tags, by the address of the value that they mark."""
        return {address: dict(params) for address, params in self._edited.edits.tags.items()}

    @property
    def injectors(self) -> dict[str, Attached]:
        """The injectors, by the key of their site."""
        return dict(self._edited.edits.attached)

    @property
    def unfolded(self) -> frozenset[str] | None:
        """The addresses drawn open; None where the picture chooses."""
        return self._edited.edits.unfolded

    @property
    def heat(self) -> HeatKind | None:
        """What nodes are coloured by: ``"flops"``, ``"bytes"``, or None for their kinds."""
        return self._drawn.heat

    @heat.setter
    def heat(self, kind: HeatKind | None) -> None:
        with self._change("folding"):
            self._drawn.heat = checked_heat(kind)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def sites(self) -> tuple[SiteRow, ...]:
        """All tags in program order, those of the source and those added."""
        with self._lock:
            return self._edited.sites

    def tag(self, address: str, name: str | None = None, **params: Any) -> str:
        """Tags a value.

        A value that was tagged so before stays as it is: a cell may run again.

        Args:
            address: Of the value, or of an equation with one result.
            name: The tag's name; by default ``tag1``, ``tag2``, ….
            **params: More params of the tag.

        Returns:
            The address of the value.

        Raises:
            PanelError: If there is no such value, or its tag exists or may not be called so.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> session.tag("0:sin", name="s")
            '0:sin.0'
        """
        with self._change("tags"):
            site = self._edited.site(address)
            if site is not None and site.added and site.params == {"name": name, **params}:
                return site.key
            key = self._edited.untagged_value(address)
            params = {"name": self._edited.new_name(name), **params}
            self._set(tags={**self._edited.edits.tags, key: params})
            return key

    def untag(self, address: str) -> None:
        """Removes an added tag, with its injector.

        Args:
            address: Of the tag or its value, or the tag's name.

        Raises:
            PanelError: If there is no such tag, or it is in the source.
        """
        with self._change("tags"):
            site = self._added(address, "removed")
            edits = self._edited.edits
            self._set(
                tags=without(edits.tags, site.key), attached=without(edits.attached, site.key)
            )

    def rename(self, address: str, name: str) -> None:
        """Gives an added tag another name.

        Args:
            address: Of the tag or its value, or the tag's name.
            name: The new name.

        Raises:
            PanelError: If there is no such tag, it is in the source, or the name is taken.
        """
        with self._change("tags"):
            site = self._added(address, "renamed")
            if name != site.name:
                params = {**site.params, "name": self._edited.new_name(name)}
                self._set(tags={**self._edited.edits.tags, site.key: params})

    def attach(self, address: str, injector: Any, *, ctx: Any = (), **values: Any) -> Attached:
        """Attaches an injector to a tag; a value without a tag is tagged first.

        The injector is tried out at once, without running anything. If it raises, or
        changes a shape, it stays attached with the reason in `Attached.error`. What taxpr warns
        of, such as a derivative that stays as it was, is in `Attached.note`, too.

        Args:
            address: Of a tag or a value, or a tag's name.
            injector: The name of a ready injector or of a function in the notebook, a
                `taxpr.Injector`, or a function ``(ctx, token, params) -> (token, ctx)``.
            ctx: The first context of a function.
            **values: Values of the injector's parameters.

        Returns:
            The injector as it is attached; `set_value` changes it.

        Raises:
            PanelError: If there is no such value or injector, or it has no such parameter.

        Warns:
            taxpr.StaleDerivativeWarning: See `taxpr.Program.inject`.
            taxpr.DroppedRuleWarning: See `taxpr.Program.inject`.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> session.set_value("0:sin", "value", 3.0)
            >>> session.injectors["0:sin.0"].values
            {'value': 3.0}
        """

        def place() -> Attached:
            edited, tag = self._edited, None
            site = edited.site(address)
            if site is None:
                key, tag = edited.untagged_value(address), {"name": edited.new_name(None)}
                edited = edited.changed(tags={**edited.edits.tags, key: tag})
                site = edited.the_site(key)
            made = _attach.make(site.key, injector, ctx, values, self.namespace)
            made = self._untried(made, tag)
            self._edited = edited.changed(attached={**edited.edits.attached, site.key: made})
            return made

        made = self._attach_tried("injectors", place)
        for warning in made.warned:
            warnings.warn(warning, stacklevel=2)
        return made

    def detach(self, address: str) -> None:
        """Removes the injector of a tag; the tag stays.

        Args:
            address: Of the tag or its value, or the tag's name.

        Raises:
            PanelError: If it has none.
        """
        with self._change("injectors"):
            site = self._attached(address)
            self._set(attached=without(self._edited.edits.attached, site.key))

    def set_value(self, address: str, param: str, value: Any) -> None:
        """Sets a parameter of an injector. Nothing is traced or compiled again.

        Except for integers and bools of a plain function: these are fixed when it is traced, so it
        is tried out again.

        Args:
            address: Of the tag or its value, or the tag's name.
            param: The name of the parameter.
            value: Its value.

        Raises:
            PanelError: If there is no such injector or parameter, or it cannot have that value.
        """

        def place() -> Attached:
            now = self._injector(address)
            new = now.with_value(param, value)
            traced_anew = new.error or new.injector.options != now.injector.options
            return self._placed(self._untried(new) if traced_anew else new)

        self._attach_tried("values", place)

    def set_ctx(self, address: str, ctx: Any) -> None:
        """Sets the first context of a function that is attached.

        Args:
            address: Of the tag or its value, or the tag's name.
            ctx: A PyTree of arrays and numbers.

        Raises:
            PanelError: If there is no such function.
        """
        self._attach_tried(
            "injectors",
            lambda: self._placed(self._untried(self._injector(address).with_ctx(ctx))),
        )

    def fold(self, address: str) -> None:
        """Draws an equation, or a group of equations, closed.

        Args:
            address: Of the equation or group.

        Raises:
            PanelError: If it holds nothing that could be open.
        """
        self._refold(address, opened=False)

    def unfold(self, address: str) -> None:
        """Draws an equation, or a group of equations, open.

        Args:
            address: Of the equation or group.

        Raises:
            PanelError: If it holds nothing that could be open.
        """
        self._refold(address, opened=True)

    def fold_default(self) -> None:
        """Lets the picture choose again what it draws open."""
        with self._change("folding"):
            self._set(unfolded=None, by_hand=frozenset(), note="")

    def take_over(self, old: Editor) -> None:
        """Takes over what an older session has, where its values are found again.

        These are tags, injectors, folding, and the initial values of states that were set. What
        was taken over, what is elsewhere now, and what could not be found, is said in `notes`.

        Args:
            old: The older session.
        """
        with self._change("tags"):
            self._edited, moved, dropped = adopted(self._edited, old._edited, self.namespace)
            self.view_state = dict(old.view_state)
            self._drawn.heat = self._drawn.heat or old.heat
            kept, ways = self._kept(self._take_states(old))
            if kept:
                self.notes += (
                    f"Kept from the last run of this cell: {'; '.join(kept)}. "
                    f"{_listed(ways)}, or the panel, {'drops' if len(ways) == 1 else 'drop'} them.",
                )
            if moved:
                self.notes += (f"Moved, since the program has changed: {', '.join(moved)}.",)
            if dropped:
                self.notes += (f"Dropped, since the program has changed: {', '.join(dropped)}.",)

    def _take_states(self, old: Editor) -> list[str]:
        """Takes over what was set of states; returns their names."""
        del old  # an editor knows no states
        return []

    def _kept(self, states: Sequence[str]) -> tuple[list[str], list[str]]:
        """What was taken over of an older session, in words, and the calls that drop it."""
        sites = self._edited.sites
        added = [_called(site) for site in sites if site.added]
        attached = [f"{s.injector.name} at {_called(s)}" for s in sites if s.injector]
        kept, ways = [], []
        if added:
            kept.append(f"{count_of(len(added), 'added tag')} ({_few(added)})")
            ways.append("`session.untag(name)`")
        if attached:
            kept.append(f"{count_of(len(attached), 'injector')} ({_few(attached)})")
            ways.append("`session.detach(name)`")
        if states:
            kept.append(f"{count_of(len(states), 'initial value')} ({_few(states)})")
            ways.append("`session.reset_state(name)`")
        return kept, ways

    def close(self) -> None:
        """Takes the views away; the session itself stays usable."""
        with self._change("closed"):
            self._closed = True

    # ---- within ------------------------------------------------------------------

    def _added(self, address: str, verb: str) -> SiteRow:
        site = self._edited.the_site(address)
        if not site.added:
            place = f" ({site.source})" if site.source else ""
            raise PanelError(
                f"The tag {site.title} is in the source{place} and can only be {verb} there"
            )
        return site

    def _attached(self, address: str) -> SiteRow:
        site = self._edited.the_site(address)
        if site.injector is None:
            raise PanelError(f"The tag {site.title} has no injector")
        return site

    def _refold(self, address: str, *, opened: bool) -> None:
        with self._change("folding"):
            picture = self._drawn.picture(self._edited)
            now, by_hand = picture.unfolded, self._edited.edits.by_hand
            then = refolded(picture, address, opened)
            by_hand = by_hand | (then - now) if opened else by_hand - (now - then)
            self._set(unfolded=then, by_hand=by_hand, note="")

    def _injector(self, address: str) -> Attached:
        injector = self._attached(address).injector
        assert injector is not None
        return injector

    def _placed(self, attached: Attached) -> Attached:
        self._set(attached={**self._edited.edits.attached, attached.key: attached})
        return attached

    def _refresh(self) -> None:
        """Takes up functions that were defined anew, and globals that mend an injector.

        Marks them as untried; `settle` tries them.
        """
        with self._lock:
            for one in self.injectors.values():
                new = _attach.refreshed(one, self.namespace)
                if new is not None or one.error:
                    self._placed(self._untried(new or one))


def _called(site: SiteRow) -> str:
    return visible(site.name or site.address)


def _few(names: Sequence[str], most: int = 4) -> str:
    """Some names: `h, loss, 3 more`."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
