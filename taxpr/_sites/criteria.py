"""What selectors of tags and of values have in common: scopes, lines, lists, `maybe`."""

# What users give is checked, whatever its type says.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import jax
import jax.core

from taxpr import _compat
from taxpr._errors import SelectorError, name_of
from taxpr._sites.site import Step


class Selectable(Protocol):
    """What a selector chooses from: a tag, or a value that an equation made."""

    @property
    def address(self) -> str:
        """Its address."""
        ...

    @property
    def eqn(self) -> _compat.JaxprEqn | None:
        """Its equation; None for inputs and constants."""
        ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """The way down to it."""
        ...


S = TypeVar("S", bound=Selectable)

# What says which tags or values are meant: a name, a glob, an address; a tag; params; a scope or a
# line; a primitive; a predicate; a `maybe`; a list of these. None means all.
Selector: TypeAlias = """(
    str
    | Selectable
    | dict[str, Any]
    | Scope
    | Line
    | Maybe
    | _compat.Primitive
    | Callable[..., object]
    | list[Selector]
    | tuple[Selector, ...]
    | None
)"""


@dataclasses.dataclass(frozen=True)
class Scope:
    """What `scope` returns."""

    pattern: str

    def fits(self, thing: Selectable) -> bool:
        """Whether components of the scope, one after the other, are those of the pattern."""
        if thing.eqn is None:
            return False
        wanted, parts = self.pattern.split("/"), parts_of(thing)
        runs = (parts[k : k + len(wanted)] for k in range(len(parts) - len(wanted) + 1))
        return any(all(map(_is_part, run, wanted)) for run in runs)

    def __repr__(self) -> str:
        return f"scope({self.pattern!r})"


def _is_part(part: tuple[str, str], pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(form, pattern) for form in part)


def parts_of(thing: Selectable) -> list[tuple[str, str]]:
    """The components of the whole scope; that of an equation is relative to those around it."""
    eqns = [*(step.eqn for step in thing.steps), *([thing.eqn] if thing.eqn else [])]
    return [part for eqn in eqns for part in _compat.scope_parts(eqn)]


def scope(pattern: str) -> Scope:
    """A selector of what stands in a named scope, at any depth.

    Scopes come from `jax.named_scope` and from the modules of flax and others.

    Args:
        pattern: Components with ``/`` between them, each a glob. They must follow one another
            in the scope, which may go on before and after: ``"attention"`` selects all that is
            in some scope of that name, ``"block_0/*"`` what is in a scope below ``block_0``.
            What a transformation wraps is also found by its own name: ``"block_0"`` finds
            ``jvp(block_0)`` and ``transpose(jvp(block_0))``; ``"transpose(*)"`` finds the latter.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     for k in range(2):
        ...         with jax.named_scope(f"block_{k}"):
        ...             x = taxpr.tag(jnp.sin(x), name=f"x{k}")
        ...     return x
        >>> [site.name for site in taxpr.trace(f)(1.0).tags(taxpr.scope("block_1"))]
        ['x1']
    """
    if not isinstance(pattern, str) or not pattern.strip("/"):
        raise SelectorError(
            f"scope: {pattern!r} is no pattern of scopes. Give one such as 'block_0/attention'."
        )
    return Scope(pattern.strip("/"))


@dataclasses.dataclass(frozen=True)
class Line:
    """What `line` returns."""

    file: str | None
    number: int

    def fits(self, thing: Selectable) -> bool:
        """Whether the equation was made there."""
        source = _compat.source_of(thing.eqn) if thing.eqn else None
        if source is None or source.line != self.number:
            return False
        wanted = pathlib.PurePath(self.file or "").parts
        return pathlib.PurePath(source.file).parts[-len(wanted) :] == wanted if wanted else True

    def __repr__(self) -> str:
        return f"line({self.number})" if self.file is None else f"line('{self.file}:{self.number}')"


def line(at: int | str) -> Line:
    """A selector of what a line of the source made.

    Args:
        at: The number of a line of any file, or with the last parts of the file's path, such
            as ``"model.py:42"`` or ``"layers/model.py:42"``. What counts is the innermost line of
            the user's code: that of the call of `tag`, not that of a call around it. Of a
            call over several lines it is the first.

    Example:
        >>> import taxpr
        >>> program = taxpr.trace(lambda x: taxpr.tag(x * 2, name="y"))(1.0)
        >>> [site] = program.tags()
        >>> [found.name for found in program.tags(taxpr.line(site.source.line))]
        ['y']
    """
    file, _, number = str(at).rpartition(":") if isinstance(at, str) else (None, "", str(at))
    if isinstance(at, bool) or not isinstance(at, (int, str)) or not number.isdigit():
        raise SelectorError(
            f"line: {at!r} is no line of a source. Give a number, or with a file 'model.py:42'."
        )
    return Line(file or None, int(number))


@dataclasses.dataclass(frozen=True)
class Maybe:
    """What `maybe` returns."""

    where: Selector

    def __repr__(self) -> str:
        return f"maybe({self.where!r})"


def maybe(where: Selector) -> Maybe:
    """A selector that may match nothing: then nothing is done, and it is no error.

    Args:
        where: Any selector.

    Example:
        >>> import taxpr
        >>> program = taxpr.trace(lambda x: taxpr.tag(x, name="x"))(1.0)
        >>> injected = program.inject({"x": taxpr.scale(2.0), taxpr.maybe("y"): taxpr.zero()})
        >>> injected(injected.ctx, 1.0)[0]
        Array(2., dtype=float32, weak_type=True)
    """
    return Maybe(where)


def is_list(where: Selector) -> TypeGuard[list[Selector] | tuple[Selector, ...]]:
    """Whether a selector is a list of others."""
    return isinstance(where, (list, tuple))


def is_params(where: Selector) -> TypeGuard[dict[str, Any]]:
    """Whether a selector names params."""
    return isinstance(where, dict)


def united(
    things: Sequence[S], where: Selector, one: Callable[[Selector, bool], Iterable[S]]
) -> list[S]:
    """What a selector, a `maybe` or a list of these selects, in program order.

    ``one(where, may_be_empty)`` knows what a selector that is neither selects.
    """

    def found(where: Selector, may_be_empty: bool) -> dict[str, S]:
        if isinstance(where, Maybe):
            return found(where.where, True)
        if (is_params(where) or is_list(where)) and not where:
            if may_be_empty:
                return {}
            raise SelectorError(f"where={where!r} is empty and selects nothing.")
        if is_list(where):
            return {key: one for item in where for key, one in found(item, may_be_empty).items()}
        if isinstance(where, jax.core.Tracer):
            raise SelectorError(
                f"where={where} is a value that is being traced. What is selected is decided "
                "while tracing and cannot depend on it: use a Python value."
            )
        return {thing.address: thing for thing in one(where, may_be_empty)}

    order = {thing.address: k for k, thing in enumerate(things)}
    return sorted(found(where, False).values(), key=lambda one: order.get(one.address, len(order)))


def answer(predicate: Callable[..., object], *args: object) -> bool:
    """What a predicate of the user says, which must be known while tracing.

    A text, or another selector, is true of each thing: then a selector was meant, not an answer.
    """
    result = predicate(*args)
    if isinstance(result, (str, bytes, Scope, Line, Maybe)) and result:
        raise SelectorError(
            f"where: the predicate {name_of(predicate)} returned {result!r}, a "
            f"{type(result).__name__}. It is asked about each in turn and answers with a bool, as "
            "lambda site: site.name == 'h' does. Another selector is given itself: "
            f"where={result!r}."
        )
    try:
        return bool(result)
    except jax.errors.ConcretizationTypeError:
        raise SelectorError(
            "where: the predicate returned a value that is being traced. What is selected is "
            "decided while tracing: return a Python bool."
        ) from None


def nearest(wanted: str, known: Iterable[str], otherwise: int = 10) -> str:
    """The end of a message: what is near, or else the first that there are."""
    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(wanted, known, n=5, cutoff=0.5)
    if not near and not known:
        return ""
    return f" {'Nearest' if near else 'There are'}: {', '.join(near or known[:otherwise])}."


def nearest_scopes(things: Sequence[Selectable], where: Scope) -> str:
    """The end of a message: scopes that are near."""
    scopes = ["/".join(inner for _, inner in parts_of(thing)) for thing in things]
    return nearest(where.pattern, filter(None, scopes)) or " None has a named scope."


def nearest_lines(things: Sequence[Selectable], where: Line) -> str:
    """The end of a message: lines that are near."""
    sources = {_compat.source_of(thing.eqn) for thing in things if thing.eqn}
    lines = {(pathlib.PurePath(s.file).name, s.line) for s in sources if s}
    near = sorted(lines, key=lambda line: (abs(line[1] - where.number), line))[:5]
    return " Nearest: " + ", ".join(f"{file}:{number}" for file, number in near) + "."
