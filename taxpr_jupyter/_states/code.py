"""Python for `Session.code`, as far as several libraries share it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from taxpr_jupyter._states.model import PureCode

# As `_objects.taken` and `Taken.put` do it.
_TAKING = """
def is_object(x):
    return isinstance(x, {kinds})

leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: x is None or is_object(x))
places = {places!r}
objects = {{name: leaves[place] for place, name in places.items()}}
rest = jax.tree.map(lambda x: None if is_object(x) else x, (args, kwargs), is_leaf=is_object)

def put(objects, args, kwargs):
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: x is None)
    for place, name in places.items():
        leaves[place] = objects[name]
    return jax.tree.unflatten(tree, leaves)

"""


def taking(kinds: str, places: Mapping[int, str]) -> str:
    """Lines that take ``objects`` out of ``args`` and ``kwargs``, which leaves ``rest``.

    Args:
        kinds: The types of the objects.
        places: The name of each by its place.

    Example:
        >>> import jax
        >>> scope = {"jax": jax, "args": ("a", 1.0), "kwargs": {}}
        >>> exec(taking("str", {0: "model"}), scope)
        >>> scope["objects"], scope["rest"]
        ({'model': 'a'}, ((None, 1.0), {}))
        >>> scope["put"]({"model": "b"}, (None, 2.0), {})
        (('b', 2.0), {})
    """
    return _TAKING.format(kinds=kinds, places=dict(places)).lstrip("\n")


def pure_code(
    body: str, fn: str, args: Sequence[str], imports: Sequence[str], n_bound: int = 0
) -> PureCode:
    """Code that defines a function which makes the user's one pure, and calls it.

    So the names in ``body`` are none of the notebook's.

    Args:
        body: Lines that make ``pure``, ``states`` and ``rest``, the arguments behind the states,
            of ``fn``, ``args`` and ``kwargs``.
        fn: Python for the function.
        args: Python for the arguments.
        imports: What it needs.
        n_bound: How many of the arguments are bound to the user's function.
    """
    lines = [
        "def made_pure(fn, /, *args, **kwargs):",
        *textwrap.indent(body.strip("\n"), "    ").splitlines(),
        "    return pure, states, rest",
        "",
        f"pure, states, (given, words) = made_pure({', '.join([fn, *args])})",
    ]
    given = f"*given[{n_bound}:]" if n_bound else "*given"
    return PureCode(lines, [given, "**words"], imports)
