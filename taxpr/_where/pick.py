"""`pick`: the tags or values that a selector means, once its texts are places."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.core

from taxpr import _compat
from taxpr._compat import Primitive, StoredJaxpr
from taxpr._errors import SelectorError, name_of, unfit
from taxpr._places import file_text
from taxpr._sites.criteria import (
    Each,
    Every,
    Line,
    Maybe,
    Places,
    Scope,
    Selectable,
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
    """What a selector means, in program order, and the places that were passed over."""

    found: list[_S]
    skipped: tuple[Skipped, ...]


class Tags:
    """Tags to select from.

    Tags that stand for variables are selected by these alone.
    """

    predicate = "(site)", "lambda site: site.name == 'h'"

    def __init__(self, sites: Sequence[Site]) -> None:
        self.order = [site.address for site in sites]
        self.every = self.sites = [site for site in sites if site.variable is None]
        self._put = [site for site in sites if site.variable is not None]

    def at(self, where: Places) -> list[Site]:
        """Those at named places."""
        of = self._put if isinstance(where, TagsOf) else self.every
        return [site for site in of if where.fits(site)]

    def of_tags(self, sites: Sequence[Site]) -> list[Site]:
        """What is selected where tags are named."""
        return list(sites)

    def makers(self, site: Site) -> Sequence[_compat.JaxprEqn | None]:
        """The equations that made what a tag marks."""
        return site.makers

    def asked(self, site: Site) -> tuple[object, ...] | None:
        """What a predicate is asked about."""
        return (site,)

    def refusal(self, where: Selector, site: Site) -> Refusal | None:
        """Why a selector passes over a tag: it only describes it, or the tag never fires."""
        names = is_params(where) or _is_by(where, "tag", "variable")
        return refusal_of(site) if site.idle or not names else None

    def none(self, where: Selector) -> str:
        """The message that nothing matches."""
        if not self.every:
            return (
                f"where={where!r}: the program has no tags. Put one with tag() or tag_at(); or "
                'give a variable of a function: taxpr.var("name").'
            )
        if isinstance(where, Primitive):
            return _missed(self, "tags", where) + self._other_makers(where)
        known = [str(site.name) for site in self.every if site.name is not None]
        return _missed(self, "tags", where, known)

    def _other_makers(self, where: Primitive) -> str:
        inside = sum(any(step.eqn.primitive is where for step in s.steps) for s in self.every)
        said = f" It selects tags on what {where.name} returns;"
        if inside:
            return said + f" {inside} are inside of a {where.name}: select these by '*:{where}/*'."
        return said + f" the tagged values are made by {_names(self, self.every)}."


class Values:
    """Values to select from, tagged or not."""

    predicate = "(address, eqn)", "lambda address, eqn: 'mul' in address"

    def __init__(self, jaxpr: StoredJaxpr) -> None:
        self.jaxpr = jaxpr

    @functools.cached_property
    def every(self) -> list[Value]:
        """All values, without the results of tags."""
        return values_of(self.jaxpr)

    @functools.cached_property
    def sites(self) -> list[Site]:
        """The tags."""
        return find_sites(self.jaxpr)

    @property
    def order(self) -> list[str]:
        """The addresses of all in program order."""
        return [value.address for value in self.every]

    def at(self, where: Places) -> list[Value]:
        """Those at named places."""
        if where.by == "tag":
            return self.of_tags([site for site in self.sites if site.address in where.addresses])
        return [value_at(self.jaxpr, address) for address in where.addresses]

    def of_tags(self, sites: Sequence[Site]) -> list[Value]:
        """What is selected where tags are named."""
        return [value for site in sites for value in results_of(self.jaxpr, site)]

    def makers(self, value: Value) -> Sequence[_compat.JaxprEqn | None]:
        """The equation that made a value."""
        return (value.eqn,)

    def asked(self, value: Value) -> tuple[object, ...] | None:
        """What a predicate is asked about; None if it is not."""
        return (value.address, value.eqn) if value.eqn else None

    def refusal(self, where: Selector, value: Value) -> Refusal | None:
        """Why a selector passes over a value: no tag on it could be injected, or put."""
        if is_params(where) or _is_by(where, "tag"):
            return None
        hidden = (Refusal(step, _HIDDEN) for step in value.steps if not step.nested.replaceable)
        return refusal_of(value) or next(hidden, None)

    def none(self, where: Selector) -> str:
        """The message that nothing matches."""
        if is_params(where) or isinstance(where, Site):
            return Tags(self.sites).none(where)
        said = _missed(self, "values", where)
        if isinstance(where, Primitive):
            return f"{said} They are made by {_names(self, self.every)}."
        return said


def pick(of: Any, where: Selector, *, change: bool = False) -> Picked[Any]:
    """The tags or values that a selector means, in program order.

    Args:
        of: What is selected from: `Tags` or `Values`.
        where: A selector in which texts and variables were replaced by places.
        change: Whether to pass over those that cannot be injected, where the selector does not give
            an address. If nothing is left, all are used, to be refused by name.

    Raises:
        SelectorError: If nothing matches and that was not allowed; it names what is near.
    """
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
            raise SelectorError(of.none(where))
        if not change or isinstance(where, Site) or _is_by(where, "address"):
            return some
        refused = [(thing, why) for thing in some if (why := of.refusal(where, thing))]
        if len(refused) == len(some) and not may_be_empty:
            return some
        over.extend(refused)
        gone = {id(thing) for thing, _ in refused}
        return [thing for thing in some if id(thing) not in gone]

    with telling_of_tuples(where, of.sites):
        chosen = {thing.address: thing for thing in found(where, False)}
    every = list(chosen.values())
    if len(every) > 1:  # else no walk through the program is needed
        order = {address: k for k, address in enumerate(of.order)}
        every.sort(key=lambda thing: order.get(thing.address, len(order)))
    passed = skipped(pair for pair in over if pair[0].address not in chosen)
    return Picked(every, passed)


@contextlib.contextmanager
def telling_of_tuples(where: Selector, sites: Sequence[Site]) -> Generator[None, None, None]:
    """A context for selecting: an error says if a tuple is the name of a tag."""
    try:
        yield
    except SelectorError as error:
        if isinstance(where, tuple) and any(site.name == where for site in sites):
            raise SelectorError(
                f"where={where!r} is a list of selectors, as every tuple, and one of them fails: "
                f"{error} The tag whose name is the tuple is selected by {{'name': {where!r}}}."
            ) from None
        raise


def _found(of: Tags | Values, where: Selector) -> list[Any]:
    """What one selector means, that is no list."""
    if where is None or isinstance(where, Every):
        return list(of.every)
    if isinstance(where, Places):
        return of.at(where)
    if isinstance(where, Site):
        return of.of_tags(list(filter(same_site(of.sites, where), of.sites)))
    if is_params(where):
        return of.of_tags(list(filter(_test_of_params(where), of.sites)))
    things: Any = of
    if isinstance(where, (Scope, Line)):
        return list(filter(where.fits, things.every))
    if isinstance(where, Primitive):
        return [
            thing
            for thing in things.every
            if any(eqn and eqn.primitive is where for eqn in things.makers(thing))
        ]
    _refuse(of, where)
    asked = ((thing, things.asked(thing)) for thing in things.every)
    return [thing for thing, args in asked if args and _answer(of, where, *args)]


def _refuse(of: Tags | Values, where: Any) -> None:
    """Raise where something is no selector."""
    if isinstance(where, jax.core.Tracer):
        raise SelectorError(
            f"where={where} is a value that is being traced. What is selected is decided "
            "while tracing and cannot depend on it: use a Python value."
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
            f"What it computes is selected by the primitive, {made}, by line() or by a variable."
        )
    if not callable(where):
        shown = f"={where!r} is a {type(where).__name__}"
        if hasattr(where, "shape"):  # whose text may be long
            shown = f" is an array, {jax.typeof(where).str_short()}"
        raise SelectorError(
            f"where{shown}. A selector is a name, a glob, an "
            "address, a Site, a dict of params, a primitive, a scope(), a line(), a predicate "
            f"{of.predicate[0]}, a maybe(), or a list of these; of a Program also a var()."
        )


def _answer(of: Tags | Values, predicate: Any, *args: object) -> bool:
    """The result of the user's predicate, as a bool that is known while tracing.

    A string or selector as result is an error: it would be true everywhere, and is a mistake.
    """
    name, how = name_of(predicate), f"as {of.predicate[1]} does"
    if wrong := unfit(predicate, *args):
        raise SelectorError(
            f"where: the predicate {name}{wrong[0]} is asked about each in turn, by "
            f"{of.predicate[0]}: {wrong[1]}. Give one with these arguments, {how}."
        )
    result = predicate(*args)
    if isinstance(result, (str, bytes, Scope, Line, Maybe, Places)) and result:
        raise SelectorError(
            f"where: the predicate {name} returned {result!r}, a {type(result).__name__}. It is "
            f"asked about each in turn and answers with a bool, {how}. Another selector is given "
            f"itself: where={result!r}."
        )
    try:
        return bool(result)
    except jax.errors.ConcretizationTypeError:
        raise SelectorError(
            "where: the predicate returned a value that is being traced. What is selected is "
            "decided while tracing: return a Python bool."
        ) from None


def _is_by(where: Selector, *by: str) -> bool:
    return isinstance(where, Places) and where.by in by


def same_site(sites: Sequence[Site], where: Site) -> Callable[[Site], bool]:
    """A test for the tag of a `Site`, which may be from before an edit of the program."""
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
                f"where={where!r}: {key!r} is a {type(value).__name__}, which is not hashable. "
                "Params are hashable Python values, so that no tag has it."
            ) from None
    return lambda site: all(
        key in site.params and bool(site.params[key] == value) for key, value in where.items()
    )


def _names(of: Tags | Values, things: Iterable[Any]) -> str:
    """The primitives that made tags or values, for a message."""
    given: Any = of
    makers = {eqn.primitive.name for thing in things for eqn in given.makers(thing) if eqn}
    return ", ".join(sorted(makers)) or "no equation"


def _missed(of: Tags | Values, what: str, where: Selector, names: Sequence[str] = ()) -> str:
    """That nothing matches, and what is near."""
    things: Sequence[Selectable] = of.every
    said = f"where={where!r} matches none of the {len(things)} {what}."
    if isinstance(where, Primitive):
        return said
    if isinstance(where, Scope):
        scopes = ["/".join(inner for _, inner in parts_of(thing)) for thing in things]
        near = nearest(where.pattern, filter(None, scopes))
        return said + (near or " None has a named scope.")
    if isinstance(where, Line):
        sources = {_compat.source_of(thing.eqn) for thing in things if thing.eqn}
        lines = {(file_text(s.file), s.line) for s in sources if s}
        near = sorted(lines, key=lambda line: (abs(line[1] - where.number), line))[:5]
        return said + " Nearest: " + ", ".join(f"{file}:{number}" for file, number in near) + "."
    known = [*names, *(thing.address for thing in things)]
    if not isinstance(where, Site):
        return said + nearest(str(where), known)
    return (
        f"where: this program has no {where}, and matches none of the {len(things)} {what}: the "
        "site is stale, of another program or of a tag that was taken out."
        + nearest(where.address, known)
    )
