"""Errors of a program that was edited, in a few words for the edited line."""

import re
import traceback
from collections.abc import Collection

from taxpr import introspect
from taxpr_jupyter._errors import one_line
from taxpr_jupyter._text.hints import hint
from taxpr_jupyter._tracing.tracebacks import users_frames

# The reader sees the edits beside the message, and no number of a traced value.
_MORE = re.compile(
    r"\s*(\nMeanwhile |To change what the line gives|This \w*Tracer with object id|"
    r"The error occurred while tracing the function|See https://docs\.jax\.dev).*",
    re.DOTALL,
)
_MEANT = re.compile(r"\. Did you mean: [^\n]*\?")


def mistake(error: BaseException, lines: Collection[int | None]) -> str:
    """The message, the line if it is not among these, and how to fix it."""
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    said = one_line(error, _MORE.sub("", text))
    shown = traceback.TracebackException(type(error), error, error.__traceback__, limit=0)
    meant = _MEANT.search("".join(shown.format_exception_only()))
    said += meant[0] if meant else ""
    return " ".join(filter(None, [said, _place(error, lines), _fix(error)]))


def _fix(error: BaseException) -> str:
    fix = hint(error)
    return f"Hint: {fix}" if fix else ""


def _place(error: BaseException, lines: Collection[int | None]) -> str:
    entry = users_frames(error.__traceback__)
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    if entry is None or entry.tb_lineno in lines:
        return ""
    code = entry.tb_frame.f_code
    return f"({introspect.file_text(code.co_filename)}:{entry.tb_lineno} in {code.co_name})"
