"""The kinds of selectors: scopes, lines, places, `maybe`, `each`."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import difflib
import fnmatch
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard

from taxpr import _compat
from taxpr._errors import ArgumentError, SelectorError
from taxpr._given import listed
from taxpr._places import is_called
from taxpr._sites.site import Step
from taxpr._source.files import is_user_file


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


# See the docstring of `taxpr._where` for what each means.
Selector: TypeAlias = """(
    str
    | Selectable
    | dict[str, Any]
    | Scope
    | LineSelector
    | OfVariable
    | Places
    | Maybe
    | Each
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
class LineSelector:
    """A selector by source line, made by `line`."""

    file: str | None
    number: int

    def fits(self, thing: Selectable) -> bool:
        """Whether the equation was made at this line, or by a library that this line called."""
        source = _compat.source_of(thing.eqn) if thing.eqn else None
        if source is None or self._is(source):
            return source is not None
        return not is_user_file(source.file, thing.eqn) and self._is(_users_line(thing))

    def _is(self, source: _compat.Source | None) -> bool:
        if source is None or source.line != self.number:
            return False
        return self.file is None or is_called(source.file, self.file)

    def __repr__(self) -> str:
        return f"line({self.number})" if self.file is None else f"line('{self.file}:{self.number}')"


def _users_line(thing: Selectable) -> _compat.Source | None:
    """The innermost line of the user's own code, if a library made an equation for it."""
    eqns = [thing.eqn, *(step.eqn for step in reversed(thing.steps))]
    sources = ((source, eqn) for eqn in eqns for source in _compat.sources_of(eqn))
    return next((one for one, eqn in sources if is_user_file(one.file, eqn)), None)


def line(at: int | str) -> LineSelector:
    """A selector of everything that a source line made.

    Args:
        at: A line number in any file, or with the end of the file's path, such as
            ``"model.py:42"`` or ``"layers/model.py:42"``, or ``"cell 3:42"`` in a notebook. The
            innermost line of the user's code counts: the call of `tag`, not an outer call; for a
            call over several lines, the first. An equation of an installed library counts for its
            own line, and for the line that called the library.

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
    return LineSelector(file or None, int(number))


class OfVariable:
    """A selector by a variable of the source."""


@dataclasses.dataclass(frozen=True)
class Places:
    """The places that a name means in one program.

    Attributes:
        text: The text or variable that names them.
        addresses: The addresses of tags or of values.
        by: How it names them.
    """

    text: str
    addresses: frozenset[str]
    by: Literal["tag", "variable", "address", "glob"] = "variable"

    def fits(self, thing: Selectable) -> bool:
        """Whether a value, a tag or its marked value is among them."""
        return bool({thing.address, getattr(thing, "value_address", None)} & self.addresses)

    def __repr__(self) -> str:
        return self.text if self.by == "variable" else repr(self.text)


class Every(Places):
    """All tags, or all values."""


class Untagged(Places):
    """The places of values that have no tag."""

    inside: ClassVar[bool | None] = None  # as of a variable


class TagsOf(Places):
    """Tags that a selector has put for values; the program has not made them."""

    def fits(self, thing: Selectable) -> bool:
        """Whether a tag is among them."""
        return thing.address in self.addresses


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


@dataclasses.dataclass(frozen=True)
class Each:
    """A selector that takes its places one by one, in some iterations; `each` makes it."""

    where: Selector
    axis: int | None = None
    iterations: bool | tuple[int, ...] = True


def each(
    where: Selector = None, *, axis: int | None = None, iterations: bool | Iterable[int] = True
) -> Each:
    """The places of a selector in each iteration of the loops around them.

    `sweep` and `patch` act at one place after the other: at each tag or variable, in each
    iteration, and each part of the value along an axis. `inject` acts at all places in one run, so
    ``iterations=[3]`` means this iteration only.

    Args:
        where: A selector, as for `inject`.
        axis: The axis of the value whose parts are taken one by one, such as the heads' axis; None
            takes the whole value. Not for `inject`.
        iterations: Whether each iteration of a loop is a place of its own; or the numbers of
            iterations to take, from 0, in each of the loops. With False all iterations are one
            place.

    Raises:
        ArgumentError: If axis or iterations are no numbers.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import taxpr
        >>> def f(x):
        ...     heads = jnp.sin(x)  # f32[3,2]
        ...     return jnp.sum(heads)
        >>> x = jnp.asarray([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        >>> found = taxpr.sweep(f, taxpr.each("heads", axis=0), taxpr.zero())(x)
        >>> [(row["index"], round(row["change"], 2)) for row in found.rows]
        [(0, 0.0), (1, -1.68), (2, -1.82)]
        >>> def total(xs):
        ...     def step(c, x):
        ...         c = c + x
        ...         return c, c
        ...     return jax.lax.scan(step, 0.0, xs)[1]
        >>> new = taxpr.var("c", occurrence=1)
        >>> once = taxpr.inject(total, taxpr.zero(), where=taxpr.each(new, iterations=[1]))
        >>> once(once.init(jnp.ones(4)), jnp.ones(4))[0]
        Array([1., 0., 1., 2.], dtype=float32)
    """
    if axis is not None and type(axis) is not int:
        raise ArgumentError(f"each: axis={axis!r} is no number of an axis.")
    if not isinstance(iterations, bool):
        numbers = listed(iterations)
        if numbers is None or not all(type(k) is int and k >= 0 for k in numbers):
            raise ArgumentError(
                f"each: iterations={iterations!r} are no numbers of iterations. Give a list of "
                "them, from 0 on, True or False."
            )
        iterations = tuple(numbers)
    return Each(where, axis, iterations)


def is_list(where: Selector) -> TypeGuard[list[Selector] | tuple[Selector, ...]]:
    """Whether a selector is a list of others."""
    return isinstance(where, (list, tuple))


def is_params(where: Selector) -> TypeGuard[dict[str, Any]]:
    """Whether a selector names params."""
    return isinstance(where, dict)


def nearest(wanted: str, known: Iterable[str], otherwise: int = 10) -> str:
    """The end of a message: similar names, or else the first names."""
    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(wanted, known, n=5, cutoff=0.5)
    if not near and not known:
        return ""
    return f" {'Nearest' if near else 'There are'}: {', '.join(near or known[:otherwise])}."
