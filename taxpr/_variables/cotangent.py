"""The selector of cotangents, and the cotangents that it selects."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from taxpr._address import Address
from taxpr._compat import Token
from taxpr._errors import SelectorError, a_type
from taxpr._sites.criteria import Maybe, OfVariable, Selector, is_list, nearest
from taxpr._variables.select import Var, chosen, labels
from taxpr._variables.table import Mark, Variables
from taxpr._variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Cotangent(OfVariable):
    """A selector of the cotangents of values; `cotangent` makes it."""

    of: Var | str

    @property
    def text(self) -> str:
        """The name that several of them share."""
        return f"∂ {self.of.text if isinstance(self.of, Var) else self.of}"

    def __repr__(self) -> str:
        return f"cotangent({self.of!r})"


def cotangent(where: Selector) -> Any:
    """A selector of the cotangents of values, in a function that differentiates.

    The cotangent of a value flows back to it from all of its uses: it is the gradient of the
    differentiated result with respect to the value. If derivatives are nested, the innermost one
    counts. So you can record, clip or replace gradients without a `tag_cotangent` in the source.
    Functions such as `taxpr.collect`, `taxpr.inject` and `taxpr.watch` notice that they are asked
    for cotangents; a `Program` knows them if it was traced with ``names="cotangents"``. Their names
    are the values' names with a ``∂`` before them.

    Args:
        where: The values: a variable by `var`, the name of a tag or of a variable, a `maybe` or a
            list of these.

    Returns:
        The selector. In a PyTree it selects the arrays that have a cotangent. It never guesses:
        selecting raises `SelectorError` if there is no cotangent, as for integers, after
        `jax.lax.stop_gradient`, for arguments that are not differentiated, in a function with a
        derivative of its own, or if nothing uses the value; if one traced function was called
        several times, as `jax.jit` caches it; and if the line that makes a value also uses it
        before it is bound.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(w):
        ...     h = w * 3
        ...     return jnp.sum(h**2)
        >>> gradient = jax.grad(loss)
        >>> taxpr.collect(gradient, taxpr.cotangent(taxpr.var("h")))(jnp.ones(2))[1]
        {'∂ h': Array([6., 6.], dtype=float32)}
        >>> clipped = taxpr.inject(gradient, {taxpr.cotangent("h"): taxpr.clip(-1.0, 1.0)})
        >>> clipped(clipped.init(jnp.ones(2)), jnp.ones(2))[0]
        Array([3., 3.], dtype=float32)
    """
    if isinstance(where, Maybe):
        return Maybe(cotangent(where.where))
    if (isinstance(where, str) and not where.strip()) or (is_list(where) and not where):
        raise SelectorError(f"cotangent: {where!r} is empty and selects nothing.")
    if is_list(where):
        return type(where)(map(cotangent, where))
    if isinstance(where, Var) and where.inside:
        raise SelectorError(
            f"cotangent: {where!r}: a cotangent covers all uses of a value. Leave out inside."
        )
    if isinstance(where, (Var, str)):
        return Cotangent(where)
    raise SelectorError(
        f"cotangent: {where!r} is {a_type(where)}. Give a variable, as var('x'), or the "
        "name of a tag; where the cotangent is a value of a traced program, its address selects it."
    )


@dataclasses.dataclass(frozen=True)
class FoundCotangent:
    """A cotangent in a program.

    Attributes:
        name: Its name.
        token: The token of its mark.
        address: Its own address.
        place: The line that bound the value, or "".
        variable: The variable that held the value; None for a tag.
        path: The path in the tagged value.
    """

    name: str
    token: Token
    address: Address
    place: str
    variable: Variable | None
    path: str


def cotangents(
    variables: Variables | None, where: Cotangent, may_be_empty: bool, numbered: bool = True
) -> list[FoundCotangent]:
    """The cotangents that a selector means in a program.

    Raises:
        SelectorError: If there is no cotangent, or it cannot be told apart from others.
    """
    if variables is None or not variables.cotangents:
        raise SelectorError(
            f"where={where!r}: the program does not know cotangents. Trace the function that "
            'differentiates with taxpr.trace(f, names="cotangents"), without another tool that '
            "uses sys.settrace, or give the function itself in place of the program."
        )
    marks = [mark for mark in variables.marks if not mark.recomputed]
    of_tags = [mark for mark in marks if mark.variable is None and mark.name == where.of]
    if of_tags:
        held, names = of_tags, [f"{mark.name}{mark.path}" for mark in of_tags]
    else:
        of = where.of if isinstance(where.of, Var) else Var(where.of)
        try:
            one_of = chosen(variables.table, of, may_be_empty)
        except SelectorError as error:
            tags = nearest(of.text, {str(mark.name) for mark in marks if mark.variable is None})
            raise SelectorError(f"{error}{tags and f' Of tags:{tags}'}") from None
        by_variable = {mark.variable: mark for mark in variables.marks}
        held, names = [by_variable[one] for one in one_of], labels(one_of, numbered)
    found: list[FoundCotangent] = []
    reasons: list[str] = []
    for mark, name in zip(held, names, strict=True):
        if isinstance(cotangent := _only(variables, mark, marks), str):
            reasons.append(f"{name}{cotangent}")
            continue
        token, address = cotangent
        place = mark.variable.place if mark.variable else ""
        found.append(FoundCotangent(f"∂ {name}", token, address, place, mark.variable, mark.path))
    doubtful = [one for one in reasons if not one.endswith(_NONE)]
    if doubtful or not (found or may_be_empty):
        raise SelectorError(f"where={where!r}: {'; '.join(dict.fromkeys(doubtful or reasons))}.")
    return found


_NONE = (
    " has no cotangent: nothing that is differentiated depends on it, it has no derivative, or "
    "only a rule for derivatives knows it"
)


def _only(variables: Variables, mark: Mark, marks: Iterable[Mark]) -> tuple[Token, Address] | str:
    """The token and the address of a cotangent; else the reason why it is missing."""
    if mark.token is True:
        return (
            " was used, or may have been, before the end of the line that binds it, so that its "
            "cotangent is only known in part: bind it in a line of its own"
        )
    if not isinstance(mark.token, Token):
        return _NONE
    at: Sequence[Address] = variables.cotangents_of(mark.token)
    if not at:
        return _NONE
    places = {one.address for one in marks if one.token is mark.token}
    if len(places) > 1:
        return (
            f" is in a function that was traced once and is called {len(places)} times, so that "
            "its cotangents cannot be told apart: call it without jax.jit, or give each call a "
            "function of its own"
        )
    if len(at) > 1:
        return f" is differentiated {len(at)} times, at {', '.join(at)}: select one by its address"
    return mark.token, at[0]
