"""Whether the arrays of a tree are finite, computed where they are, without waiting for it."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from taxpr._compat import PyTree
from taxpr._devices.blocks import by_process
from taxpr._devices.devices_of import processes_of
from taxpr._devices.fetched import on_all_devices
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp, np
from taxpr._untyped import tree_util as _tree


class Finite:
    """Whether each array of a tree is finite; a small program beside the user's computes it.

    Processes that share some of the arrays get one answer, also of those that each has alone.

    Args:
        trees: Trees of arrays by their names, and of other things, which do not count.
    """

    def __init__(self, trees: Mapping[str, PyTree]) -> None:
        leaves: list[Any]
        leaves, self._tree = _tree.tree_flatten(dict(trees))
        kinds: list[Any] = [getattr(x, "dtype", None) or type(x) for x in leaves]
        counted = [k for k, kind in enumerate(kinds) if _has_floats(kind)]
        self._groups = grouped(leaves, counted)
        self._found: list[Any] = []
        shared: list[jax.Array] = []
        for group in self._groups:
            xs = [leaves[k] for k in group]
            if _is_whole(xs[0]):
                self._found.append(_are_finite(xs))
            else:
                self._found += on_all_devices(_each_is_finite, xs)
                shared.append(xs[0])
        if shared:
            processes = tuple(sorted(processes_of(shared[0].sharding.device_set)))
            self._found = [
                _on_all(one, processes) if _is_whole(one) else one for one in self._found
            ]

    def wrong(self) -> list[str]:
        """The paths of those that are not, when this is computed."""
        flags: list[Any] = [np.asarray(one) for one in self._found]
        wrong = [
            k
            for group, known in zip(self._groups, flags, strict=True)
            for k, good in zip(group, known, strict=True)
            if not good
        ]
        if not wrong:
            return []
        numbers = _tree.tree_unflatten(self._tree, range(self._tree.num_leaves))
        paths = [path for path, _ in _tree.tree_leaves_with_path(numbers)]
        return [paths[k][0].key + _tree.keystr(paths[k][1:]) for k in wrong]


def grouped(leaves: Sequence[Any], numbers: Sequence[int]) -> list[list[int]]:
    """Numbers of leaves, together where one program can take them: of one mesh, or device.

    Those that JAX may move are apart from those that were put somewhere, so that they stay so.
    """
    groups: dict[Any, list[int]] = {}
    for k in numbers:
        x = leaves[k]
        key = _place(getattr(x, "sharding", None)), getattr(x, "committed", None)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


@functools.lru_cache(maxsize=1024)
def _place(sharding: Any) -> Any:
    return getattr(sharding, "mesh", None) or frozenset(getattr(sharding, "device_set", ()))


@functools.lru_cache(maxsize=1024)
def _has_floats(kind: Any) -> bool:
    """Whether a dtype, or the class of a value without one, can hold non-finite numbers."""
    dtype: Any = (float if kind is float else bool) if isinstance(kind, type) else kind
    return bool(jnp.issubdtype(dtype, np.inexact))


def _is_whole(x: Any) -> bool:
    return getattr(x, "is_fully_addressable", True)


def _each_is_finite(xs: Sequence[Any]) -> list[Any]:
    return [jnp.stack([jnp.isfinite(x).all() for x in xs])]


@_jax.jit
def _are_finite(xs: Sequence[Any]) -> Any:
    return _each_is_finite(xs)[0]


def _on_all(flags: Any, processes: tuple[int, ...]) -> Any:
    """Which flags are true on all of some processes."""
    rows: Any = by_process(flags, processes)
    return _all_of(rows.sharding.mesh)(rows)


@functools.cache
def _all_of(mesh: Mesh) -> Any:
    return _jax.jit(
        functools.partial(jnp.all, axis=0), out_shardings=NamedSharding(mesh, PartitionSpec())
    )
