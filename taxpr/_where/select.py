"""`select`: the tags or values that a selector means in a program, for all functions."""

import contextlib
import itertools
from collections.abc import Generator, Iterator, Sequence
from typing import Any, overload

from taxpr._compat import Primitive, is_sequence
from taxpr._errors import SelectorError
from taxpr._sites.criteria import LineSelector, Places, Scope, Selector
from taxpr._sites.site import Site
from taxpr._sites.values import Value
from taxpr._sites.walk import find_sites
from taxpr._variables.cotangent import Cotangent, cotangents
from taxpr._variables.select import Var
from taxpr._where.meaning import NamedProgram, replaced, said, variables_of
from taxpr._where.pick import Picked, pick_tags, pick_values


@overload
def select(
    program: NamedProgram, where: Selector, of: type[Site], *, change: bool = False
) -> Picked[Site]: ...
@overload
def select(
    program: NamedProgram, where: Selector, of: type[Value], *, change: bool = False
) -> Picked[Value]: ...
def select(program: NamedProgram, where: Selector, of: Any, *, change: bool = False) -> Picked[Any]:
    """The tags or values that a selector means, in program order.

    Args:
        program: A program, or a jaxpr as `OfJaxpr`.
        where: The selector.
        of: `Site` or `Value`.
        change: Whether to pass over what cannot be injected, see `pick_tags`.

    Raises:
        SelectorError: If nothing matches and that was not allowed; if a text means two things.
        AddressError: If an address is of no value.
    """

    def held(one: Any, may_be_empty: bool) -> Places:
        if isinstance(one, Places):
            return one
        if isinstance(one, Cotangent):
            found = cotangents(program.named, one, may_be_empty)
        else:
            found = variables_of(program, one, may_be_empty)
        return Places(repr(one), frozenset(each.address for each in found))

    where = replaced(said(program, where, of), held)
    with telling(program, where):
        if of is Site:
            return pick_tags(find_sites(program.jaxpr), where, change=change)
        return pick_values(program.jaxpr, where, change=change)


@contextlib.contextmanager
def telling(program: NamedProgram, where: Any) -> Generator[None, None, None]:
    """A context for picking tags: an error says if there are values without a tag."""
    try:
        yield
    except SelectorError as error:
        shown = (one for one in _each(where) if repr(one) in str(error))
        more = "".join(itertools.chain.from_iterable(_untagged(program, one) for one in shown))
        if not more or more in str(error):
            raise
        raise type(error)(f"{error}{more}") from None


def describes(where: Any) -> bool:
    """Whether a selector describes places that tags may be missing at."""
    return any(not isinstance(one, Places) for one in _each(where))


def _each(where: Any) -> Iterator[Any]:
    if is_sequence(where):
        for one in where:
            yield from _each(one)
    elif isinstance(where, (Scope, LineSelector, Primitive, Places)):
        yield where


def _untagged(
    program: NamedProgram, where: Scope | LineSelector | Primitive | Places
) -> Iterator[str]:
    """How to have values without a tag, if there are some."""
    try:
        at = {value.address for value in pick_values(program.jaxpr, where).found}
    except LookupError:
        return
    written = "where" if isinstance(where, Primitive) else f"taxpr.{where!r}"
    if isinstance(where, Places):
        written = f"taxpr.{where.text}" if where.by == "variable" else repr(where.text)
    yield f" To have what has no tag, tag it first: taxpr.trace(fun)(*args).tag_at({written})."
    table: Sequence[Any] = program.named.table if program.named else ()
    if names := dict.fromkeys(one.name for one in table if one.address in at):
        shown = ", ".join(f"taxpr.{Var(name)!r}" for name in itertools.islice(names, 3))
        yield f" Or select variables, such as {shown}."
