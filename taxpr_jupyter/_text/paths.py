"""Split names that are paths into a PyTree, such as `params['w'][0]`, and shorten lists of them."""

import functools
import itertools
import re
from collections.abc import Sequence

_FEW_KEYS = 4  # that are told of some of several values
_MOST_KEYS = 8  # that are told of all of them


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
        >>> together(["draws['alpha']", "draws['sigma']", "draws['tau']"], 24)
        ('draws: alpha, sigma, tau', True)
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
    whole = len(told) == len(names) and all(len(path) == depth + 1 for path in paths)
    if shared and (len(text) > width or "" in told):
        keys = f"{shared}: {', '.join(map(_key, told))}"
        return (keys, True) if whole and len(keys) <= width else (shared, False)
    while len(text) > width and len(told) > 1:
        told, whole = told[:-1], False
        text = ", ".join((*told, "…"))
    return text, whole


def members(names: Sequence[str]) -> str:
    """The keys behind what names have in common; "" if these are numbers, many, or only one.

    Example:
        >>> members(["params['wte']", "params['blocks']['w']", "params['blocks']['b']"])
        'wte, blocks'
        >>> members(["layers[0]", "layers[1]"])
        ''
    """
    paths = list(map(_parts, names))
    shared = shared_title(names)
    depth = 0 if " … " in shared else len(_parts(shared))
    keys = dict.fromkeys(_key(path[depth]) for path in paths if len(path) > depth)
    if not 2 <= len(keys) <= _MOST_KEYS or any(key.strip("[] ").isdigit() for key in keys):
        return ""
    return ", ".join(keys)


def some_of(names: Sequence[str], every: Sequence[str]) -> str:
    """Which of the values that names begin alike some are: `all but embed`, or `w, b of 6`.

    Args:
        names: The names of some.
        every: The names of all.

    Returns:
        The text; "" if they are all, or if more keys than a few are needed.

    Example:
        >>> layer = ["p['w']", "p['b']", "p['g']", "p['s']", "p['t']"]
        >>> some_of(layer[:4], layer), some_of(layer[:2], layer), some_of(layer, layer)
        ('all but t', 'w, b of 5', '')
    """
    wanted = set(names)
    others = [name for name in every if name not in wanted]
    if not others:
        return ""
    told, left = apart([_behind(names, every), _behind(others, every)], _FEW_KEYS)
    if left and (not told or len(others) < len(names)):
        return f"all but {left}"
    return f"{told} of {len(every)}" if told else ""


def _behind(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """The paths of names behind what all begin with."""
    shared = shared_title(every)
    depth = 0 if " … " in shared else len(_parts(shared))
    return ["".join(_parts(name)[depth:]) or name for name in names]


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
            if own and not told[k] and len(own) <= most and others.isdisjoint(own):
                told[k] = ", ".join(own)
    return told


def key_of(path: str) -> str:
    """A path without a variable as short as it can be: `b` of `['b']`, `net[0].bias`."""
    parts = path_parts(path)
    return _key(path) if len(parts) == 1 else path.lstrip(".")


def _key(part: str) -> str:
    """A part of a path as a word: `w` of `['w']`, `weight` of `.weight`; `[0]` as it is."""
    return part[2:-2] if part[:2] in ("['", '["') else part.lstrip(".")
