"""Write Python that makes a function with states pure, and sets the initial values."""

import dataclasses
import functools
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from taxpr.libraries import PureCode
from taxpr_jupyter._code.code_names import CodeNames
from taxpr_jupyter._code.value_code import value_code
from taxpr_jupyter._states.pure_call import PureCall


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
        args: The arguments after the states.
    """

    lines: list[str]
    args: Sequence[str]


_UNWRITTEN = """\
# No code takes the objects of {library} apart: give taxpr.libraries.objects code=...
# In code of your own all functions of taxpr take these objects: taxpr.watch(f)(model, x)
"""


def unwritten(states: StatesOf) -> str:
    """The text in place of code, if a library brings no code for its objects."""
    pure = states.pure
    brings_none = pure.library != "taxpr" and not pure.code().body
    return _UNWRITTEN.format(library=pure.library) if brings_none else ""


def pure_lines(
    states: StatesOf,
    fun: str,
    args: Sequence[str],
    words: Sequence[str],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    names: CodeNames,
) -> PureLines:
    """The lines for one call."""
    bound = states.pure.bound
    if bound is not None:
        # As `without_statics` numbers them, the objects among the arguments.
        args = [*(text.format(fun=fun) for text in bound.texts), *args]
        static_argnums = [number + len(bound.args) for number in static_argnums]
        fun = bound.text.format(fun=fun)
    lines, fun, every = _bound(fun, args, words, static_argnums, static_argnames, names)
    made, behind = _made_pure(states.pure.code(), fun, every, names)
    return PureLines([*lines, *made, *_edits(states, names)], behind)


def _made_pure(
    code: PureCode, fun: str, args: Sequence[str], names: CodeNames
) -> tuple[list[str], Sequence[str]]:
    """Lines that make the function pure, and the arguments after the states."""
    target = f"{names.own('pure')}, {names.own('states')}"
    given = ", ".join([fun, *args])
    if not code.body:
        return [f"{target} = {names.module('taxpr')}.uncurry({given})"], args
    body = code.body.strip("\n")
    for alias, module in {"jax": "jax", **code.modules}.items():
        body = re.sub(rf"(?<![\w.]){alias}\.", f"{names.module(module, alias)}.", body)
    made, rest, words = (names.own(name) for name in ("made_pure", "given", "words"))
    lines = [
        f"def {made}(fun, /, *args, **kwargs):",
        *textwrap.indent(body, "    ").splitlines(),
        "    return pure, states, rest",
        "",
        f"{target}, ({rest}, {words}) = {made}({given})",
    ]
    return lines, [f"*{rest}[{code.n_bound}:]" if code.n_bound else f"*{rest}", f"**{words}"]


def _name(word: str) -> str:
    """The name of a keyword argument."""
    return word.partition("=")[0]


def _bound(
    fun: str,
    args: Sequence[str],
    words: Sequence[str],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    names: CodeNames,
) -> tuple[list[str], str, list[str]]:
    """Lines that define a function of the traced arguments, its name, and these arguments."""
    fixed = [word for word in words if _name(word) in static_argnames]
    others = [word for word in words if word not in fixed]
    if not (static_argnums or fixed):
        return [], fun, [*args, *words]
    own, all_args, kwargs, outer, traced = (
        names.own(name) for name in ("fn", "args", "kwargs", "every", "traced")
    )
    lines, every = [], [text for k, text in enumerate(args) if k not in static_argnums]
    rest = iter(range(len(every)))
    given = [
        text if k in static_argnums else f"{all_args}[{next(rest)}]" for k, text in enumerate(args)
    ]
    taking = []
    if not static_argnums:
        given = [f"*{all_args}"]
    elif any(text.startswith("*") for text in args):  # how many these are is seen when it runs
        numbers = tuple(static_argnums)
        lines = [
            f"{outer} = [{', '.join(args)}]",
            f"{traced} = [arg for k, arg in enumerate({outer}) if k not in {numbers}]",
        ]
        each = f"arg if k in {numbers} else next({all_args}) for k, arg in enumerate({outer})"
        given, every = [f"*[{each}]"], [f"*{traced}"]
        taking = [f"    {all_args} = iter({all_args})"]
    lines += [f"def {own}(*{all_args}, **{kwargs}):", *taking]
    lines += [f"    return {fun}({', '.join([*given, *fixed, f'**{kwargs}'])})", ""]
    return lines, own, [*every, *others]


def _edits(states: StatesOf, names: CodeNames) -> list[str]:
    """Lines that set initial values that differ from the states' own."""
    lines, own = [], names.own("states")
    flat, tree = names.own("leaves"), names.own("tree")
    for name, value in states.edited.items():
        need = functools.partial(names.named, base="value", what=f"of the state {name!r}")
        code = functools.partial(value_code, names=names, need=need)
        leaves, structure = jax.tree.flatten(value)
        before = jax.tree.leaves(states.pure.states[name])
        if structure == jax.tree.structure(0):
            lines.append(f"{own}[{name!r}] = {code(leaves[0])}")
            continue
        lines.append(f"{flat}, {tree} = {names.module('jax')}.tree.flatten({own}[{name!r}])")
        lines += [
            f"{flat}[{k}] = {code(leaf)}"
            for k, (leaf, was) in enumerate(zip(leaves, before, strict=True))
            if leaf is not was
        ]
        lines.append(f"{own}[{name!r}] = {names.module('jax')}.tree.unflatten({tree}, {flat})")
    return lines
