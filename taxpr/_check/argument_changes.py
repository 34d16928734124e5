"""Make what a function changes in its arguments results of it."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.libraries import is_object
from taxpr._calls.unbound import unbind
from taxpr._errors import name_of
from taxpr._programs.program import Program
from taxpr._untyped import tree_util as _tree


def with_changes(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the result of ``fun`` and the arrays that it put into its arguments.

    The arguments are dicts and lists; for objects of libraries `Program.states` tells. A changed
    array has the number of the argument's leaf; a new one has a number behind them.
    """
    if unbind(fun, is_object).args:
        return fun

    @functools.wraps(fun)
    def changing(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_object, jax.tree.leaves((args, kwargs), is_leaf=is_object))):
            return fun(*args, **kwargs), {}
        before = _arrays(args, kwargs)
        numbers = {path: k for k, path in enumerate(before)}
        result = fun(*args, **kwargs)
        after = _arrays(args, kwargs)
        changed = [path for path, leaf in after.items() if before.get(path) is not leaf]
        return result, {numbers.setdefault(path, len(numbers)): after[path] for path in changed}

    changing.__name__ = name_of(fun)
    vars(changing)["tells_changes"] = True
    return changing


def _arrays(args: Any, kwargs: Any) -> dict[str, Any]:
    """The arrays of the arguments by path, without tracers of finished transformations."""
    leaves = _tree.tree_leaves_with_path((args, kwargs))
    return {_tree.keystr(path): leaf for path, leaf in leaves if _compat.is_traced_now(leaf)}


class _Position(int):
    """The number of a result, beside numbers that a function returned as they are."""


def _position(one: Any) -> _Position | None:
    return one if isinstance(one, _Position) else None


def results_of(program: Program, fun: Callable[..., Any]) -> tuple[Any, dict[int, int]]:
    """The results of a function, each as its position.

    Args:
        program: The program.
        fun: The function that was traced, with `with_changes` or without.

    Returns:
        The tree of its own results, and its changes by the number of the argument's leaf.
    """
    outs = [_Position(k) for k in range(program.out_tree.num_leaves)]
    results: Any = program.result(outs)
    of_dicts: dict[int, int] = {}
    if hasattr(fun, "tells_changes"):
        results, of_dicts = results
    # What is no array is none of the program's results.
    results = jax.tree.map(_position, results)
    inputs = {name: k for k, name in enumerate(program.in_names)}
    after: list[int] = jax.tree.leaves(program.states_after(outs))
    changed = {inputs.get(program.out_names[out]): out for out in after}
    return results, of_dicts | {k: out for k, out in changed.items() if k is not None}
