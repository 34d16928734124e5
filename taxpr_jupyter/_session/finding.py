"""The part of a session that finds: search, paths, showing only a part."""

from __future__ import annotations

from collections.abc import Iterable

from taxpr_jupyter._analysis.slices import Slice
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._search.find import Hit
from taxpr_jupyter._session.editor import Editor
from taxpr_jupyter._tree.focus import Only

_NAMED = 3  # so many names of what was folded are told


class Finding(Editor):
    """A program in which things are found. Addresses are those of the program with its tags."""

    def find(self, text: str) -> list[Hit]:
        """Searches the program.

        All words must match. A plain word matches names of primitives, tags, inputs, scopes and
        functions, labels, a dtype (``bf16``), a shape (``[2,16]``, ``f32[*,64]``), a line
        (``model.py:12``, ``line 12``), a variable as `print(jaxpr)` shows it (``cd:``) or an
        address. Prefixes say what is meant: ``prim:dot``, ``fn:``, ``name:``, ``source:``,
        ``dtype:``, ``shape:``, ``tag:``, ``scope:``, ``line:``; the last three mean what taxpr's
        selectors mean.

        Args:
            text: The words.

        Returns:
            What was found, in program order: for each its address, and what matched.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) * jnp.cos(x), (0.5,))
            >>> session.find("prim:cos")
            [Hit(address='1:cos', why=('primitive cos',))]
        """
        with self._lock:
            return self._edited.finder.find(text)

    def reveal(self, address: str) -> str:
        """Unfolds all that is needed so that an address is in the picture.

        If the picture would then have more nodes than its budget, what was opened by the picture
        itself and is not needed is folded, the farthest first; `layout_note` says what.

        Args:
            address: Of an equation, value, input, nested jaxpr or group.

        Returns:
            The address of the element of the picture that stands for it.
        """
        with self._change("folding"):
            edited = self._edited
            address = edited.inspector.address_of(address)
            edits, picture = edited.edits, self._drawn.picture(edited)
            builder = self._drawn.builder(edited)
            way = builder.path_to(address, edits.only)
            if not picture.unfolded.issuperset(way):
                by_hand = edits.by_hand & picture.unfolded
                unfolded, folded = builder.reveal(address, picture.unfolded, by_hand, edits.only)
                self._set(unfolded=unfolded, by_hand=by_hand, note=_note(address, folded))
            element = self._drawn.picture(self._edited).element_of(address)
            return element.address if element else address

    def upstream(self, address: str) -> Slice:
        """What a value or equation depends on, through all nested jaxprs.

        Args:
            address: Of the value or equation.

        Returns:
            A slice, of which ``addresses`` are the equations and the program's inputs, in program
            order; ``unsure`` names those of which it cannot be known what depends on what.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x, y: jnp.sin(x) * jnp.cos(y), (0.5, 2.0))
            >>> session.upstream("0:sin").addresses
            ('in0', '0:sin')
        """
        with self._lock:
            return self._edited.slices.upstream(self._edited.inspector.address_of(address))

    def downstream(self, address: str) -> Slice:
        """What depends on a value or equation, through all nested jaxprs; see `upstream`.

        Args:
            address: Of the value or equation.
        """
        with self._lock:
            return self._edited.slices.downstream(self._edited.inspector.address_of(address))

    def between(self, start: str, stop: str) -> Slice:
        """All paths from one value or equation to another, empty where there is none.

        Args:
            start: The address of the one.
            stop: The address of the other.
        """
        with self._lock:
            at = self._edited.inspector.address_of
            return self._edited.slices.between(at(start), at(stop))

    def show_only(
        self,
        addresses: Iterable[str] | Slice | None = None,
        *,
        between: tuple[str, str] | None = None,
    ) -> None:
        """Draws a part of the program; of the rest, one folded node for each gap in a row.

        Args:
            addresses: A slice, or the addresses of equations, nested jaxprs, groups or values.
            between: Instead of these, two places: the paths from the first to the second.
        """
        with self._change("folding"):
            if (addresses is None) == (between is None):
                raise PanelError("show_only takes either addresses or between=(start, stop)")
            words = Only.words
            if between is not None:
                start, stop = between
                part, words = self.between(start, stop), "not on the path"
                if not part.addresses:
                    raise PanelError(self._no_path(start, stop))
            elif isinstance(addresses, Slice):
                part = addresses
            else:
                one = [addresses] if isinstance(addresses, str) else list(addresses or ())
                part = self._edited.slices.of(map(self._edited.inspector.address_of, one))
            if not part.addresses:
                raise PanelError("show_only was given nothing to show")
            only = Only(part.places(), words)
            self._set(unfolded=None, by_hand=frozenset(), only=only, note="")

    def show_all(self) -> None:
        """Draws the whole program again."""
        with self._change("folding"):
            if self._edited.edits.only is not None:
                self._set(unfolded=None, by_hand=frozenset(), only=None, note="")

    @property
    def shows_all(self) -> bool:
        """Whether nothing is left out by `show_only`."""
        return self._edited.edits.only is None

    def _no_path(self, start: str, stop: str) -> str:
        said = f"There is no path from {start} to {stop}"
        return f"{said}; there is one from {stop} to {start}" if self.between(stop, start) else said


def _note(address: str, folded: tuple[str, ...]) -> str:
    if not folded:
        return ""
    named = ", ".join(folded[:_NAMED])
    more = f" and {len(folded) - _NAMED} more" if len(folded) > _NAMED else ""
    return f"To make room for {address}, {named}{more} were folded."
