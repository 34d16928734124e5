"""Selectors of values by the names that the user's source has for them."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import fnmatch
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from taxpr._errors import SelectorError, a_type
from taxpr._sites.criteria import OfVariable, nearest
from taxpr._variables.variable import Variable

_SHOWN = 12  # candidates in a message
_GLOB = "*?"  # brackets are those of what a variable holds


@dataclasses.dataclass(frozen=True)
class Var(OfVariable):
    """A selector of values by a variable; `var` makes it."""

    text: str
    line: int | None = None
    occurrence: int | None = None
    inside: bool | None = None

    def __repr__(self) -> str:
        given = {"line": self.line, "occurrence": self.occurrence, "inside": self.inside}
        more = (f", {name}={value}" for name, value in given.items() if value is not None)
        return f"var({self.text!r}{''.join(more)})"


def var(
    text: str,
    *,
    line: int | None = None,
    occurrence: int | None = None,
    inside: bool | None = None,
) -> Var:
    """A selector of the values that a variable of the source held.

    It needs no tag in the source. Functions such as `taxpr.collect` and `taxpr.inject` notice that
    they are asked for variables; a `Program` knows them if it was traced with ``names=True``. A
    variable that held several values one after the other, as in a Python loop or in several calls
    of its function, means all of them; see `Variable.occurrence`. Among collected values they are
    called ``"x#0"``, ``"x#1"``, or with ``stack=True`` they are stacked as ``"x"``; variables of
    two functions are ``"f.x"`` and ``"g.x"``.

    Args:
        text: The variable as it is written, such as ``"scores"`` or ``"params['w']"``; with the
            function before it if several functions have that name: ``"attention.scores"``. A
            variable that holds a PyTree means all arrays in it. A glob means all variables that
            match, in all functions: ``"*"`` means all.
        line: The line that bound it.
        occurrence: Which of its values, from 0.
        inside: For a change, the uses of the value that see it. A parameter holds a value of the
            caller, who may use it, too. With True only uses inside the call see the change: in the
            function that has the variable, and in functions that it calls. If it returns the value
            itself, the caller gets the original. With False all uses see it. None does the same,
            and warns if the caller has other uses.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> taxpr.collect(f, taxpr.var("y"))(0.0)
        (Array(0., dtype=float32, weak_type=True), {'y': Array(0., dtype=float32)})
        >>> def attend(x):
        ...     return x * 3
        >>> def block(x):
        ...     x = x + attend(x)
        ...     return x
        >>> without = taxpr.inject(block, taxpr.zero(), where=taxpr.var("attend.x", inside=True))
        >>> without(without.init(1.0), 1.0)[0]  # x itself is still added
        Array(1., dtype=float32, weak_type=True)
    """
    if not isinstance(text, str) or not text.strip():
        raise SelectorError(
            f"var: {text!r} is no name of a variable. Give one such as 'scores', "
            "'attention.scores' or \"params['w']\"."
        )
    if inside is not None and type(inside) is not bool:
        raise SelectorError(f"var: inside={inside!r} is {a_type(inside)}, not a bool.")
    for name, value in {"line": line, "occurrence": occurrence}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise SelectorError(f"var: {name}={value!r} is no number.")
        if value is not None and value < (name == "line"):
            first = "Lines count from 1." if name == "line" else "Occurrences count from 0."
            raise SelectorError(f"var: {name}={value} does not exist. {first}")
    return Var(text.strip().replace('"', "'"), line, occurrence, inside)


def matching(variables: Sequence[Variable], where: Var) -> list[Variable]:
    """All variables that a selector may mean, in any function."""
    found = [
        one
        for one in _named(variables, where.text)
        if where.line in (None, one.line) and where.occurrence in (None, one.occurrence)
    ]
    if where.text == "*":
        return found
    # What a backward pass computes once more is another value of the same variable.
    return [one for one in found if not one.recomputed] or found


def chosen(variables: Sequence[Variable], where: Var, may_be_empty: bool) -> list[Variable]:
    """The variables that a selector means.

    Raises:
        SelectorError: If there is no such variable, unless that is allowed; or if functions of
            several names, or files, have such a variable with different values.
    """
    found = matching(variables, where)
    if not found and not may_be_empty:
        named = _named(variables, where.text)
        raise SelectorError(f"where={where!r}: {_missed(variables, named, where)}")
    owners: dict[Any, list[Variable]] = {}
    for one in found:
        owners.setdefault(one.owner, []).append(one)
    if len(owners) < 2 or set(_GLOB) & set(where.text):
        return found
    held = {frozenset((one.path, one.address) for one in own) for own in owners.values()}
    if len(held) == 1 and not where.inside:  # handed from one to the other
        return next(iter(owners.values()))
    raise SelectorError(
        f"where={where!r} is a variable of {len(owners)} functions: "
        f"{_listed(own[0] for own in owners.values())}. Say which: {_which(found)}."
    )


def _named(variables: Sequence[Variable], text: str) -> list[Variable]:
    found = [one for one in variables if _fits(one, text)]
    if found or not set(_GLOB) & set(text):
        return found
    fits = functools.partial(fnmatch.fnmatchcase, pat=text)
    return [one for one in variables if fits(one.text) or fits(one.short)]


def meaning(variables: Sequence[Variable], address: str) -> Var | None:
    """The shortest selector that means only the value at an address, or None."""
    for one in variables:
        if one.address != address:
            continue
        number, line = {"occurrence": one.occurrence}, {"line": one.line}
        texts = one.text, one.short, f"{one.function.replace('.<locals>', '')}.{one.text}"
        for given, text in itertools.product(({}, number, line, {**number, **line}), texts):
            where = Var(text, given.get("line"), given.get("occurrence"))
            try:
                found = chosen(variables, where, may_be_empty=True)
            except SelectorError:  # of several functions
                continue
            if found and all(other.address == address for other in found):
                return where
    return None


def _which(found: Sequence[Variable]) -> str:
    one = found[0]
    shorts = {other.short for other in found}
    return f"var({one.short!r})" if len(shorts) > 1 else f"var({one.text!r}, line={one.line})"


def _fits(one: Variable, text: str) -> bool:
    if one.name[0] != text[0] and "." not in text:
        return False  # most of them
    written = one.text
    if _begins(written, text):
        return True
    owners = [part for part in one.function.split(".") if part != "<locals>"]
    return any(_begins(f"{'.'.join(owners[k:])}.{written}", text) for k in range(len(owners)))


def _begins(written: str, text: str) -> bool:
    """Whether the text names the variable, or a tree that holds it."""
    return written.startswith(text) and (len(written) == len(text) or written[len(text)] in ".[")


def _missed(variables: Sequence[Variable], named: Sequence[Variable], where: Var) -> str:
    if not variables:
        return (
            "the program knows no variables. Trace a function of your own with taxpr.trace(f, "
            "names=True), without another tool that uses sys.settrace, and select its variables "
            "before inject, plant or collect make another program of it. Code without a file has "
            "none, as exec makes it: import it from a file, or define it in a cell."
        )
    if named:
        return f"it held other values: {_listed(named)}."
    shown = {one.short if "." in where.text else one.text for one in variables}
    whole = {one.name for one in variables}  # first, since a PyTree may have many parts
    return "no variable has that name." + nearest(where.text, [*sorted(whole), *sorted(shown)])


def _listed(variables: Iterable[Variable]) -> str:
    texts = list(dict.fromkeys(f"{one.short} {one.occurrence} ({one.place})" for one in variables))
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return ", ".join(texts[:_SHOWN] + more)


def labels(variables: Sequence[Variable], numbered: bool = True) -> list[str]:
    """A name for each, all different: as it is written, with the function or a number if needed.

    Unless they are ``numbered``, the values of one variable have one name.
    """
    owners: dict[str, set[Any]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    every = [_forms(one) for one in variables]
    for one, forms in zip(variables, every, strict=True):
        for form in forms:
            owners[form].add((one.owner, one.text))
            counts[form] += 1
    out: list[str] = []
    for one, forms in zip(variables, every, strict=True):
        form = next((form for form in forms if len(owners[form]) == 1), forms[-1])
        out.append(f"{form}#{one.occurrence}" if numbered and counts[form] > 1 else form)
    return out


def named_var(label: str) -> Var:
    """The variable that one of these names means, such as ``"attention.x#1"``."""
    name, _, number = label.rpartition("#")
    return var(name, occurrence=int(number)) if name and number.isdecimal() else var(label)


def _forms(one: Variable) -> tuple[str, ...]:
    return one.text, one.short, f"{one.function}.{one.text}", f"{one.place} {one.short}"
