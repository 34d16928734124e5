"""Whether the arrays of a tree are finite, computed where they are, without waiting for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from taxpr._compat import PyTree
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp, np
from taxpr._untyped import tree_util as _tree


class Finite:
    """Whether each array of a tree is finite; a small program beside the user's computes it.

    Args:
        trees: Trees of arrays by their names, and of other things, which do not count.
    """

    def __init__(self, trees: Mapping[str, PyTree]) -> None:
        found = _tree.tree_leaves_with_path(dict(trees))
        of_mesh: dict[Any, list[Any]] = {}
        for path, x in found:
            dtype = getattr(x, "dtype", float if isinstance(x, float) else bool)
            if jnp.issubdtype(dtype, np.inexact):
                of_mesh.setdefault(_mesh(x), []).append((path, x))
        self._paths = [[path for path, _ in group] for group in of_mesh.values()]
        self._found: list[Any] = [_are_finite([x for _, x in group]) for group in of_mesh.values()]

    def wrong(self) -> list[str]:
        """The paths of those that are not, when this is computed."""
        flags: list[Any] = [np.asarray(one) for one in self._found]
        pairs = zip(self._paths, flags, strict=True)
        return [
            path[0].key + _tree.keystr(path[1:])
            for paths, known in pairs
            for path, good in zip(paths, known, strict=True)
            if not good
        ]


def _mesh(x: Any) -> Any:
    """Arrays of one mesh, or of the same devices, can be arguments of one program."""
    sharding = getattr(x, "sharding", None)
    return getattr(sharding, "mesh", None) or frozenset(getattr(sharding, "device_set", ()))


@_jax.jit
def _are_finite(xs: Sequence[Any]) -> Any:
    return jnp.stack([jnp.isfinite(x).all() for x in xs])
