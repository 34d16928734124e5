"""The parts that selectors of tags and of values share: scopes, lines, lists, `maybe`."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import difflib
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import jax
import jax.core

from taxpr import _compat
from taxpr._errors import SelectorError, name_of
from taxpr._places import file_text, is_called
from taxpr._sites.site import Step


class Selectable(Protocol):
    """A thing that a selector can choose: a tag, or a value that an equation made."""

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

# Chooses tags or values: a name, a glob, an address; a tag; params; a scope or a line; a primitive;
# a predicate; a variable; a `maybe`; a list of these. None means all.
Selector: TypeAlias = """(
    str
    | Selectable
    | dict[str, Any]
    | Scope
    | Line
    | OfVariable
    | Maybe
    | _compat.Primitive
    | Callable[..., object]
    | list[Selector]
    | tuple[Selector, ...]
    | None
)"""


@dataclasses.dataclass(frozen=True)
class Scope:
    """A selector by scope, made by `scope`."""

    pattern: str

    def fits(self, thing: Selectable) -> bool:
        """Whether consecutive components of the scope match the pattern."""
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
    """The components of the whole scope. JAX stores scopes relative to the enclosing equations."""
    eqns = [*(step.eqn for step in thing.steps), *([thing.eqn] if thing.eqn else [])]
    return [part for eqn in eqns for part in _compat.scope_parts(eqn)]


def scope(pattern: str) -> Scope:
    """A selector of everything in a named scope, at any depth.

    Scopes come from `jax.named_scope` and from the modules of flax and others.

    Args:
        pattern: Components separated by ``/``, each a glob. They must be consecutive in the scope,
            which may have further components before and after: ``"attention"`` selects everything
            in a scope of that name, ``"block_0/*"`` everything in a scope below ``block_0``. A
            scope inside a transformation also matches by its own name: ``"block_0"`` matches
            ``jvp(block_0)`` and ``transpose(jvp(block_0))``; ``"transpose(*)"`` matches the latter.

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
    """A selector by source line, made by `line`."""

    file: str | None
    number: int

    def fits(self, thing: Selectable) -> bool:
        """Whether the equation was made at this line."""
        source = _compat.source_of(thing.eqn) if thing.eqn else None
        if source is None or source.line != self.number:
            return False
        return self.file is None or is_called(source.file, self.file)

    def __repr__(self) -> str:
        return f"line({self.number})" if self.file is None else f"line('{self.file}:{self.number}')"


def line(at: int | str) -> Line:
    """A selector of everything that a source line made.

    Args:
        at: A line number in any file, or with the end of the file's path, such as
            ``"model.py:42"`` or ``"layers/model.py:42"``, or ``"cell 3:42"`` in a notebook. The
            innermost line of the user's code counts: that of the call of `tag`, not of an outer
            call; for a call over several lines, the first.

    Example:
        >>> import taxpr
        >>> program = taxpr.trace(lambda x: taxpr.tag(x * 2, name="y"))(1.0)
        >>> [site] = program.tags()
        >>> [found.name for found in program.tags(taxpr.line(site.source.line))]
        ['y']
    """
    file, _, number = str(at).rpartition(":") if isinstance(at, str) else (None, "", str(at))
    if (
        isinstance(at, bool)
        or not isinstance(at, (int, str))
        or not number.isdigit()
        or not int(number)
    ):
        raise SelectorError(
            f"line: {at!r} is no line of a source. Give a number, or with a file 'model.py:42'."
        )
    return Line(file or None, int(number))


class OfVariable:
    """A selector by a variable of the source."""


@dataclasses.dataclass(frozen=True)
class Holding(OfVariable):
    """The places that a variable of the source means in one program."""

    text: str
    addresses: frozenset[str]

    def fits(self, thing: Selectable) -> bool:
        """Whether a value, or a tag or what it marks, is one of them."""
        return bool({thing.address, getattr(thing, "value_address", None)} & self.addresses)

    def __repr__(self) -> str:
        return self.text


class TagsOf(Holding):
    """The tags that stand for a variable in one program, by their addresses."""

    def fits(self, thing: Selectable) -> bool:
        """Whether a tag is one of them."""
        return thing.address in self.addresses and getattr(thing, "variable", None) is not None


@dataclasses.dataclass(frozen=True)
class Maybe:
    """A selector that may match nothing, made by `maybe`."""

    where: Selector

    def __repr__(self) -> str:
        return f"maybe({self.where!r})"


def maybe(where: Selector) -> Maybe:
    """Make a selector optional: if it matches nothing, nothing happens, without an error.

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
    """The selection of a selector, a `maybe` or a list of these, in program order.

    ``one(where, may_be_empty)`` evaluates any other selector.
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
    """The result of the user's predicate, as a bool that is known while tracing.

    A string or selector as result is an error: it would be true everywhere, and is a mistake.
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
    """The end of a message: similar names, or else the first names."""
    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(wanted, known, n=5, cutoff=0.5)
    if not near and not known:
        return ""
    return f" {'Nearest' if near else 'There are'}: {', '.join(near or known[:otherwise])}."


def nearest_scopes(things: Sequence[Selectable], where: Scope) -> str:
    """The end of a message: similar scopes."""
    scopes = ["/".join(inner for _, inner in parts_of(thing)) for thing in things]
    return nearest(where.pattern, filter(None, scopes)) or " None has a named scope."


def nearest_lines(things: Sequence[Selectable], where: Line) -> str:
    """The end of a message: lines nearby."""
    sources = {_compat.source_of(thing.eqn) for thing in things if thing.eqn}
    lines = {(file_text(s.file), s.line) for s in sources if s}
    near = sorted(lines, key=lambda line: (abs(line[1] - where.number), line))[:5]
    return " Nearest: " + ", ".join(f"{file}:{number}" for file, number in near) + "."
