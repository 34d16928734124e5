"""The part of a session that types lines of the source over."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from typing import Any

from taxpr import introspect
from taxpr_jupyter._edits.edits import Written
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._lines.assignments import Assignment, assignments
from taxpr_jupyter._lines.unified import unified_diff
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._store.tracer import Tracer

HOW = (
    "You can type over a line of your own functions that binds a variable, as `x = f(y)` does, or "
    "returns something"
)


class Rewriter:
    """Gives lines of the source other right-hand sides. The source itself stays as it is."""

    def __init__(self, store: Store, tracer: Tracer) -> None:
        self._store = store
        self._tracer = tracer

    def edit(self, where: Any, text: str) -> str:
        """Replaces the right-hand side of a line of the source.

        The program is traced again, so all later lines and the derivatives compute with the new
        line; see `taxpr.edit`. The picture, questions and results are about that program, and a run
        compares it with the original one. The file stays as it is; `diff` says how it would change.

        Args:
            where: The line, such as ``"model.py:12"``; or a variable that one line binds:
                ``"loss.h"``, `taxpr.var`. ``"loss.return"`` is the line that returns.
            text: The new right-hand side.

        Returns:
            The line.

        Raises:
            PanelError: There is no such line, it cannot be typed over, or the program cannot be
                traced with it.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def loss(w):
            ...     h = jnp.sin(w)
            ...     return h * 2
            >>> session = Session(jax.value_and_grad(loss), (0.0,))
            >>> line = session.edit("loss.h", "jnp.sin(3 * w)")
            >>> print(*session.run().outputs)
            0.0 6.0
        """
        with self._store.mistakes():
            place = self._at(where)
            text = _checked(text.strip().removeprefix(place.head))
        self._write(place, text)
        return place.place

    def unedit(self, where: Any) -> None:
        """Restores a line that `edit` changed.

        Args:
            where: As for `edit`.

        Raises:
            PanelError: The line was not typed over.
        """
        with self._store.mistakes():
            place = self._at(where)
            if all(one.place != place for one in self._store.edits.written):
                raise PanelError(f"The line {place.place} is as the source has it")
        self._write(place, place.text)

    def edits(self) -> Mapping[str, str]:
        """The edited lines, and their new texts."""
        return {one.place.place: one.line for one in self._store.edits.written}

    @property
    def written(self) -> tuple[Written, ...]:
        """The edited lines, with their places in the source."""
        return self._store.edits.written

    def editable(self) -> list[str]:
        """The lines that `edit` takes, by variable where one line binds it.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def loss(w):
            ...     h = jnp.sin(w)
            ...     return h * 2
            >>> Session(loss, (0.0,)).editable()
            ['loss.h', 'loss.return']
        """
        every = self._every()
        bound = Counter(one.variable for one in every)
        return [one.place if bound[one.variable] > 1 else one.variable for one in every]

    def diff(self) -> str:
        """The changes by `edit`, as a unified diff of the files; may be empty.

        Files are called as git has them, or from the folder of the notebook: ``git apply`` or
        ``patch -p1`` there makes the changes.
        """
        return unified_diff([(one.place, one.text) for one in self._store.edits.written])

    def _write(self, place: Assignment, text: str) -> None:
        def written() -> tuple[Written, ...]:
            others = [one for one in self._store.edits.written if one.place != place]
            return (*others, *([] if place.says(text) else [Written(place, text)]))

        with self._store.mistakes():  # traced with no lock held
            self._tracer.synced(self._store.edited.changed(written=written()))
        with self._store.change("program"):
            self._tracer.put(written=written())

    def _every(self) -> list[Assignment]:
        """The lines of the program that can be typed over."""
        listing = self._store.program.listing()
        lines = {(part.file, line.number) for part in listing.parts for line in part.lines}
        files = dict.fromkeys(file for file, _ in sorted(lines))
        return [
            one for file in files for one in assignments(file).values() if (file, one.line) in lines
        ]

    def _at(self, where: Any) -> Assignment:
        """The line that is meant.

        Raises:
            PanelError: If there is no such line, or several.
        """
        every = self._every()
        text = str(getattr(where, "text", where))
        number = getattr(where, "line", None)
        file, colon, last = text.rpartition(":")
        if colon and last.isdigit():
            own = [one for one in every if one.line == int(last)]
            found = [one for one in own if file in (one.file, introspect.file_text(one.file))]
            found = found or [one for one in own if one.file.endswith(f"/{file}")]
        else:
            found = [
                one
                for one in every
                if f".{one.variable}".endswith(f".{text}") and number in (None, one.line)
            ]
        if len(found) > 1:
            shown = ", ".join(f"{one.place} ({one.head}{one.text})" for one in found)
            raise PanelError(f"{text} means {len(found)} lines: {shown}. Say which")
        if not found:
            raise PanelError(f"There is no line {text!r} that could be typed over. {HOW}")
        return found[0]


def _checked(text: str) -> str:
    """The right-hand side, as it follows ``x =``.

    Raises:
        PanelError: If it is no expression.
    """
    source = text.strip()
    try:
        if not source:
            raise ValueError("it is empty")
        try:
            value = ast.parse(source, mode="eval").body
        except SyntaxError:  # in several lines, say
            source = f"({source}\n)"
            value = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError) as error:
        said = getattr(error, "msg", str(error))
        raise PanelError(f"{text!r} is no expression of Python: {said}") from None
    found = ast.get_source_segment(source, value) or text  # without a comment
    return found if _alone(found, value) else f"({found})"


def _alone(text: str, value: ast.expr) -> bool:
    try:
        body = ast.parse(f"_ = {text}").body
    except SyntaxError:
        return False
    return ast.dump(body[0]) == ast.dump(ast.Assign([ast.Name("_", ast.Store())], value))
