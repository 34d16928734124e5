"""`compare`: show the differences of two programs as text and pictures side by side."""

from __future__ import annotations

import copy
import functools
import os
import threading
from typing import Any, Literal

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._diff.diff import Diff, diff
from taxpr_jupyter._diff.diff_text import diff_text
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model.kinds import checked_limits
from taxpr_jupyter._model.model import Picture
from taxpr_jupyter._output import files, saved
from taxpr_jupyter._output.both_sides import BothSides, Unfolded
from taxpr_jupyter._output.redivided import Redivided, redivided
from taxpr_jupyter._output.shell import SVG, running_shell, shows
from taxpr_jupyter._svg.in_cells import for_outputs
from taxpr_jupyter._svg.svg import finish_svg
from taxpr_jupyter._svg.two_pictures import side_by_side
from taxpr_jupyter._text.short import shortened
from taxpr_jupyter._tracing.sources import source_text
from taxpr_jupyter._tracing.trace import traced, traced_before

_LINES = 200  # of the text in an output; `text()` has all
_TITLE = 60  # characters of a program's name
Side = Literal["before", "after"]
_SIDES: tuple[Side, Side] = ("before", "after")


def compare(
    before: Any,
    after: Any,
    *args: Any,
    budget: int = 60,
    timeout: float = 20.0,
    compiled: bool = False,
) -> Comparison:
    """Compare two programs, as text and as two pictures next to each other.

    Each side is a `taxpr.Program`, a jaxpr, closed or open, or a function. A function is traced,
    not run: with ``args``, or, given as a tuple ``(function, *args)``, with arguments of its own.

    Letters, source lines and the order of independent equations do not matter, and tags are
    transparent. So are wrappers such as `jax.jit` and `jax.checkpoint` that only one side has: they
    count as one change, and their contents are compared. Functions among params, such as callbacks
    and rules of `jax.custom_jvp`, are compared by name and code.

    Args:
        before: The one side.
        after: The other.
        *args: Example arguments, or `jax.ShapeDtypeStruct`, for each side that is a bare function.
        budget: About how many nodes to show on each side, as for `draw`.
        timeout: Seconds that the layout of a side may take.
        compiled: Whether XLA compiles both, which may take long: then it is known of all values how
            they are divided among devices.

    Returns:
        The comparison. It shows itself in a notebook; `Comparison.save` writes it to a file.

    Raises:
        PanelError: A side is something else; or there are arguments, and no function for them.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter import compare
        >>> found = compare(lambda x: jnp.sin(x) * 2, lambda x: jnp.sin(x) * 3, 1.0)
        >>> found.diff.summary()
        '1 change: 2.0→3.0 in <lambda>, 1 same'
        >>> found.diff.what(1, "1:mul")
        ('operand 1 2.0→3.0',)
    """
    sides = [_program(side, args, word) for side, word in ((before, "first"), (after, "second"))]
    if args and not any(map(_is_function, (before, after))):
        raise PanelError(
            "compare: example arguments were given, and neither side is a bare function to trace "
            "with them. Leave them out"
        )
    return Comparison(*sides, budget=budget, timeout=timeout, compiled=compiled)


class Comparison:
    """Two programs compared. It shows itself as text and, if possible, as pictures.

    Args:
        before: The one program.
        after: The other.
        budget: About how many nodes to show on each side, as for `draw`.
        timeout: Seconds that the layout of a side may take.
        compiled: As for `compare`.
        builder: The builder that drew the one program before, or None.

    Attributes:
        before: The one program.
        after: The other.
        note: Remarks about the pictures, after `svg`; may be empty.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr_jupyter import Comparison
        >>> before, after = trace(jnp.sin)(1.0), trace(lambda x: jnp.sin(x) + 1)(1.0)
        >>> Comparison(before, after)
        <comparison of sin and <lambda>: 1 change: add added in <lambda>, 1 same>
    """

    def __init__(
        self,
        before: taxpr.Program,
        after: taxpr.Program,
        *,
        budget: int = 60,
        timeout: float = 20.0,
        compiled: bool = False,
        builder: Builder | None = None,
    ) -> None:
        self.before, self.after = before, after
        self.note = ""
        self._builder = builder
        self._compiled = compiled
        self._budget, self._timeout = checked_limits(budget, timeout)
        self._unfolded: Unfolded | None = None

    @functools.cached_property
    def diff(self) -> Diff:
        """The difference as data: changes, counts, pairs, and the state of each address."""
        with without_collection():
            return diff(self.before, self.after)

    def text(self, context: int = 2) -> str:
        """The difference as text: changed equations with some others around them.

        Args:
            context: How many equations that are the same are shown around.
        """
        text = diff_text(self.diff, context, source_text, self._divided)
        return "\n".join([text, *map(str, self.redivided)])

    @functools.cached_property
    def redivided(self) -> tuple[Redivided, ...]:
        """The values that both programs have and divide among devices in other ways."""
        return tuple(redivided(self.diff, self._divided))

    @functools.cached_property
    def _divided(self) -> list[introspect.Divisions]:
        return [
            introspect.divisions(
                side, taxpr.compiled(side)().shardings.values if self._compiled else None
            )
            for side in (self.before, self.after)
        ]

    @functools.cached_property
    def _sides(self) -> BothSides:
        return BothSides(self.diff, self._divided, self._budget, self._builder)

    @functools.cached_property
    def pictures(self) -> tuple[Picture, Picture]:
        """The two pictures as plain data; differing parts are open on both sides."""
        return self._sides.pictures(self._unfolded)

    def unfold(self, address: str, side: Side = "after") -> Comparison:
        """A comparison with an equation or group open on both sides.

        Args:
            address: The equation or group, on that side; its partner follows.
            side: "before" or "after".

        Raises:
            PanelError: It has no content to open.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import compare
            >>> f = jax.jit(jnp.sin)
            >>> found = compare(f, lambda x: jnp.cos(f(x)), 1.0).unfold("0:jit")
            >>> ["0:jit/call/0:sin" in text for text in found.dot()]
            [True, True]
        """
        return self._refolded(address, side, True)

    def fold(self, address: str, side: Side = "after") -> Comparison:
        """A comparison with an equation or group closed on both sides.

        Args:
            address: As for `unfold`.
            side: As for `unfold`.
        """
        return self._refolded(address, side, False)

    def toggled(self, address: str, side: Side) -> Comparison:
        """A comparison with an equation or group closed if it is open, else open, on both sides.

        Args:
            address: As for `unfold`.
            side: As for `unfold`.
        """
        return self._refolded(address, side, None)

    def _refolded(self, address: str, side: Side, opened: bool | None) -> Comparison:
        new = copy.copy(self)
        new.__dict__.pop("pictures", None)
        at = _SIDES.index(side)
        new._unfolded = self._sides.refolded(self.pictures, address, at, opened)
        return new

    def dot(self) -> tuple[str, str]:
        """The two pictures as DOT text."""
        before, after = self.pictures
        return to_dot(before), to_dot(after)

    def svg(self, cancel: threading.Event | None = None) -> str | None:
        """Both pictures in one SVG; None if one could not be laid out, and `note` says why.

        Args:
            cancel: Set it from another thread to stop the layout at once.
        """
        self.note = " ".join(dict.fromkeys(p.note for p in self.pictures if p.note))
        svgs = []
        kept = RecentLayouts()  # what both sides have is laid out once
        for picture in self.pictures:
            laid_out = lay_out(lambda one=picture: arranged(one, kept), self._timeout, cancel)
            if laid_out.note and laid_out.note not in self.note:
                self.note = f"{self.note} {laid_out.note}".strip()
            if laid_out.layout is None:
                return None
            with without_collection():
                svgs.append(finish_svg(laid_out.layout, picture))
        names = [shortened(program.name, _TITLE) for program in (self.before, self.after)]
        titles = [f"{word}: {name}" for word, name in zip(("before", "after"), names, strict=True)]
        return side_by_side(svgs, titles, " and ".join(names), f"{self.diff.summary(source_text)}.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the pictures (.svg) or the text (.txt) to a file.

        Args:
            path: The file.

        Raises:
            PanelError: The name ends otherwise, or there is no such folder, or no layout.
            OSError: The file cannot be written.
        """

        def svg() -> str:
            made = self.svg()
            if made is None:
                raise PanelError(f"There is no picture to write. {self.note}")
            return made

        files.save(path, {".svg": svg, ".txt": lambda: f"{self.text()}\n"})

    def __repr__(self) -> str:
        said = self.diff.summary(source_text)
        return f"<comparison of {self.before.name} and {self.after.name}: {said}>"

    def _repr_mimebundle_(self, **choice: Any) -> dict[str, Any]:
        del choice
        lines = self.text().split("\n")
        if len(lines) > _LINES:
            lines[_LINES:] = [f"… {len(lines) - _LINES:,} more lines; text() has all"]
        data = {}
        if shows(running_shell(), SVG):
            svg = self.svg()
            if svg is not None:
                data[SVG] = for_outputs(svg)
            lines += [self.note] if self.note else []
        return {**data, "text/plain": "\n".join(lines)}

    def _ipython_display_(self) -> None:
        saved.publish(self)


def _is_function(side: Any) -> bool:
    return callable(side) and not isinstance(side, taxpr.Program) and not introspect.is_jaxpr(side)


def _program(side: Any, args: tuple[Any, ...], word: str) -> taxpr.Program:
    if introspect.is_jaxpr(side):
        constants = len(introspect.open_jaxpr(side).constvars)
        if constants != len(getattr(side, "consts", None) or ()):
            raise PanelError(
                f"compare: the {word} side is an open jaxpr with {constants} constants and "
                "without their values. Give the closed one"
            )
    if (program := traced_before(side)) is not None:
        return program
    if isinstance(side, tuple) and side and callable(side[0]):
        return traced(side[0], side[1:], {}, (), ()).program
    if callable(side):
        return traced(side, args, {}, (), ()).program
    raise PanelError(
        f"compare: the {word} side is {introspect.a_type(side)}. Give a function, with example "
        "arguments after both sides or in a tuple (function, *args), a taxpr.Program, or a jaxpr"
    )
