"""Completion of the options of ``%taxpr``."""

import re
from typing import Any

from IPython.core import completer

from taxpr_jupyter._ipython.options import OPTIONS

_MAGICS = ("%taxpr", "%%taxpr")
_HOOK = "complete_command"
# The matcher API came with IPython 8.6. Before, `custom_matchers` works differently.
_HAS_MATCHERS = hasattr(completer, "SimpleCompletion")


def add(shell: Any) -> None:
    """Completes options in the shell from now on."""
    remove(shell)
    if _HAS_MATCHERS:
        shell.Completer.custom_matchers.append(_matcher)
        return
    for magic in _MAGICS:
        shell.set_hook(_HOOK, _complete_command, str_key=magic)


def remove(shell: Any) -> None:
    """Stops completing them. Does nothing if `add` was not called."""
    if _HAS_MATCHERS:
        found = shell.Completer.custom_matchers
        found[:] = [matcher for matcher in found if matcher is not _matcher]
        return
    dispatch = shell.strdispatchers.get(_HOOK)
    for magic in _MAGICS:
        if dispatch is not None:
            dispatch.strs.pop(magic, None)


def _options_for(line: str) -> list[str]:
    """The flags that fit at the end of the line up to the cursor."""
    found = re.fullmatch(r"\s*%{1,2}taxpr(?:\s.*)?\s(-[\w-]*)", line)
    start = found[1] if found else None
    return [] if start is None else [o.flag for o in OPTIONS if o.flag.startswith(start)]


def _matcher(context: Any) -> dict[str, Any]:
    flags = _options_for(context.line_with_cursor[: context.cursor_position])
    return {
        "completions": [completer.SimpleCompletion(text=flag, type="param") for flag in flags],
        "suppress": bool(flags),
        "matched_fragment": context.token,
    }


_matcher.matcher_api_version = 2  # type: ignore[attr-defined]
_matcher.matcher_identifier = "taxpr_jupyter.options"  # type: ignore[attr-defined]


def _complete_command(shell: Any, event: Any) -> list[str]:
    return _options_for(event.text_until_cursor)
