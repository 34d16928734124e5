"""Python that makes a function with states a pure one, and sets what its states begin with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr_jupyter._states.model import PureCall


@dataclasses.dataclass(frozen=True)
class StatesOf:
    """The states of a session.

    Attributes:
        pure: The pure call that was traced.
        edited: The initial values that were set, by name.
    """

    pure: PureCall
    edited: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class PureLines:
    """Lines that define ``pure`` and ``states``.

    Attributes:
        lines: The lines.
        imports: Lines with imports that they need.
        args: The arguments behind the states.
    """

    lines: list[str]
    imports: Sequence[str]
    args: Sequence[str]


def pure_lines(
    states: StatesOf,
    fn: str,
    args: Sequence[str],
    words: Sequence[str],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    value_code: Callable[[Any], str],
) -> PureLines:
    """The lines for one call.

    Args:
        states: The states.
        fn: Python for the function.
        args: Python for its positional arguments.
        words: Python for the others: ``n=3``.
        static_argnums: Positions of the arguments that are not traced.
        static_argnames: Names of such.
        value_code: Writes a value in Python.
    """
    bound = states.pure.bound
    if bound is not None:
        # As `_traced.without_statics` numbers them, the objects among the arguments.
        args = [*(text.format(fn=fn) for text in bound.texts), *args]
        static_argnums = [number + len(bound.args) for number in static_argnums]
        fn = bound.text.format(fn=fn)
    lines, fn, every = _bound(fn, args, words, static_argnums, static_argnames)
    code = states.pure.code(fn, every)
    lines += [*code.lines, *_edits(states, value_code)]
    return PureLines(lines, code.imports, code.args)


def _name(word: str) -> str:
    """The name of a keyword argument."""
    return word.partition("=")[0]


def _bound(
    fn: str,
    args: Sequence[str],
    words: Sequence[str],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
) -> tuple[list[str], str, list[str]]:
    """Lines that define the function of what is traced; its name, and its arguments."""
    fixed = [word for word in words if _name(word) in static_argnames]
    others = [word for word in words if word not in fixed]
    if not (static_argnums or fixed):
        return [], fn, [*args, *words]
    lines, every = [], [text for k, text in enumerate(args) if k not in static_argnums]
    rest = iter(range(len(every)))
    given = [text if k in static_argnums else f"args[{next(rest)}]" for k, text in enumerate(args)]
    if not static_argnums:
        given = ["*args"]
    elif any(text.startswith("*") for text in args):  # how many these are is seen when it runs
        numbers = tuple(static_argnums)
        lines = [
            f"every = [{', '.join(args)}]",
            f"traced = [arg for k, arg in enumerate(every) if k not in {numbers}]",
        ]
        given = [f"*[arg if k in {numbers} else next(args) for k, arg in enumerate(every)]"]
        every = ["*traced"]
    lines.append("def fn(*args, **kwargs):")
    lines += ["    args = iter(args)"] if every == ["*traced"] else []
    lines += [f"    return {fn}({', '.join([*given, *fixed, '**kwargs'])})", ""]
    return lines, "fn", [*every, *others]


def _edits(states: StatesOf, value_code: Callable[[Any], str]) -> list[str]:
    """Lines that set the initial values that are others than the states' own."""
    lines = []
    for name, value in states.edited.items():
        leaves, tree = jax.tree.flatten(value)
        before = jax.tree.leaves(states.pure.states[name])
        if tree == jax.tree.structure(0):
            lines.append(f"states[{name!r}] = {value_code(leaves[0])}")
            continue
        lines.append(f"leaves, tree = jax.tree.flatten(states[{name!r}])")
        lines += [
            f"leaves[{k}] = {value_code(leaf)}"
            for k, (leaf, was) in enumerate(zip(leaves, before, strict=True))
            if leaf is not was
        ]
        lines.append(f"states[{name!r}] = jax.tree.unflatten(tree, leaves)")
    return lines
