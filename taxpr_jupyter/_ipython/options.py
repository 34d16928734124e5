"""The options of ``%taxpr``: one table for parsing, help and completion."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Sequence
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.kinds import ASKED_KINDS

_OPTION = re.compile(r"\s*(--?[A-Za-z][\w-]*)(=|(?=\s|$))")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|\S+)""")
# Not `f` of `f(x)`, `f (x)`, `a.f(x)` or `y = f(x)`.
_MODULES = re.compile(r"\s+([A-Za-z_]\w*(?:[.,]\w+)*)(?=\s+[\w\"'-]|\s*$)")


@dataclasses.dataclass(frozen=True)
class Option:
    """One option. Without ``metavar`` it is a switch.

    Attributes:
        flag: How it is written.
        help: Says in help what it does.
        metavar: The word for its value in help.
        type: The type of its value.
        repeated: Whether it may be given several times.
        bare: Whether it may also be given without a value. The next word is its value only if it
            cannot be the call: names of modules, with commas between them.
    """

    flag: str
    help: str
    metavar: str | None = None
    type: type = str
    repeated: bool = False
    bare: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of argparse's ``add_argument``."""
        if self.metavar is None:
            return {"action": "store_true", "help": self.help}
        settings: dict[str, Any] = {"metavar": self.metavar, "type": self.type, "help": self.help}
        if self.bare:
            settings |= {"nargs": "?", "const": ""}
        return {**settings, "action": "append", "default": []} if self.repeated else settings


HELP = "--help"
OPTIONS = (
    Option("--name", "bind the session to this variable", "NAME"),
    Option(
        "--names",
        "note variables of the source even where a derivative keeps more; with MODULES such as "
        "brax,jax_md also those of libraries, as if they were yours (repeatable)",
        "MODULES",
        repeated=True,
        bare=True,
    ),
    Option("--text", "show text and a table of the tags, no picture"),
    Option(
        "--static",
        "an argument that is not traced: its name, or its position counted from 0 (repeatable)",
        "ARGUMENT",
        repeated=True,
    ),
    Option("--unfold", "address of an equation drawn open (repeatable)", "ADDRESS", repeated=True),
    Option("--fold", "address of an equation drawn closed (repeatable)", "ADDRESS", repeated=True),
    Option(
        "--budget",
        "about how many nodes to show; two names of inputs or outputs count as one",
        "NODES",
        int,
    ),
    Option("--timeout", "seconds that the layout may take", "SECONDS", float),
    Option("--heat", f"colour nodes by {', '.join(ASKED_KINDS)}", "WHAT"),
    Option("--device", "where Run runs, such as cpu:0", "DEVICE"),
    Option(HELP, "print this and run nothing"),
)
_BY_FLAG = {option.flag: option for option in OPTIONS}
_SHORT = {"-h": HELP}


def split(line: str) -> tuple[list[str], str]:
    """The words of the options at the start of the line, and the rest as written: the call.

    The rest never goes through a shell's splitting, which would spoil its spaces
    and quotes.

    Raises:
        PanelError: For an unknown option or a missing value.
    """
    words: list[str] = []
    rest = line
    while match := _OPTION.match(rest):
        flag, equals = match.groups()
        flag = _SHORT.get(flag, flag)
        option = _BY_FLAG.get(flag)
        if option is None:
            raise PanelError(_unknown(flag))
        rest = rest[match.end() :]
        words.append(flag)
        if option.metavar is None:
            if equals:
                raise PanelError(f"{flag} takes no value")
            continue
        value = _VALUE.match(rest)
        if option.bare and not equals:
            value = _MODULES.match(rest)
            if value is None:
                continue
        if value is None:
            raise PanelError(f"{flag} needs a value: {flag} {option.metavar}")
        text = value[1]
        quoted = len(text) > 1 and text[0] in "'\"" and text[0] == text[-1]
        words[-1] = f"{flag}={text[1:-1] if quoted else text}"
        rest = rest[value.end() :]
    return words, rest.strip()


def asked_names(given: Sequence[str]) -> bool | tuple[str, ...] | None:
    """The ``names`` of a session: what ``--names`` was given with; "" without a value."""
    modules = [one.strip() for some in given for one in some.split(",")]
    return tuple(filter(None, modules)) or (True if given else None)


def _unknown(flag: str) -> str:
    close = difflib.get_close_matches(flag, _BY_FLAG, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"Unknown option {flag}: {meant}The options are {', '.join(_BY_FLAG)}"
