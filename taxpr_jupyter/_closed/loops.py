"""The loops in a closed part, and how often each one runs, as far as its jaxprs are certain."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives as p
import numpy as np

from taxpr import introspect
from taxpr_jupyter._analysis.sizes import Loop
from taxpr_jupyter._model.model import count_of

# What is False everywhere if its only operand is.
_AS_FALSE = frozenset(
    {p.convert_element_type_p, p.broadcast_in_dim_p, p.reshape_p, p.squeeze_p, p.reduce_or_p}
)
# A comparison with a limit: whether it ends a count upwards, and the limit is the last one.
_LIMITS: Mapping[Any, tuple[bool, bool]] = {
    p.lt_p: (True, False),
    p.le_p: (True, True),
    p.gt_p: (False, False),
    p.ge_p: (False, True),
}
_IDENTITY = re.compile(r"@main\(%arg0:[^\n]*\{\n\s*return %arg0 :")


class Bound(NamedTuple):
    """The number of iterations of a while loop.

    Attributes:
        most: It runs no more often.
        exact: Whether it runs just as often.
    """

    most: int
    exact: bool

    @property
    def words(self) -> str:
        """`at most 256`, `256`."""
        return f"{'' if self.exact else 'at most '}{self.most:,}"


class WhileParts(NamedTuple):
    """The parts of a while loop.

    Attributes:
        eqn: The equation.
        condition: Its condition.
        body: Its body.
        around: The calls around it, outermost first, each with its jaxpr.
    """

    eqn: introspect.JaxprEqn
    condition: introspect.Nested
    body: introspect.Nested
    around: Sequence[tuple[introspect.JaxprEqn, introspect.Nested]] = ()

    def known(self, i: int) -> int | None:
        """The integer that an input of the condition is in each iteration; None if unknown."""
        k = self.condition.operands[i]
        carried = self.carry(i)
        if carried and self.body.jaxpr.outvars[carried[1]] is not self._input(carried[0]):
            return None
        return None if k is None else self.given(k)

    def given(self, k: int) -> int | None:
        """The integer that an operand of the loop is, also as an operand of a call around it."""
        atom = self.eqn.invars[k]
        for eqn, nested in reversed(self.around):
            inside = nested.jaxpr.invars
            i = None if introspect.is_literal(atom) or atom not in inside else inside.index(atom)
            operand = None if i is None else nested.operands[i]
            if operand is None or nested.back:  # in a loop it may begin with another one each time
                break
            atom = eqn.invars[operand]
        return _integer(atom)

    def carry(self, i: int) -> tuple[int, int] | None:
        """The numbers in the body of the input and output that an input of the condition is."""
        k = self.condition.operands[i]
        pairs = ((to, j) for j, to in self.body.back if self.body.operands[to] == k)
        return next(pairs, None) if k is not None else None

    def _input(self, i: int) -> introspect.Var:
        return self.body.jaxpr.invars[i]


def words(eqn: introspect.JaxprEqn, within: Iterable[introspect.JaxprEqn] = ()) -> str:
    """`scan ×5 reverse`, `while, at most 256`: a loop and how often it runs.

    The equations that it is in may be given: a call around it may say how it begins.
    """
    body = introspect.nested_jaxprs(eqn)[-1]
    name, times = eqn.primitive.name, f"×{body.trips}" if body.trips is not None else ""
    if bound := bound_of(eqn, within):
        name, times = (name, f"×{bound.most}") if bound.exact else (f"{name},", bound.words)
    return " ".join(filter(None, (name, times, "reverse" if body.reverse else "")))


def each_of(
    found: Sequence[Loop], count: int, width: int, within: Iterable[introspect.JaxprEqn] = ()
) -> list[str]:
    """`scan ×12`, `2 × scan ×5 reverse › while`: loops with those in them, if there is room.

    Args:
        found: The loops.
        count: How many there are. If these are not all, there is only the number.
        width: The characters for a loop.
        within: The equations that they are in.
    """
    if count > len(found):
        return [count_of(count, "loop")]
    texts = [_with_inner(one, width, within if count == 1 else ()) for one in found]
    return [f"{times} × {text}" if times > 1 else text for text, times in Counter(texts).items()]


def _with_inner(loop: Loop, width: int, within: Iterable[introspect.JaxprEqn]) -> str:
    own = words(loop.eqn, within)
    inner = each_of(loop.first, loop.loops, width)
    text = " › ".join([own, *inner]) if len(inner) < 2 else f"{own} › ({', '.join(inner)})"
    short = f"{own} › {count_of(loop.loops, 'loop')}" if loop.loops else own
    return text if len(text) <= width else short


def bound_of(eqn: introspect.JaxprEqn, within: Iterable[introspect.JaxprEqn] = ()) -> Bound | None:
    """How often a while loop runs at most; None if that is not certain, or no while loop.

    It is if an integer of its carry begins with a known number, changes by the same number in each
    iteration, and the loop ends at the latest when it reaches another known number.

    Args:
        eqn: The loop.
        within: Equations with no other loop than this one, but for those in it.
    """
    if (loop := parts_of(eqn)) is None:
        return None
    loop = loop._replace(around=_way(within, eqn) or ())
    [predicate] = loop.condition.jaxpr.outvars
    found = [
        Bound(trips, exact)
        for i, upwards, limit, exact in _limits(loop, predicate)
        if (trips := _trips(loop, i, upwards, limit)) is not None
    ]
    return min(found, default=None)


def condition_of(eqn: introspect.JaxprEqn) -> str:
    """The condition of a while loop as the user wrote it, `k < 10`; "" if they did not."""
    statement = condition_statement(eqn)
    return statement.text.removeprefix("return ") if statement else ""


def condition_statement(eqn: introspect.JaxprEqn) -> introspect.Statement | None:
    """The user's statement that makes the condition of a while loop: a `return`, or a lambda's."""
    if (loop := parts_of(eqn)) is None:
        return None
    source = getattr(loop.condition.jaxpr.debug_info, "func_src_info", None) or ""
    name, _, place = source.partition(" at ")
    file, _, line = place.rpartition(":")
    made = makers_of(loop.condition.jaxpr)
    [predicate] = loop.condition.jaxpr.outvars
    if not place or introspect.is_library_file(file, eqn) or predicate not in made:
        return None
    stack = introspect.statements_of(made[predicate])
    own = [one for one in stack if (one.file, str(one.begins)) == (file, line)]
    if not own or own[0].function.rpartition(".")[2] != name:
        return None
    return own[0] if name == "<lambda>" or own[0].text.startswith("return ") else None


def parts_of(eqn: introspect.JaxprEqn) -> WhileParts | None:
    """The parts of a while loop; None of another equation."""
    if eqn.primitive is not p.while_p:
        return None
    bodies = {bool(nested.back): nested for nested in introspect.nested_jaxprs(eqn)}
    return WhileParts(eqn, bodies[False], bodies[True]) if len(bodies) == 2 else None


def _way(
    eqns: Iterable[introspect.JaxprEqn], loop: introspect.JaxprEqn
) -> list[tuple[introspect.JaxprEqn, introspect.Nested]] | None:
    """The calls from some equations down to a loop that is the only one in them."""
    for eqn in eqns:
        if eqn is loop:
            return []
        for nested in introspect.nested_jaxprs(eqn):
            if (found := _way(nested.jaxpr.eqns, loop)) is not None:
                return [(eqn, nested), *found]
    return None


def makers_of(jaxpr: Any) -> dict[introspect.Var, introspect.JaxprEqn]:
    """The equation that makes each variable of a jaxpr."""
    return {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}


# --- bounds ---------------------------------------------------------------------------------------


def _limits(loop: WhileParts, predicate: introspect.Atom) -> Iterator[tuple[int, bool, int, bool]]:
    """The comparisons that end the loop, whatever the rest of the predicate says.

    Yields for each the number of its input of the condition, whether this counts upwards, the first
    number that ends the loop, and whether the comparison is all of the predicate.
    """
    jaxpr = loop.condition.jaxpr
    made, inputs = makers_of(jaxpr), {var: i for i, var in enumerate(jaxpr.invars)}

    def known(atom: introspect.Atom) -> int | None:
        if introspect.is_literal(atom):
            return _integer(atom)
        return loop.known(inputs[atom]) if atom in inputs else None

    def below(atom: introspect.Atom, exact: bool) -> Iterator[tuple[int, bool, int, bool]]:
        eqn = None if introspect.is_literal(atom) else made.get(atom)
        if eqn is None:
            return
        if eqn.primitive is p.and_p:
            for one in eqn.invars:
                yield from below(one, exact=False)
        elif eqn.primitive in _AS_FALSE or _is_identity(eqn):
            yield from below(eqn.invars[0], exact)
        elif eqn.primitive in _LIMITS:
            upwards, last = _LIMITS[eqn.primitive]
            count, limit = eqn.invars
            if known(limit) is None:
                count, limit, upwards = limit, count, not upwards
            number = known(limit)
            if number is not None and not introspect.is_literal(count) and count in inputs:
                yield inputs[count], upwards, number + last * (1 if upwards else -1), exact

    yield from below(predicate, exact=True)


def _trips(loop: WhileParts, i: int, upwards: bool, limit: int) -> int | None:
    """How many iterations it takes an input of the condition from its start to a limit."""
    k, carried = loop.condition.operands[i], loop.carry(i)
    start = None if k is None else loop.given(k)
    if start is None or carried is None:
        return None
    to, j = carried
    step = _step(loop.body.jaxpr, loop.body.jaxpr.outvars[j])
    if step is None or step[0] is not loop.body.jaxpr.invars[to]:
        return None
    by, way = (step[1], limit - start) if upwards else (-step[1], start - limit)
    if by <= 0:
        return None
    trips = max(0, -(-way // by))
    aval: Any = loop.body.jaxpr.invars[to].aval
    held = np.iinfo(aval.dtype)
    return trips if held.min <= start + trips * step[1] <= held.max else None  # else it wraps


def _step(jaxpr: Any, atom: introspect.Atom) -> tuple[introspect.Atom, int] | None:
    """The input that a value of a jaxpr is but for an added number, and this number."""
    made, added = makers_of(jaxpr), 0
    while not introspect.is_literal(atom) and (eqn := made.get(atom)) is not None:
        if eqn.primitive in (p.add_p, p.sub_p):
            first, second = eqn.invars
            if eqn.primitive is p.add_p and introspect.is_literal(first):
                first, second = second, first
            number = _integer(second)
            if number is None:
                return None
            atom, added = first, added + (number if eqn.primitive is p.add_p else -number)
        elif eqn.primitive is p.copy_p:
            atom = eqn.invars[0]
        elif (call := call_of(eqn)) is not None:
            inner = _step(call.jaxpr, call.jaxpr.outvars[call.results.index(result_at(eqn, atom))])
            if inner is None or inner[0] not in call.jaxpr.invars:
                return None
            operand = call.operands[call.jaxpr.invars.index(inner[0])]
            if operand is None:
                return None
            atom, added = eqn.invars[operand], added + inner[1]
        else:
            return None
    return atom, added


def call_of(eqn: introspect.JaxprEqn) -> introspect.Nested | None:
    """The jaxpr that an equation runs once, with all of its results; None if it does more."""
    nested = introspect.nested_jaxprs(eqn)
    if len(nested) != 1 or nested[0].back or nested[0].conditional or nested[0].trips != 1:
        return None
    plain = {*nested[0].in_roles} <= {"arg"} and {*nested[0].out_roles} <= {"out"}
    return nested[0] if plain and None not in nested[0].results else None


def result_at(eqn: introspect.JaxprEqn, atom: introspect.Atom) -> int:
    """The number of a result of an equation."""
    return next(k for k, var in enumerate(eqn.outvars) if var is atom)


def _integer(atom: introspect.Atom) -> int | None:
    """The integer that a literal is."""
    if not introspect.is_literal(atom) or np.shape(atom.val) != ():
        return None
    return int(atom.val) if np.issubdtype(np.asarray(atom.val).dtype, np.integer) else None


def _is_identity(eqn: introspect.JaxprEqn) -> bool:
    """Whether a library's own primitive hands a bool on: then XLA gets a function that does.

    Equinox has one around the condition of its loops, which only says something under `vmap`.
    """
    avals: list[Any] = [atom.aval for atom in (*eqn.invars, *eqn.outvars)]
    if len(eqn.invars) != 1 or len(eqn.outvars) != 1 or eqn.effects or introspect.is_hop(eqn):
        return False
    if not all(aval.shape == () and aval.dtype == bool for aval in avals):
        return False
    given = jax.ShapeDtypeStruct((), bool)
    try:
        lowered = jax.jit(lambda x: eqn.primitive.bind(x, **eqn.params)).lower(given)
        return bool(_IDENTITY.search(lowered.as_text()))
    except Exception:  # a library's rule may raise anything
        return False
