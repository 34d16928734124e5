"""Python code for `Session.code` that several libraries share."""

from collections.abc import Mapping

# Does the same as `objects.apart` and `Apart.put`.
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
