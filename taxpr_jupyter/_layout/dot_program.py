"""Run the program `dot` as a child process that can be killed at any moment."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO

from taxpr_jupyter._layout.engine import POLL, Deadline, Engine, Unavailable

_END = b"</svg>"
_PATIENCE = 1.0  # seconds without an answer, after which `dot` may be waiting for the end of input


@contextlib.contextmanager
def engine(deadline: Deadline) -> Iterator[Engine]:
    """Lays out graphs until the deadline, in one process: starting it takes most of the time."""
    with contextlib.ExitStack() as stack:
        running: list[_Process] = []

        def svgs_of(dots: Sequence[str]) -> Sequence[str]:
            if not running or running[-1].is_closed:
                running.append(stack.enter_context(_Process(["-Tsvg"], deadline)))
            return running[-1].svgs_of(dots)

        yield svgs_of


def written(dot: str, options: Sequence[str], mark: bytes, deadline: Deadline) -> bytes:
    """The output of `dot`.

    Args:
        dot: The graph in the DOT language.
        options: The options of the command line.
        mark: Bytes that every correct output contains.
        deadline: When to stop.

    Raises:
        Unavailable: There is no such program, or it failed.
        LayoutStopped: The time was up, or somebody cancelled.
    """
    with _Process(options, deadline) as process:
        process.send(dot.encode())
        process.close()
        out = b"".join(process.received())
        if process.status() != 0 or mark not in out:
            raise process.failed()
        return out


class _Process:
    """A running `dot`. It reads and writes in threads: it may be stuck in either.

    Raises:
        Unavailable: There is no such program, or it cannot be started.
    """

    def __init__(self, options: Sequence[str], deadline: Deadline) -> None:
        program = shutil.which("dot")
        if program is None:
            raise Unavailable("there is no `dot` program on the PATH")
        self._deadline = deadline
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `__exit__`
        try:
            self._process = subprocess.Popen(
                [program, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                # A new session: an interrupt of the notebook does not reach the child, and if `dot`
                # is a script, the program that it starts can be killed with it.
                start_new_session=True,
                # Windows would open a console window.
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            self._said.close()
            raise Unavailable(f"`{program}` cannot be started: {error.strerror}") from error
        self.is_closed = False
        self._to_send: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name="taxpr-dot", daemon=True)
            for work in (self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        _kill(self._process)
        self._process.wait()
        for thread in self._threads:
            thread.join(_PATIENCE)
        self._said.close()

    def svgs_of(self, dots: Sequence[str]) -> list[str]:
        """The SVGs of some graphs."""
        self.send("\n".join([*dots, ""]).encode())
        out, last = b"", time.monotonic()
        while out.count(_END) < len(dots):
            part = self._next()
            if part == b"":
                raise self.failed()
            if part is not None:
                out, last = out + part, time.monotonic()
            # Some builds may write nothing before all is read. Then the next graphs get another
            # process.
            elif time.monotonic() - last > _PATIENCE:
                self.close()
        return [f"{svg.strip()}</svg>" for svg in out.decode(errors="replace").split("</svg>")[:-1]]

    def send(self, text: bytes) -> None:
        """Send input."""
        self._to_send.put(text)

    def close(self) -> None:
        """Send nothing more."""
        self.is_closed = True
        self._to_send.put(None)

    def received(self) -> Iterator[bytes]:
        """All output."""
        while (part := self._next()) != b"":
            yield part or b""

    def status(self) -> int:
        """The exit status, after all output."""
        return self._process.wait()

    def failed(self) -> Unavailable:
        """The error that it failed."""
        self.close()
        status = self.status()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().partition("\n")[0]
        return Unavailable(f"`dot` failed: {said or f'exit status {status}'}")

    def _next(self) -> bytes | None:
        """Some output; empty at its end, and None if it has not come yet."""
        self._deadline.check()
        try:
            return self._received.get(timeout=POLL)
        except queue.Empty:
            return None

    def _write(self) -> None:
        with contextlib.suppress(OSError), _of(self._process.stdin) as stdin:
            while (text := self._to_send.get()) is not None:
                stdin.write(text)
                stdin.flush()

    def _read(self) -> None:
        with _of(self._process.stdout) as stdout:
            while part := os.read(stdout.fileno(), 1 << 16):
                self._received.put(part)
        self._received.put(b"")


def _of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "it was asked for"
    return pipe


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child, and the processes that it started, if they still run."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
