"""Run the program `dot` as a child process that can be killed at any moment."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import BinaryIO

from taxpr_jupyter._layout.engine import POLL, Deadline, Unavailable


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
    program = shutil.which("dot")
    if program is None:
        raise Unavailable("there is no `dot` program on the PATH")
    # Pass the text by a temporary file: before Python 3.14 `communicate` does not go on writing
    # after a timeout.
    with tempfile.TemporaryFile() as text:
        text.write(dot.encode())
        text.seek(0)
        out, err, status = _talk([program, *options], text, deadline)
    if status != 0 or mark not in out:
        said = err.decode(errors="replace").strip().partition("\n")[0]
        raise Unavailable(f"`dot` failed: {said or f'exit status {status}'}")
    return out


def _talk(command: Sequence[str], text: BinaryIO, deadline: Deadline) -> tuple[bytes, bytes, int]:
    """Runs `dot`; returns its output, its messages, and its exit status."""
    try:
        process = subprocess.Popen(
            command,
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A new session: an interrupt of the notebook does not reach the child, and if `dot` is
            # a script, the program that it starts can be killed with it.
            start_new_session=True,
            # Windows would open a console window.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise Unavailable(f"`{command[0]}` cannot be started: {error.strerror}") from error
    with process:
        try:
            while True:
                try:
                    return *process.communicate(timeout=POLL), process.returncode
                except subprocess.TimeoutExpired:
                    deadline.check()
        finally:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child, and the processes that it started, if they still run."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
