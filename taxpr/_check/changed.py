"""What a function changes in its arguments, as results of it."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from taxpr import _compat
from taxpr._errors import name_of
from taxpr._programs.program import Program

_tree: Any = jax.tree_util


def with_changes(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the result of ``fn`` and the arrays that it put into its arguments.

    Optimizers of flax nnx, for one, change the model that they are given and return nothing.
    """

    @functools.wraps(fn)
    def changing(*args: Any, **kwargs: Any) -> Any:
        before = _arrays(args, kwargs)
        result = fn(*args, **kwargs)
        after = _arrays(args, kwargs)
        return result, {k: leaf for k, leaf in after.items() if before.get(k) is not leaf}

    changing.__name__ = name_of(fn)
    return changing


def _arrays(args: Any, kwargs: Any) -> dict[str, Any]:
    """The arrays of the arguments by path, without those of transformations that are over."""
    leaves = _tree.tree_leaves_with_path((args, kwargs))
    return {_tree.keystr(path): leaf for path, leaf in leaves if _compat.is_traced_now(leaf)}


def changes_of(program: Program) -> dict[int, str]:
    """Which results of a function of `with_changes` are changes: by position, and their paths."""
    _, changes = jax.tree.unflatten(program.out_tree, range(len(program.out_names)))
    return {k: path for path, k in changes.items()}
