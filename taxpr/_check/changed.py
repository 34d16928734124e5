"""Make what a function changes in its arguments results of it."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from taxpr import _compat
from taxpr._errors import name_of
from taxpr._programs.program import Program

_tree: Any = jax.tree_util


def with_changes(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the result of ``fun`` and the arrays that it put into its arguments.

    Optimizers of flax nnx, for one, change the model that they are given and return nothing. What
    is changed has the number of the argument's leaf; what is new has a number behind them.
    """

    @functools.wraps(fun)
    def changing(*args: Any, **kwargs: Any) -> Any:
        before = _arrays(args, kwargs)
        numbers = {path: k for k, path in enumerate(before)}
        result = fun(*args, **kwargs)
        after = _arrays(args, kwargs)
        changed = [path for path, leaf in after.items() if before.get(path) is not leaf]
        return result, {numbers.setdefault(path, len(numbers)): after[path] for path in changed}

    changing.__name__ = name_of(fun)
    return changing


def _arrays(args: Any, kwargs: Any) -> dict[str, Any]:
    """The arrays of the arguments by path, without those of transformations that are over."""
    leaves = _tree.tree_leaves_with_path((args, kwargs))
    return {_tree.keystr(path): leaf for path, leaf in leaves if _compat.is_traced_now(leaf)}


def results_of(program: Program) -> tuple[Any, dict[int, int]]:
    """The results of a function of `with_changes`, each as its position.

    Returns:
        The tree of its own results, and what it changed by the number of the argument's leaf.
    """
    return jax.tree.unflatten(program.out_tree, range(program.out_tree.num_leaves))
