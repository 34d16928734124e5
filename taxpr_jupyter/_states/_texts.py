"""Python for `Session.code`, as far as several libraries share it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

# Behind the states: what `taking` leaves of the arguments.
GIVEN = ("*given", "**words")


def taking(args: Sequence[str], is_object: str, places: Mapping[int, str]) -> list[str]:
    """Lines that take objects out of arguments, as `_objects.taken` does.

    Args:
        args: The arguments: ``model``, ``n=3``.
        is_object: What says of ``x`` whether it is one.
        places: The name of each by its place.

    Example:
        >>> print("\\n".join(taking(["m", "x", "n=3"], "isinstance(x, str)", {0: "m"})))
        def is_object(x):
            return isinstance(x, str)
        <BLANKLINE>
        args, kwargs = (m, x,), dict(n=3)
        leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: x is None or is_object(x))
        objects = {'m': leaves[0]}
        places = {0: 'm'}
        given, words = jax.tree.map(
            lambda x: None if is_object(x) else x, (args, kwargs), is_leaf=is_object
        )
        <BLANKLINE>
        def put(objects, args, kwargs):
            leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: x is None)
            for place, name in places.items():
                leaves[place] = objects[name]
            return jax.tree.unflatten(tree, leaves)
        <BLANKLINE>
    """
    call = ast.parse(f"f({', '.join(args)})", mode="eval").body
    assert isinstance(call, ast.Call)
    positional = "".join(f"{ast.unparse(arg)}, " for arg in call.args).strip()
    keywords = ", ".join(ast.unparse(keyword) for keyword in call.keywords)
    first = {name: place for place, name in reversed(objects)}
    in_order = sorted(first.items(), key=lambda pair: pair[1])
    named = ", ".join(f"{name!r}: leaves[{place}]" for name, place in in_order)
    return [
        "def is_object(x):",
        f"    return {is_object}",
        "",
        f"args, kwargs = ({positional}), dict({keywords})",
        "leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: x is None or is_object(x))",
        f"objects = {{{named}}}",
        f"places = {dict(places)!r}",
        "given, words = jax.tree.map(",
        "    lambda x: None if is_object(x) else x, (args, kwargs), is_leaf=is_object",
        ")",
        "",
        "def put(objects, args, kwargs):",
        "    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: x is None)",
        "    for place, name in places.items():",
        "        leaves[place] = objects[name]",
        "    return jax.tree.unflatten(tree, leaves)",
        "",
    ]
