"""`pick`: the tags or values that a selector means, once its texts and variables are places."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.core

from taxpr import _compat
from taxpr._compat import Primitive, StoredJaxpr
from taxpr._errors import SelectorError, a_type, name_of, unfit
from taxpr._places import file_text
from taxpr._sites.criteria import (
    Each,
    Every,
    LineSelector,
    Maybe,
    Places,
    Scope,
    Selector,
    TagsOf,
    is_list,
    is_params,
    nearest,
    parts_of,
)
from taxpr._sites.site import Site
from taxpr._sites.skipped import Refusal, Skipped, refusal_of, skipped
from taxpr._sites.values import Value, results_of, value_at, values_of
from taxpr._sites.walk import find_sites

_HIDDEN = "its jaxpr is hidden, and cannot be replaced by one with a tag"
_S = TypeVar("_S", Site, Value)


class Picked(NamedTuple, Generic[_S]):
    """The selected places, in program order, and the skipped ones."""

    found: list[_S]
    skipped: tuple[Skipped, ...]


class _Tags:
    """Tags to pick from. Tags of variables are picked only by their variables."""

    what, asks, such_as = "tags", "(site)", "lambda site: site.name == 'h'"

    def __init__(self, sites: Sequence[Site]) -> None:
        self.order = sites
        self.every = self.sites = [site for site in sites if site.variable is None]
        self._put = [site for site in sites if site.variable is not None]

    def at(self, where: Places) -> list[Site]:
        return list(filter(where.fits, self._put if isinstance(where, TagsOf) else self.every))

    def of_tags(self, sites: list[Site]) -> list[Site]:
        return sites

    def makers(self, site: Site) -> Sequence[_compat.JaxprEqn | None]:
        return site.makers

    def asked(self, site: Site) -> tuple[object, ...]:
        return (site,)

    def refusal(self, named: bool, site: Site) -> Refusal | None:
        return refusal_of(site) if site.idle or not named else None


class _Values:
    """Values to pick from, tagged or not."""

    what, asks, such_as = "values", "(address, eqn)", "lambda address, eqn: 'mul' in address"

    def __init__(self, jaxpr: StoredJaxpr) -> None:
        self._jaxpr = jaxpr

    @functools.cached_property
    def every(self) -> list[Value]:  # without the results of tags
        return values_of(self._jaxpr)

    @functools.cached_property
    def sites(self) -> list[Site]:
        return find_sites(self._jaxpr)

    @property
    def order(self) -> list[Value]:
        return self.every

    def at(self, where: Places) -> list[Value]:
        if where.by in ("address", "variable"):  # avoids a walk through the program
            return [value_at(self._jaxpr, address) for address in where.addresses]
        tags = self.of_tags([site for site in self.sites if site.address in where.addresses])
        return [*filter(where.fits, self.every), *tags]

    def of_tags(self, sites: list[Site]) -> list[Value]:
        return [value for site in sites for value in results_of(self._jaxpr, site)]

    def makers(self, value: Value) -> Sequence[_compat.JaxprEqn | None]:
        return (value.eqn,)

    def asked(self, value: Value) -> tuple[object, ...] | None:
        return (value.address, value.eqn) if value.eqn else None

    def refusal(self, named: bool, value: Value) -> Refusal | None:
        if named and value.tag:
            return None
        hidden = (Refusal(step, _HIDDEN) for step in value.steps if not step.nested.replaceable)
        return refusal_of(value) or next(hidden, None)


def pick_tags(sites: Sequence[Site], where: Selector, *, change: bool = False) -> Picked[Site]:
    """The tags that a selector means, in program order.

    Args:
        sites: All tags.
        where: A selector with places instead of texts and variables.
        change: Whether to skip tags that cannot be injected, if the selector does not give an
            address. A named tag is skipped only if it never fires. If nothing is left, all are
            used, to be refused by name.

    Raises:
        SelectorError: If nothing matches and that was not allowed; it names what is near.
    """
    return _pick(_Tags(sites), where, change)


def pick_values(jaxpr: StoredJaxpr, where: Selector, *, change: bool = False) -> Picked[Value]:
    """The values that a selector means, as `pick_tags` does."""
    return _pick(_Values(jaxpr), where, change)


def _pick(of: Any, where: Selector, change: bool) -> Picked[Any]:
    over: list[tuple[Any, Refusal]] = []

    def found(where: Selector, may_be_empty: bool) -> Iterator[Any]:
        if isinstance(where, Maybe):
            yield from found(where.where, True)
        elif is_list(where) and where:
            for each in where:
                yield from found(each, may_be_empty)
        else:
            yield from one(where, may_be_empty)

    def one(where: Selector, may_be_empty: bool) -> list[Any]:
        empty = (is_list(where) or is_params(where)) and not where
        some = [] if empty and may_be_empty else _found(of, where)
        if not some and not may_be_empty:
            raise SelectorError(_missed(of, where))
        by = where.by if isinstance(where, Places) else ""
        if not change or isinstance(where, Site) or by == "address":
            return some
        named = is_params(where) or by in ("tag", "variable")
        refused = [(thing, why) for thing in some if (why := of.refusal(named, thing))]
        if len(refused) == len(some) and not may_be_empty:
            return some
        over.extend(refused)
        gone = {id(thing) for thing, _ in refused}
        return [thing for thing in some if id(thing) not in gone]

    with telling_of_tuples(where, of.sites if where.__class__ is tuple else ()):
        chosen = {thing.address: thing for thing in found(where, False)}
    every = list(chosen.values())
    if len(every) > 1:
        order = {thing.address: k for k, thing in enumerate(of.order)}
        every.sort(key=lambda thing: order.get(thing.address, len(order)))
    return Picked(every, skipped(pair for pair in over if pair[0].address not in chosen))


@contextlib.contextmanager
def telling_of_tuples(where: Selector, sites: Sequence[Site]) -> Generator[None, None, None]:
    """A context for selecting: an error says if a tuple is the name of a tag."""
    try:
        yield
    except SelectorError as error:
        if not any(site.name == where for site in sites):
            raise
        raise SelectorError(
            f"where={where!r} is a list of selectors, as every tuple, and one of them fails: "
            f"{error} The tag whose name is the tuple is selected by {{'name': {where!r}}}."
        ) from None


def _found(of: Any, where: Selector) -> list[Any]:
    """The places of one selector that is no list."""
    if where is None or isinstance(where, Every):
        return list(of.every)
    if isinstance(where, Places):
        return of.at(where)
    sites: list[Site] = of.sites
    if isinstance(where, Site):
        return of.of_tags(list(filter(_test_of_site(sites, where), sites)))
    if is_params(where):
        return of.of_tags(list(filter(_test_of_params(where), sites)))
    if isinstance(where, (Scope, LineSelector)):
        return list(filter(where.fits, of.every))
    if isinstance(where, Primitive):

        def is_made(thing: Any) -> bool:
            return any(eqn and eqn.primitive is where for eqn in of.makers(thing))

        return list(filter(is_made, of.every))
    _refuse(of, where)
    asked = ((thing, of.asked(thing)) for thing in of.every)
    return [thing for thing, args in asked if args and _answer(of, where, *args)]


def _refuse(of: Any, where: Any) -> None:
    """Raise where something is no selector."""
    if isinstance(where, jax.core.Tracer):
        raise SelectorError(
            f"where={where} is a value that is being traced. Selection happens while tracing and "
            "cannot depend on it: use a Python value."
        )
    if isinstance(where, Each):
        raise SelectorError(
            f"where={where!r}: each() is for inject, sweep and patch. Give what is in it."
        )
    if is_list(where):
        raise SelectorError(f"where={where!r} is empty and selects nothing.")
    module = str(getattr(where, "__module__", None) or type(where).__module__).partition(".")[0]
    if callable(where) and module in ("jax", "jaxlib", "numpy"):
        name = name_of(where)
        made = f"jax.lax.{name}_p" if hasattr(jax.lax, f"{name}_p") else "such as jax.lax.tanh_p"
        raise SelectorError(
            f"where={name}: it is a function of {module.removesuffix('lib')}, and no predicate. "
            f"Select its results by the primitive, {made}, by line() or by a variable."
        )
    if not callable(where):
        shown = f"={where!r} is {a_type(where)}"
        if hasattr(where, "shape"):  # whose text may be long
            shown = f" is an array, {jax.typeof(where).str_short()}"
        raise SelectorError(
            f"where{shown}. A selector is a name, a glob, an address, a Site, a dict of params, a "
            f"primitive, a scope(), a line(), a predicate {of.asks}, a maybe(), or a list of "
            "these; of a Program also a var()."
        )


def _answer(of: Any, predicate: Any, *args: object) -> bool:
    """The result of the user's predicate, as a bool that is known while tracing.

    A string or selector as result is an error: it would be true everywhere, and is a mistake.
    """
    name, how = name_of(predicate), f"as {of.such_as} does"
    if wrong := unfit(predicate, *args):
        raise SelectorError(
            f"where: the predicate {name}{wrong[0]} is asked about each in turn, by {of.asks}: "
            f"{wrong[1]}. Give one with these arguments, {how}."
        )
    result = predicate(*args)
    if isinstance(result, (str, bytes, Scope, LineSelector, Maybe, Places)) and result:
        raise SelectorError(
            f"where: the predicate {name} returned {result!r}, {a_type(result)}. It is "
            f"asked about each in turn and answers with a bool, {how}. Another selector is given "
            f"itself: where={result!r}."
        )
    try:
        return bool(result)
    except jax.errors.ConcretizationTypeError:
        raise SelectorError(
            "where: the predicate returned a value that is being traced. Selection happens "
            "while tracing: return a Python bool."
        ) from None


def _test_of_site(sites: Sequence[Site], where: Site) -> Callable[[Site], bool]:
    # An edit may have changed its address, but not its variables. In a program traced again,
    # compare addresses.
    if any(where.is_same(site) for site in sites):
        return where.is_same

    def place(site: Site) -> tuple[object, ...]:
        return site.address, site.params, site.value_address, site.source

    return lambda site: place(site) == place(where)


def _test_of_params(where: dict[str, Any]) -> Callable[[Site], bool]:
    if not where:
        raise SelectorError(f"where={where!r} is empty and selects nothing.")
    for key, value in where.items():
        try:
            hash(value)
        except TypeError:
            raise SelectorError(
                f"where={where!r}: {key!r} is {a_type(value)}, which is not hashable. "
                "Params are hashable Python values, so that no tag has it."
            ) from None
    return lambda site: all(
        key in site.params and bool(site.params[key] == value) for key, value in where.items()
    )


def no_match(jaxpr: StoredJaxpr, of: type[Any], where: Places, more: Sequence[str]) -> str:
    """The message that nothing matches, with names of ``more`` that could be meant."""
    return _missed(_Tags(find_sites(jaxpr)) if of is Site else _Values(jaxpr), where, more)


def _missed(of: Any, where: Selector, more: Sequence[str] = ()) -> str:
    """The message that nothing matches, with similar names."""
    if is_params(where) or isinstance(where, Site):
        of = _Tags(of.sites)
    wanted = where.text if isinstance(where, Places) else str(where)
    if not of.every and more:
        said = f"where={where!r}: no variable has that name, and the program has no tags."
        return said + nearest(wanted, more)
    if not of.every:
        return (
            f"where={where!r}: the program has no tags. Put one with tag() or tag_at(); or "
            'give a variable of a function: taxpr.var("name").'
        )
    said = f"where={where!r} {_no_match(of)}."
    if isinstance(where, Primitive):
        return said + _other_makers(of, where)
    if isinstance(where, Scope):
        scopes = ["/".join(inner for _, inner in parts_of(thing)) for thing in of.every]
        near = nearest(where.pattern, filter(None, scopes))
        return said + (near or " None has a named scope.")
    if isinstance(where, LineSelector):
        sources = {_compat.source_of(thing.eqn) for thing in of.every if thing.eqn}
        lines = {(file_text(s.file), s.line) for s in sources if s}
        near = sorted(lines, key=lambda line: (abs(line[1] - where.number), line))[:5]
        return said + " Nearest: " + ", ".join(f"{file}:{number}" for file, number in near) + "."
    names = [str(one.name) for one in of.sites if one.name is not None] if of.what == "tags" else []
    known = [*names, *more, *(thing.address for thing in of.every)]
    if not isinstance(where, Site):
        return said + nearest(wanted, known)
    return (
        f"where: this program has no {where}, which {_no_match(of)}: the "
        "site is stale, of another program or of a tag that was taken out."
        + nearest(where.address, known)
    )


def _no_match(of: Any) -> str:
    if len(of.every) == 1:
        return f"does not match the only {of.what[:-1]}"
    return f"matches none of the {len(of.every)} {of.what}"


def _other_makers(of: Any, where: Primitive) -> str:
    makers = {eqn.primitive.name for thing in of.every for eqn in of.makers(thing) if eqn}
    shown = ", ".join(sorted(makers)) or "no equation"
    if of.what == "values":
        return f" They are made by {shown}."
    inside = sum(any(step.eqn.primitive is where for step in site.steps) for site in of.every)
    said = f" It selects tags on the results of {where.name};"
    if inside:
        return said + f" {inside} are inside of a {where.name}: select these by '*:{where}/*'."
    return said + f" the tagged values are made by {shown}."
