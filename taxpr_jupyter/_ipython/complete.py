"""Completion of the options and words of ``%taxpr``."""

import re
from typing import Any

from IPython.core import completer

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._ipython import verbs
from taxpr_jupyter._ipython.options import OPTIONS, split
from taxpr_jupyter._output.shell import running_shell

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


def _fitting(line: str) -> tuple[str, list[str], bool]:
    """The completions of the line up to the cursor.

    Returns:
        The word before the cursor, its completions, and whether nothing else fits.
    """
    flag = re.fullmatch(r"\s*%{1,2}taxpr(?:\s.*)?\s(-[\w-]*)", line)
    if flag:
        return flag[1], [o.flag for o in OPTIONS if o.flag.startswith(flag[1])], True
    found = re.fullmatch(r"\s*%taxpr\s+(.*)", line, re.DOTALL)
    if found is None:
        return "", [], False
    end = line[len(line.rstrip()) :]
    try:
        given, text = split(found[1])
        verb = verbs.verb_of(text)
        if verb is None or (verb == text and not end):  # the verb itself is typed
            return *verbs.first_words(text + end if text else ""), False
        more, rest = split(text.removeprefix(verb))
        names = [word.removeprefix("--name=") for word in given + more if word[:7] == "--name="]
        session = verbs.session_of(
            names[-1] if names else None, getattr(running_shell(), "user_ns", {})
        )
    except PanelError:  # nothing is wrong with a line that is not finished
        return "", [], False
    return *verbs.next_words(verb, rest + end, session), True


def _matcher(context: Any) -> dict[str, Any]:
    word, found, alone = _fitting(context.line_with_cursor[: context.cursor_position])
    return {
        "completions": [completer.SimpleCompletion(text=one, type="param") for one in found],
        "suppress": bool(found) and alone,
        "matched_fragment": word,
    }


_matcher.matcher_api_version = 2  # type: ignore[attr-defined]
_matcher.matcher_identifier = "taxpr_jupyter.options"  # type: ignore[attr-defined]


def _complete_command(shell: Any, event: Any) -> list[str]:
    word, found, _ = _fitting(event.text_until_cursor)
    symbol = word if word.startswith("-") else event.symbol  # IPython's word may be shorter
    return [one[len(word) - len(symbol) :] for one in found if word.endswith(symbol)]
