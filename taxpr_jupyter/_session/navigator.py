"""The part of a session that finds places, and says which of them are in the picture."""

import dataclasses
import threading
from collections.abc import Iterable

from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.slices import Slice, Slices
from taxpr_jupyter._edits.edited import Place
from taxpr_jupyter._edits.inspect import Inspection
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import PlaceAsCompiled
from taxpr_jupyter._heat.line_heat import LineHeat, line_heat, line_kernels
from taxpr_jupyter._lines.source import LinesOf, SourceRows
from taxpr_jupyter._model.model import Picture
from taxpr_jupyter._search.find import Hit
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.refold import refolded

_NAMED = 3  # so many names of what was folded are told


class Navigator:
    """Searches, follows paths, folds and unfolds, shows only a part.

    Addresses belong to the program with its tags.
    """

    def __init__(self, store: Store, renderer: Renderer) -> None:
        self._store = store
        self._renderer = renderer
        self._reading = threading.RLock()
        self._source: SourceRows | None = None
        self._lines: tuple[Index, LinesOf] | None = None

    def inspect(self, address: Place) -> Inspection:
        """Look up an address of the picture, or the tag with this key; never raises.

        Args:
            address: A value, an equation, a group or a tag.
        """
        with self._store.lock:
            edited = self._store.edited
            inspector = edited.inspector(self._renderer.divided(edited))
            address = self._at(address)
            return _described(self._renderer.picture(), address, inspector.look(address))

    def find(self, text: str) -> list[Hit]:
        """Searches the program.

        All words must match. A plain word matches names of primitives, tags, inputs, scopes and
        functions, labels, a dtype (``bf16``), a shape (``[2,16]``, ``f32[*,64]``), a line
        (``model.py:12``, ``line 12``), a variable as `print(jaxpr)` shows it (``cd:``) or an
        address. Prefixes say what is meant: ``prim:dot``, ``fn:``, ``name:``, ``source:``,
        ``dtype:``, ``shape:``, ``tag:``, ``scope:``, ``line:``; the last three mean what taxpr's
        selectors mean. A selector in Python, such as ``var("h")``, finds the values that it means.

        Args:
            text: The words.

        Returns:
            The hits, in program order: for each its address, and the match.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) * jnp.cos(x), (0.5,))
            >>> session.find("prim:cos")
            [Hit(address='1:cos', why=('primitive cos',))]
        """
        with self._store.lock:
            return self._store.edited.tagged.finder.find(text)

    def reveal(self, address: Place = None, *, line: str = "") -> str:
        """Unfolds all that is needed so that an address, or a line, is in the picture.

        If the picture would then have more nodes than its budget, what was opened by the picture
        itself and is not needed is folded, the farthest first; `layout_note` says what.

        Args:
            address: An equation, value, input, nested jaxpr or group.
            line: Instead of that, a line of the source, as for `line`; its statement stays folded.

        Returns:
            The address of the element of the picture that shows it.
        """
        made = self._made_by(line) if line else ()
        with self._store.change("folding"):
            edited = self._store.edited
            edits, picture = edited.edits, self._renderer.picture()
            builder = self._renderer.builder(edited)
            address = builder.whole(made, edits.only) if made else self._at(address)
            way = builder.path_to(address, edits.only)
            if not picture.unfolded.issuperset(way):
                by_hand = edits.by_hand & picture.unfolded
                unfolded, folded = builder.reveal(address, picture.unfolded, by_hand, edits.only)
                self._store.put(unfolded=unfolded, by_hand=by_hand, note=_note(address, folded))
            element = self._renderer.picture().element_of(address)
            return element.address if element else address

    def upstream(self, address: Place) -> Slice:
        """The backward slice of a value or equation: all that it depends on, through nested jaxprs.

        Args:
            address: The value or equation.

        Returns:
            A slice. ``addresses`` are the equations and the program's inputs, in program order;
            ``unsure`` names equations whose inner dependences are unknown.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x, y: jnp.sin(x) * jnp.cos(y), (0.5, 2.0))
            >>> session.upstream("0:sin").addresses
            ('in0', '0:sin')
        """
        with self._store.lock:
            return self._slices.upstream(self._at(address))

    def downstream(self, address: Place) -> Slice:
        """The forward slice: all that depends on a value or equation; see `upstream`.

        Args:
            address: The value or equation.
        """
        with self._store.lock:
            return self._slices.downstream(self._at(address))

    def between(self, start: Place, stop: Place) -> Slice:
        """All paths from one value or equation to another, maybe empty.

        Args:
            start: The address of the one.
            stop: The address of the other.
        """
        with self._store.lock:
            return self._slices.between(self._at(start), self._at(stop))

    def source(self) -> SourceRows:
        """The source of the user's functions that the program went through, line by line.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     return jnp.sin(x) + 1
            >>> session = Session(f, (0.5,))
            >>> [len(row.line.equations) for row in session.source().rows]
            [0, 2]
        """
        with self._reading:
            program, kept = self._store.program, self._source
            divided = self._renderer.divided(self._store.edited)
            if kept is None or (kept.program, kept.divided) != (program, divided):
                kept = self._source = SourceRows(program, divided)
            return kept

    def line(self, place: str) -> Slice:
        """The equations that a line of the source made.

        Args:
            place: The file and the number of the line, such as ``"model.py:12"``.

        Raises:
            PanelError: There is no such line, or it made none.
        """
        found = self._made_by(place)
        with self._store.lock:
            return self._slices.of(found)

    def slice_of(self, addresses: Iterable[str]) -> Slice:
        """Some places with everything in them, such as the hits of `find`.

        Args:
            addresses: Their addresses.

        Raises:
            PanelError: There is no such place.
        """
        with self._store.lock:
            return self._slices.of(addresses)

    def lines_of(self, addresses: Iterable[str]) -> dict[str, list[int]]:
        """The lines of the source that made or hold the value at each address.

        Args:
            addresses: Equations, values, inputs, nested jaxprs or groups.

        Returns:
            The numbers of rows of `source`, from 0; without the addresses that have none.
        """
        source, index = self.source(), self._store.edited.tagged.index
        with self._reading:
            if self._lines is None or self._lines[0] is not index:
                self._lines = index, LinesOf(index, source)
            lines = self._lines[1]
        return lines.of_all(addresses)

    def show_only(
        self,
        addresses: Iterable[str] | Slice | None = None,
        *,
        between: tuple[Place, Place] | None = None,
    ) -> None:
        """Draws a part of the program, and one folded node for each gap in it.

        Args:
            addresses: A slice, or the addresses of equations, nested jaxprs, groups or values.
            between: Instead of these, two places: the paths from the first to the second.
        """
        with self._store.change("folding"):
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
                part = self._slices.of(map(self._at, one))
            if not part.addresses:
                raise PanelError("show_only was given nothing to show")
            only = Only(part.places(), words)
            self._store.put(unfolded=None, by_hand=frozenset(), only=only, note="")

    def show_all(self) -> None:
        """Draws the whole program again."""
        with self._store.change("folding"):
            if self._store.edits.only is not None:
                self._store.put(unfolded=None, by_hand=frozenset(), only=None, note="")

    def fold(self, address: Place) -> None:
        """Draws an equation, or a group of equations, closed.

        Args:
            address: The equation or group.

        Raises:
            PanelError: If it holds nothing that could be open.
        """
        self._refold(address, opened=False)

    def unfold(self, address: Place) -> None:
        """Draws an equation, or a group of equations, open.

        Args:
            address: The equation or group.

        Raises:
            PanelError: If it holds nothing that could be open.
        """
        self._refold(address, opened=True)

    def fold_default(self) -> None:
        """Lets the picture choose again what it draws open."""
        with self._store.change("folding"):
            self._store.put(unfolded=None, by_hand=frozenset(), note="")

    def line_heat(self) -> dict[int, LineHeat]:
        """Measured numbers of each line of the source, if nodes are coloured by them.

        Returns:
            For each row of `source`, from 0, the amount and its share of all; -1 has the rest.
            Empty if nodes have the colours of their kinds or costs.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = x @ x
            ...     return y * 2
            >>> session = Session(f, (jnp.ones((300, 300)),))
            >>> answer = session.ask("profile")
            >>> session.heat = "time"
            >>> heat = session.line_heat()
            >>> abs(sum(one.share for one in heat.values()) - 1) < 1e-6
            True
        """
        return line_heat(self.source(), self._renderer.colours)

    def line_kernels(self) -> dict[int, PlaceAsCompiled]:
        """The lines of the source as XLA has compiled them, if nodes are coloured by kernels.

        Returns:
            For each row of `source` that made equations, from 0: the kernels that it shares with
            other lines, what is removed, what it moves between devices. Empty if nodes have other
            colours.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     unused = jnp.cos(x)
            ...     y = jnp.sin(x)
            ...     return y * 2
            >>> session = Session(f, (jnp.ones(50),))
            >>> answer = session.ask("compiled")
            >>> session.heat = "compiled"
            >>> [(one.kernels, one.removed) for one in session.line_kernels().values()]
            [((), True), ((1,), False), ((1,), False)]
        """
        return line_kernels(self.source(), self._renderer.colours)

    # ---- within ------------------------------------------------------------------

    def _made_by(self, place: str) -> tuple[str, ...]:
        """The addresses of the equations that a line made, then of those that it holds."""
        line = self.source().at(place).line
        if found := (*line.equations, *line.holding):
            return tuple(one.address for one in found)
        raise PanelError(f"The line {place} made no equation")

    @property
    def _slices(self) -> Slices:
        return self._store.edited.tagged.slices

    def _at(self, address: Place) -> str:
        edited = self._store.edited
        inspector = edited.inspector(self._renderer.divided(edited))
        text = address if isinstance(address, str) else edited.address_of(address)
        return inspector.address_of(text)

    def _refold(self, address: str, *, opened: bool) -> None:
        with self._store.change("folding"):
            picture = self._renderer.picture()
            now, by_hand = picture.unfolded, self._store.edits.by_hand
            then = refolded(picture, address, opened)
            by_hand = by_hand | (then - now) if opened else by_hand - (now - then)
            self._store.put(unfolded=then, by_hand=by_hand, note="")

    def _no_path(self, start: str, stop: str) -> str:
        said = f"There is no path from {start} to {stop}"
        return f"{said}, only from {stop} to {start}" if self.between(stop, start) else said


def _note(address: str, folded: tuple[str, ...]) -> str:
    if not folded:
        return ""
    named = ", ".join(folded[:_NAMED])
    more = f" and {len(folded) - _NAMED} more" if len(folded) > _NAMED else ""
    return f"To make room for {address}, {named}{more} were folded."


def _described(picture: Picture, address: str, found: Inspection | None) -> Inspection:
    """An inspection, completed with facts from the picture."""
    element = picture.find(address)
    fold = address if address in picture.foldable else getattr(element, "fold", None)
    if found is None:
        lines = element.lines if element else ("nothing is here",)
        group = element is not None and element.kind in ("group", "literal", "state")
        found = Inspection(
            address=address,
            kind=element.kind if element and group else "unknown",
            title=lines[0] if lines else "",
            params=tuple(("", line) for line in lines[1:]),
            cost=getattr(element, "cost", ()),
        )
    return dataclasses.replace(found, foldable=fold is not None, unfolded=fold in picture.unfolded)
