"""Selectors by variables: the values that these held get tags, and the selector means the tags."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from taxpr._compat import ClosedJaxpr, Primitive, Token, is_sequence
from taxpr._engine.memo import made_of
from taxpr._errors import AddressError, SelectorError
from taxpr._primitives.tag import AtVariable
from taxpr._programs.edit import tag_where
from taxpr._programs.traced import Traced
from taxpr._sites.criteria import Holding, Line, Maybe, Scope, Selector, TagsOf
from taxpr._sites.values import select_values
from taxpr._sites.walk import find_sites
from taxpr._variables.cotangent import Cotangent, Found, cotangents
from taxpr._variables.select import Var, chosen, labels, named_var
from taxpr._variables.table import Variable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

P = TypeVar("P", bound=Traced)
Names = bool | Literal["cotangents"]


def names_for(*where: Any) -> Names:
    """What is to be noted while tracing for selectors, or mappings from them; see `trace`."""
    asked = [one for some in where for one, _ in _variables(some)]
    return "cotangents" if any(isinstance(one, Cotangent) for one in asked) else bool(asked)


def with_addresses(program: Traced, where: Selector) -> Selector:
    """A selector of values in which the addresses of what they held stand for variables."""

    def held(one: Var | Cotangent, may_be_empty: bool) -> Any:
        if isinstance(one, Cotangent):
            found = cotangents(program.named, one, may_be_empty)
        else:
            found = chosen(program.variables(), one, may_be_empty)
        return Holding(repr(one), frozenset(each.address for each in found))

    return _replaced(where, held)


class Tagged(NamedTuple, Generic[P]):
    """A program with tags at variables, and the selector of tags in which these stand for them."""

    program: P
    where: Any


def tagged(program: P, where: Any, *, each: bool = False, stack: bool = False) -> Tagged[P] | None:
    """The `Program` with tags at the variables in a selector; None where there are none.

    A value that several of them held has one tag, or with ``each`` one for each. With ``stack`` the
    values of one variable have one name.
    """
    wanted: dict[Var | Cotangent, bool] = {}
    for one, may_be_empty in _variables(where):
        wanted[one] = wanted.get(one, True) and may_be_empty
    if not wanted:
        return None
    found = {
        one: chosen(program.variables(), one, empty)
        for one, empty in wanted.items()
        if isinstance(one, Var)
    }
    selected = {variable for held in found.values() for variable in held}
    every = [variable for variable in program.variables() if variable in selected]
    names = dict(zip(every, labels(every, not stack), strict=True))
    if is_sequence(where) and not all(map(names_for, where)):  # beside tags of these names
        tags = {site.name for site in find_sites(program.jaxpr)}
        names = {one: f"var({name!r})" if name in tags else name for one, name in names.items()}
    back = {
        one: cotangents(program.named, one, empty, not stack)
        for one, empty in wanted.items()
        if isinstance(one, Cotangent)
    }
    wanted_back = [one for of in back.values() for one in of]
    at_cotangents, numbers = _cotangent_tags(program, wanted_back)
    by_address: dict[str, list[AtVariable]] = {}
    at: dict[Variable, str] = {}
    for variable, name in names.items():
        home, value = variable.address.home, variable.address.local
        here = by_address.setdefault(variable.address, [])
        if each or not here:
            number = numbers[variable.address] + len(here)
            here.append(AtVariable(name, variable.place, variable.occurrence, value, number))
        at[variable] = home / here[-1].local
    differentiated = frozenset(one.address for one in every if one.differentiated)
    tags = tuple((address, tuple(here)) for address, here in by_address.items())
    jaxpr = made_of(
        program.jaxpr,
        (),
        ("variables", tags, differentiated, tuple(at_cotangents.items())),
        lambda: _Made(_with_tags(program, by_address, differentiated, at_cotangents)),
    ).jaxpr
    taken = {key for key in where if isinstance(key, str)} if is_mapping(where) else set[str]()
    means: dict[Var | Cotangent, TagsOf] = {}
    for one, held in {**found, **back}.items():
        known = [names[x] if isinstance(x, Variable) else x.name for x in held]
        text = known[0] if len(known) == 1 else one.text
        text = text if text not in taken else repr(one)
        taken.add(text)
        places = (
            at[x] if isinstance(x, Variable) else x.address.home / at_cotangents[x.token].local
            for x in held
        )
        means[one] = TagsOf(text, frozenset(places))

    def marked(one: Var | Cotangent, may_be_empty: bool) -> Any:
        del may_be_empty
        return means[one]

    return Tagged(dataclasses.replace(program, jaxpr=jaxpr), _replaced(where, marked))


class _Made(NamedTuple):
    """A jaxpr with tags."""

    jaxpr: ClosedJaxpr


def _with_tags(
    program: Traced,
    by_address: Mapping[str, Sequence[AtVariable]],
    differentiated: Container[str],
    at_cotangents: Mapping[Token, AtVariable],
) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    if at_cotangents and program.named is not None:
        jaxpr = program.named.with_tags(at_cotangents)
    # The last one at a value first, as each stands directly after what makes the value.
    for k in reversed(range(max(map(len, by_address.values()), default=0))):
        values: list[Selector] = [one for one, held in by_address.items() if len(held) > k]
        jaxpr, _ = tag_where(
            jaxpr,
            values,
            lambda address, k=k: by_address[address][k],
            differentiated=differentiated,
        )
    return jaxpr


def _cotangent_tags(
    program: Traced, found: Sequence[Found]
) -> tuple[dict[Token, AtVariable], Counter[str]]:
    """The tags to put at cotangents, and their number at each value."""
    tags: dict[Token, AtVariable] = {}
    numbers: Counter[str] = Counter()
    if found and program.named and program.jaxpr is not program.named.jaxpr:
        raise SelectorError(
            f"{program.name}: {found[0].name} is selected in a program that was changed after it "
            "was traced. Select cotangents first, or together with the rest."
        )
    for one in found:
        if one.token not in tags:
            number = one.variable.occurrence if one.variable else 0
            local, here = one.address.local, numbers[one.address]
            tags[one.token] = AtVariable(one.name, one.place, number, local, here)
            numbers[one.address] += 1
    return tags, numbers


def as_collected(program: Traced, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping in which names that `collect` gives to variables are selectors of these.

    The names of the program's own tags, and whatever else is no such name, stay.
    """
    sites = find_sites(program.jaxpr) if program.named else []
    own = {key for site in sites for key in (site.name, site.address, site.value_address)}
    return {
        _variable_of(program, key) if isinstance(key, str) and key not in own else key: value
        for key, value in values.items()
    }


def _variable_of(program: Traced, label: str) -> Any:
    back, name = label.startswith("∂ "), label.removeprefix("∂ ")
    if program.named is None or not name.strip():
        return label
    try:
        where = named_var(name)
        found = chosen(program.named.table, where, may_be_empty=True)
    except SelectorError:  # of several functions: another message says so
        return label
    return (Cotangent(where) if back else where) if found else label


@contextlib.contextmanager
def telling(program: Any, *where: Any) -> Generator[None, None, None]:
    """A context for selecting: errors say which tags are used up, and what is a variable."""
    try:
        yield
    except (SelectorError, AddressError) as error:
        gone = [repr(one) for one in where if isinstance(one, str) and one in program.used]
        more = meant(program, where, error)
        if gone:
            more = (
                f" The tag {', '.join(gone)} was used up by an injection before. Several "
                "injectors run in turn where they are given as a list: [scale(3.0), record()]."
            )
        if not more:
            raise
        raise type(error)(f"{error}{more}") from None


def meant(program: Any, where: Any, error: Exception) -> str:
    """The end of a message that nothing was found, where variables or values are what is meant."""
    for one in _each(where):
        if repr(one) not in str(error):
            continue
        if isinstance(one, str) and _is_one(program, one):
            return f" {one!r} is a variable: select it by taxpr.{Var(one)!r}."
        if isinstance(one, (Scope, Line, Primitive)):
            return "".join(said for said in _untagged(program, one) if said not in str(error))
    return ""


def _each(where: Any) -> Iterator[Any]:
    if is_sequence(where) or is_mapping(where):
        for one in where:
            yield from _each(one)
    else:
        yield where


def _untagged(program: Any, where: Scope | Line | Primitive) -> Iterator[str]:
    """How to have values without a tag, if there are some."""
    try:
        at = {value.address for value in select_values(program.jaxpr, where)}
        names = dict.fromkeys(one.name for one in program.variables() if one.address in at)
    except SelectorError:
        return
    written = "where" if isinstance(where, Primitive) else f"taxpr.{where!r}"
    yield f" To have what has no tag, tag it first: taxpr.trace(fn)(*args).tag_at({written})."
    if names:
        shown = ", ".join(f"taxpr.{Var(name)!r}" for name in itertools.islice(names, 3))
        yield f" Or select variables, such as {shown}."


def _is_one(program: Any, text: str) -> bool:
    try:
        return bool(text.strip() and chosen(program.variables(), Var(text), True))
    except SelectorError:  # of several functions, which its own message says
        return True


def _variables(where: Any, may_be_empty: bool = False) -> Iterator[tuple[Var | Cotangent, bool]]:
    if isinstance(where, (Var, Cotangent)):
        yield where, may_be_empty
    elif isinstance(where, Maybe):
        yield from _variables(where.where, True)
    elif is_sequence(where) or is_mapping(where):
        for one in where:
            yield from _variables(one, may_be_empty)


def _replaced(
    where: Any, held: Callable[[Var | Cotangent, bool], Any], may_be_empty: bool = False
) -> Any:
    if isinstance(where, (Var, Cotangent)):
        return held(where, may_be_empty)
    if isinstance(where, Maybe):
        return Maybe(_replaced(where.where, held, True))
    if is_sequence(where):
        found = [_replaced(one, held, may_be_empty) for one in where]
        return tuple(found) if isinstance(where, tuple) else found
    if is_mapping(where):
        return {_replaced(key, held, may_be_empty): one for key, one in where.items()}
    return where


def is_mapping(where: object) -> TypeIs[Mapping[Any, Any]]:
    """Whether it is one, of any types."""
    return isinstance(where, Mapping)
