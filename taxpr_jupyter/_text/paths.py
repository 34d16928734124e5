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


def together(names: Sequence[str], width: int) -> tuple[str, bool]:
    """The common part of names, or a few of them; and whether the text tells all of them.

    Args:
        names: The names.
        width: The most characters of a list.

    Example:
        >>> together(["params['a']['w']", "params['a']['b']"], 24)
        ("params['a']", False)
        >>> together(["params['w']", "params['b']"], 24)
        ("params['w'], ['b']", True)
        >>> together(["grads['w']", "grads['b']", "loss"], 24)
        ('grads, loss', False)
    """
    paths = list(map(_parts, names))
    shared = shared_title(names) if paths[0][:1] == paths[-1][:1] else ""
    shared = "" if " … " in shared else shared
    depth = len(_parts(shared))
    if depth > 1 or len(names) == 1:
        return shared or names[0], len(names) == 1
    told = list(dict.fromkeys(path[depth] if depth < len(path) else "" for path in paths))
    text = ", ".join(filter(None, (shared + told[0], *told[1:])))
    if shared and (len(text) > width or "" in told):
        return shared, False
    whole = len(told) == len(names) and all(len(path) == depth + 1 for path in paths)
    while len(text) > width and len(told) > 1:
        told, whole = told[:-1], False
        text = ", ".join((*told, "…"))
    return text, whole


def apart(groups: Sequence[Sequence[str]], most: int) -> list[str]:
    """The keys that only the paths of one group have, for each of several groups of paths.

    Args:
        groups: The groups, whose paths have no name of a variable.
        most: The most keys of a group.

    Returns:
        For each group, its first or its last keys; "" if there are more, or if others have them.

    Example:
        >>> apart([["['net']['w']", "['net']['b']"], ["['log_nu']"]], 4)
        ['net', 'log_nu']
        >>> apart([["['a']['w']", "['b']['w']"], ["['a']['b']", "['b']['b']"]], 4)
        ['w', 'b']
    """
    told = [""] * len(groups)
    for end in (0, -1):
        keys = [dict.fromkeys(_key(path_parts(path)[end]) for path in group) for group in groups]
        for k, own in enumerate(keys):
            others = {key for j, other in enumerate(keys) if j != k for key in other}
            if not told[k] and len(own) <= most and others.isdisjoint(own):
                told[k] = ", ".join(own)
    return told


def _key(part: str) -> str:
    """A part of a path as a word: `w` of `['w']`, `weight` of `.weight`; `[0]` as it is."""
    return part[2:-2] if part[:2] in ("['", '["') else part.lstrip(".")
