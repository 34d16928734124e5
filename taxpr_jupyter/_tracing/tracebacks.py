"""Show errors in a notebook with only the user's frames, and a hint."""

import ast
import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._text.hints import hint

_OURS = ("taxpr", "taxpr_jupyter", "jax", "jaxlib", "IPython")
_GLUE = (ast.__file__, contextlib.__file__, functools.__file__)


class CellSyntaxError(PanelError):
    """A syntax error in a cell, shown as IPython shows one in a cell without a magic.

    IPython shows the whole stack for a `SyntaxError` that a magic lets out.
    """

    def __init__(self, error: SyntaxError, shell: Any) -> None:
        super().__init__(str(error))
        self._lines = shell.SyntaxTB.structured_traceback(type(error), error, [])

    def _render_traceback_(self) -> list[str]:
        return self._lines


@contextlib.contextmanager
def for_the_user(shell: Any, caller: FrameType | None = None) -> Iterator[None]:
    """Show errors without the frames of taxpr, JAX and IPython.

    The raised error stays the same object, for ``except``, ``%debug`` and nbclient.

    Args:
        shell: The IPython shell, or None: then the hint becomes a note of the error.
        caller: The calling frame of the user, to show first; None to leave it out.
    """
    try:
        yield
    except Exception as error:
        if shell is None:
            text = hint(error)
            if text and f"Hint: {text}" not in getattr(error, "__notes__", ()):
                error.add_note(f"Hint: {text}")
        elif isinstance(error, SyntaxError) and users_frames(error.__traceback__) is None:
            raise CellSyntaxError(error, shell) from None
        elif not hasattr(error, "_render_traceback_"):
            lines = rendered(error, shell, caller)
            with contextlib.suppress(AttributeError):  # classes with __slots__
                error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
        raise


def rendered(error: Exception, shell: Any, caller: FrameType | None = None) -> list[str]:
    """The lines that IPython shows for the error."""
    frames = users_frames(error.__traceback__)
    if caller is not None:
        frames = TracebackType(frames, caller, caller.f_lasti, caller.f_lineno)
    with _alone(error):
        if frames is None:
            lines = shell.InteractiveTB.get_exception_only(type(error), error)
        else:
            lines = shell.InteractiveTB.structured_traceback(
                type(error), error, frames, tb_offset=0
            )
    text = hint(error)
    hints = [note for note in getattr(error, "__notes__", ()) if note.startswith("Hint: ")]
    hints += [f"Hint: {text}"] if text else []
    shown = "\n".join(lines)  # IPython 7 shows no notes
    return [*lines, *(one for one in dict.fromkeys(hints) if one not in shown)]


@contextlib.contextmanager
def _alone(error: Exception) -> Iterator[None]:
    """A context that hides the cause and context of an error, which IPython would show.

    JAX stores its unfiltered traceback there. IPython 7 shows them even if asked for the error
    only, and fails on them with a Python newer than itself.
    """
    whole, cause = error.__traceback__, (error.__cause__, error.__context__)
    suppressed = error.__suppress_context__
    error.__cause__ = error.__context__ = None
    try:
        yield
    finally:
        error.__cause__, error.__context__ = cause
        error.__suppress_context__ = suppressed
        error.__traceback__ = whole


def users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of taxpr, JAX, IPython and the standard library's wrappers."""
    frames = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for entry in reversed(frames):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def users_line(traceback: TracebackType | None) -> str:
    """``line 3 of bad``: the innermost line of the user's own code, or empty."""
    entry = users_frames(traceback)
    if entry is None:
        return ""
    while entry.tb_next is not None:
        entry = entry.tb_next
    return f"line {entry.tb_lineno} of {entry.tb_frame.f_code.co_name}"


def is_ours(filename: str) -> bool:
    """Whether a file belongs to taxpr, JAX, IPython or the standard library's wrappers."""
    return filename.startswith(_folders()) or filename in _GLUE


@functools.cache
def _folders() -> tuple[str, ...]:
    specs = [importlib.util.find_spec(name) for name in _OURS]
    return tuple(
        os.path.join(folder, "")
        for spec in specs
        if spec is not None
        for folder in spec.submodule_search_locations or ()
    )
