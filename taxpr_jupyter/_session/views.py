"""The part of a session that keeps views by name, and comes back to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._output.view import View, found_view
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._store.store import Store


class Views:
    """Keeps views of the picture.

    Args:
        state: Gives what the panel keeps: what is selected, and the place of the picture.
    """

    def __init__(
        self, store: Store, renderer: Renderer, state: Callable[[], dict[str, Any]]
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._state = state

    def keep_view(self, name: str) -> None:
        """Keeps what is open, what is selected and the zoom, to come back to it by `view`.

        Args:
            name: The name; a view that has it already is replaced.

        Raises:
            PanelError: The name is empty.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(jax.jit(jnp.sin), (0.5,))
            >>> session.keep_view("all")
            >>> session.fold("0:jit")
            >>> session.view("all")
            >>> session.picture().counts.folded, list(session.views)
            ({}, ['all'])
        """
        with self._store.change("views"):
            if not name.strip():
                raise PanelError("A view needs a name")
            edits, state = self._store.edits, self._state()
            selected, place = state.get("selected", ""), dict(state.get("place", {}))
            unfolded = self._renderer.picture().unfolded
            now = View(unfolded, edits.only, selected, place)
            self._renderer.views = {**self._renderer.views, name.strip(): now}

    def view(self, name: str) -> None:
        """Shows a view that was kept, else the first place that a search for the name finds.

        Args:
            name: The name of the view, or the words of a search as for `find`.

        Raises:
            PanelError: There is neither.
        """
        with self._store.change("view"):
            kept = self._renderer.views.get(name)
            if kept is None:
                edited = self._store.edited
                now = View(self._renderer.picture().unfolded, edited.edits.only)
                builder = self._renderer.builder(edited)
                kept = found_view(name, self._renderer.views, edited.tagged.finder, builder, now)
            by_hand = frozenset(kept.unfolded or ())
            self._store.put(unfolded=kept.unfolded, by_hand=by_hand, only=kept.only, note="")
            self._state().update(selected=kept.selected, place=dict(kept.place))

    def drop_view(self, name: str) -> None:
        """Forgets a view.

        Args:
            name: Its name.

        Raises:
            PanelError: If there is no view of that name.
        """
        with self._store.change("views"):
            views = dict(self._renderer.views)
            if views.pop(name, None) is None:
                raise PanelError(f"There is no view {name!r}")
            self._renderer.views = views
