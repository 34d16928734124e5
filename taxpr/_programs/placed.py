"""Tags at the values that variables held, and the selectors that mean these tags."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from taxpr._compat import ClosedJaxpr, Token, is_sequence
from taxpr._engine.memo import made_of
from taxpr._errors import SelectorError
from taxpr._primitives.tag_equation import AtVariable
from taxpr._programs.edit import tag_values
from taxpr._programs.inside import TagFacts, calls_of, elsewhere
from taxpr._programs.traced import Traced
from taxpr._sites.criteria import Selector, TagsOf, Untagged
from taxpr._sites.site import Site
from taxpr._sites.values import value_at
from taxpr._sites.walk import find_sites
from taxpr._variables.calls import BindingCall
from taxpr._variables.cotangent import Cotangent, FoundCotangent, cotangents
from taxpr._variables.select import Var, labels
from taxpr._variables.variable import Variable
from taxpr._where.meaning import names_for, names_in, replaced, said, variables_of

P = TypeVar("P", bound=Traced)


class Tagged(NamedTuple, Generic[P]):
    """A program with tags at variables, and the selector with these tags in their place."""

    program: P
    where: Any


def tagged(
    program: P, where: Any, *, each: bool = False, stack: bool = False, keys: bool = False
) -> Tagged[P]:
    """The `Program` with tags at all that a selector names and that has none.

    Args:
        program: The program.
        where: The selector, or with ``keys`` a list of the keys of a mapping.
        each: Whether a value that several variables held has one tag for each, else one for all.
        stack: Whether the values of one variable have one name.
        keys: Whether each selector has a context of its own, by its text.
    """
    given, where = where, said(program, where, Site)
    wanted: dict[Any, bool] = {}
    for one, may_be_empty in names_in(where):
        wanted[one] = wanted.get(one, True) and may_be_empty
    if not wanted:
        return Tagged(program, where)
    found = {
        one: [_unnamed(program, address) for address in sorted(one.addresses)]
        if isinstance(one, Untagged)
        else variables_of(program, one, empty)
        for one, empty in wanted.items()
        if not isinstance(one, Cotangent)
    }
    selected = {variable for held in found.values() for variable in held}
    every = [variable for variable in program.variables() if variable in selected]
    every += [variable for variable in selected if not variable.function]
    names = dict(zip(every, labels(every, not stack), strict=True))
    if is_sequence(where) and not keys and not all(map(names_for, where)):  # beside tags
        tags = {site.name for site in find_sites(program.jaxpr)}
        names = {one: f"var({name!r})" if name in tags else name for one, name in names.items()}
    back = {
        one: cotangents(program.named, one, empty, not stack)
        for one, empty in wanted.items()
        if isinstance(one, Cotangent)
    }
    wanted_back = [one for of in back.values() for one in of]
    at_cotangents, numbers = _cotangent_tags(program, wanted_back)
    # What is looked at is the same for all uses of a value.
    groups: dict[Any, Var | None] = {
        one: one if isinstance(one, Var) and one.inside and not each else None for one in found
    }
    facts = {
        group: _known(program, [one for one in found if groups[one] is group], found, each)
        for group in groups.values()
    }
    by_address: dict[str, list[_Put]] = {}
    at: dict[tuple[Var | None, Variable], str] = {}
    for variable, name in names.items():
        home, value = variable.address.home, variable.address.local
        here = by_address.setdefault(variable.address, [])
        for group in dict.fromkeys(groups[one] for one, held in found.items() if variable in held):
            [put] = [put for put in here if put.group is group][-1:] or [None]
            if each or put is None:
                number = numbers[variable.address] + len(here)
                tag = AtVariable(name, variable.place, variable.occurrence, value, number)
                put = _Put(tag, facts[group](variable.address), group)
                here.append(put)
            at[group, variable] = home / put.tag.local
    tags = tuple((address, tuple(here)) for address, here in by_address.items())
    jaxpr = made_of(
        program.jaxpr,
        (),
        ("variables", tags, tuple(at_cotangents.items())),
        lambda: _MadeTags(_with_tags(program, by_address, at_cotangents)),
    ).jaxpr
    # The key of a context is the text of its selector.
    pairs: Any = zip(where, given, strict=True) if keys else ()
    texts = {one: text for one, text in pairs if isinstance(text, str)}
    taken = {*texts.values()}
    means: dict[Any, TagsOf] = {}
    for one, held in {**found, **back}.items():
        known = [names[x] if isinstance(x, Variable) else x.name for x in held]
        text = known[0] if len(known) == 1 and not isinstance(one, Untagged) else one.text
        text = text if text not in taken else repr(one)
        text = texts.get(one, text)
        taken.add(text)
        places = (
            at[groups[one], x]
            if isinstance(x, Variable)
            else x.address.home / at_cotangents[x.token].local
            for x in held
        )
        means[one] = TagsOf(text, frozenset(places))

    where = replaced(where, lambda one, _: means[one])
    return Tagged(dataclasses.replace(program, jaxpr=jaxpr), where)


def _unnamed(program: Traced, address: str) -> Variable:
    """A value that is named by its address, as a variable that held it."""
    value = value_at(program.jaxpr, address)
    named = program.named
    stale = named is not None and value.address in named.differentiated
    return Variable(
        value.address, "", "", "", 0, 0, 0, value.address, value.aval, differentiated=stale
    )


class _Put(NamedTuple):
    """A tag to put, what is known of its value, and the selector that alone means it."""

    tag: AtVariable
    known: TagFacts
    group: Var | None


def _known(
    program: Traced, ones: Sequence[Var], found: Mapping[Var, Sequence[Variable]], each: bool
) -> Callable[[str], TagFacts]:
    """The facts on the values that selectors mean, by address."""
    held = [variable for one in ones for variable in found[one]]
    differentiated = {one.address for one in held if one.differentiated}
    calls: dict[str, tuple[BindingCall, ...]] = {}
    used: dict[str, str] = {}
    if ones and ones[0].inside and not each:
        calls = calls_of(program, ones[0], held)
    elif not each:
        meant = {one.address for where in ones if where.inside is False for one in found[where]}
        used = elsewhere(program, [one for one in held if one.address not in meant])
    return lambda at: TagFacts(at in differentiated, used.get(at, ""), calls.get(at, ()))


def known_of(program: Traced, where: Selector) -> Callable[[str], TagFacts]:
    """The facts on the values that variables in a selector mean, by address.

    Raises:
        SelectorError: If the uses of a value are meant inside of a call, and everywhere.
    """
    found = {
        one: variables_of(program, one, empty)
        for one, empty in names_in(where)
        if isinstance(one, Var)
    }
    inside = [one for one in found if one.inside]
    plain = [one for one in found if not one.inside]
    of = {one: _known(program, [one], found, False) for one in inside}
    everywhere = _known(program, plain, found, False)

    def known(at: str) -> TagFacts:
        ones = [one for one, held in found.items() if any(each.address == at for each in held)]
        one = next((one for one in ones if one.inside), None)
        if one is None or len(ones) == 1:
            return of[one](at) if one else everywhere(at)
        raise SelectorError(
            f"tag_at: {' and '.join(map(repr, ones))} mean one value, and one tag cannot have "
            "both names. Tag them one after the other."
        )

    if program.named is None:
        return lambda at: TagFacts()
    differentiated = program.named.differentiated
    return lambda at: known(at)._replace(differentiated=at in differentiated)


class _MadeTags(NamedTuple):
    """A jaxpr with tags."""

    jaxpr: ClosedJaxpr


def _with_tags(
    program: Traced,
    by_address: Mapping[str, Sequence[_Put]],
    at_cotangents: Mapping[Token, AtVariable],
) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    if at_cotangents and program.named is not None:
        jaxpr = program.named.with_tags(at_cotangents)
    # The last one at a value first, as each stands directly after what makes the value.
    for k in reversed(range(max(map(len, by_address.values()), default=0))):
        jaxpr = tag_values(
            jaxpr,
            [value_at(jaxpr, one) for one, held in by_address.items() if len(held) > k],
            lambda address, k=k: by_address[address][k].tag,
            lambda address, k=k: by_address[address][k].known,
        )
    return jaxpr


def _cotangent_tags(
    program: Traced, found: Sequence[FoundCotangent]
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
