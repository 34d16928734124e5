"""Names that are paths into a PyTree, such as `params['w'][0]`, in parts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence


def path_parts(name: str) -> list[str]:
    """`params`, `['w']`, `[0]` for `params['w'][0]`; `carry`, ` 1` for `carry 1`.

    And `carry params`, `['w']` for `carry params['w']`: what is carried of one argument.
    """
    return _PART.findall(name)


# A part in brackets; a name, with a role before it; a number behind a role.
_PART = re.compile(r"\[[^\]]*\]|\.?[^\[. ]+(?: (?!\d+$)[^\[. ]+)*| .*")


def shared_title(names: Sequence[str]) -> str:
    """What names have in common, or the first and the last one."""
    paths = [path_parts(name) for name in names]
    # What the first and the last in the order of the alphabet have in common, all have.
    ends = zip(min(paths), max(paths), strict=False)
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], ends)
    return "".join(part for part, _ in shared) or f"{names[0]} … {names[-1]}"
