"""Split names that are paths into a PyTree, such as `params['w'][0]`, and shorten lists of them."""

import functools
import itertools
import re
from collections.abc import Sequence


def path_parts(name: str) -> list[str]:
    """Split a name: `params['w'][0]` into `params`, `['w']`, `[0]`; `carry 1` into `carry`, ` 1`.

    A role stays with the name: `carry params['w']` becomes `carry params`, `['w']`.
    """
    return [*_parts(name)]


# Alternatives: a part in brackets; a name with the role before it; a number after a role.
_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_PART = re.compile(rf"\[(?:{_QUOTED}|[^\]])*\]|\.?[^\[. ]+(?: (?!\d+$)[^\[. ]+)*| .*")


@functools.lru_cache(maxsize=1 << 15)
def _parts(name: str) -> tuple[str, ...]:
    return tuple(_PART.findall(name))


def shared_title(names: Sequence[str]) -> str:
    """The common prefix of names, or else the first and the last name."""
    paths = list(map(_parts, names))
    # The common prefix of the alphabetically first and last path is common to all.
    ends = zip(min(paths), max(paths), strict=False)
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], ends)
    return "".join(part for part, _ in shared) or f"{names[0]} … {names[-1]}"
