"""Find where non-finite values of a program begin: a walk in the order of execution.

A non-finite element begins at an equation if its operands are finite. Infinities that come from
constants or arguments, as in a mask, are intended, but a NaN made of them is not, nor an infinity
of a sign that they cannot give, nor a division of constants by zero. A NaN that is written in the
source begins where it meets a computed value.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._primitives.tag_equation import is_tag
from taxpr._questions.bits import (
    INF,
    MOST_ITERATIONS,
    NAN,
    Values,
    dtype_of,
    either,
    given_on,
    key_of,
    of_literal,
    takes,
)
from taxpr._questions.decisions import (
    DECIDED,
    chooses,
    chosen,
    decided,
    decision_handed_on,
    selects,
    tests,
    unhandled,
)
from taxpr._questions.inside_out import Call, Loop, fitted
from taxpr._recordings.axes import Level
from taxpr._untyped import np

_DIVIDES = {lax.div_p, lax.rsqrt_p, lax.pow_p, lax.integer_pow_p}

# What is around a value: positions of equations, loops and labels, outermost first. A loop is its
# axis, and its length if it goes backwards.
Order = tuple[int | tuple[str, int | None], ...]


@dataclasses.dataclass(eq=False)
class BeganBits:
    """The bits that began at a value: its operands did not have them."""

    bits: Any
    level: Level
    order: Order
    eqn: JaxprEqn | None
    operands: tuple[tuple[str | None, Any], ...]


class Begins:
    """All places in a program where non-finite values begin.

    Attributes:
        bad: By address the bits of non-finite elements that are not intended.
        made: By address the bits that a value did not get from its operands.
        tests: By address the results of tests of floats that bad elements decided.
        results: The bad bits of the results.
    """

    def __init__(self, jaxpr: StoredJaxpr, values: Values) -> None:
        self._values = values
        self._constant: set[str] = set()  # made of literals alone
        self.bad: dict[str, Any] = {}
        self.made: dict[str, BeganBits] = {}
        self.tests: dict[str, Any] = {}
        self.results = self._forward(jaxpr, Address(), (), (), None)

    def _is_constant(self, address: str | None) -> bool:
        return address is None or address in self._constant

    def _forward(
        self,
        stored: StoredJaxpr,
        home: Address,
        level: Level,
        order: Order,
        given: Sequence[Any] | None,
    ) -> list[Any]:
        """Walk through a jaxpr in program order; returns the bad bits of its results."""
        inner, addresses = _compat.open_jaxpr(stored), addresses_of(stored, home)
        bad: dict[int, Any] = {}

        def put(var: Any, found: Any) -> None:
            """Note the bad bits of a value: the bits of ``found`` that it has."""
            bits = self._values.of(addresses.get(key_of(var)), level)
            if found is not None and not takes(dtype_of(var)):
                bits = found & np.uint8(DECIDED)
            self.bad.pop(addresses.get(key_of(var), ""), None)
            if (
                bits is not None
                and found is not None
                and (found := fitted(found, bits) & bits).any()
            ):
                bad[key_of(var)] = self.bad[addresses[key_of(var)]] = found

        for var in inner.constvars if given is not None else (*inner.constvars, *inner.invars):
            put(var, self._given(addresses[key_of(var)], level, order))
        for var, found in zip(inner.invars, given or (), strict=False):
            put(var, found)
        for position, (local, eqn) in enumerate(numbered(inner)):
            here, ins = home / local, [addresses.get(key_of(atom)) for atom in eqn.invars]
            found = [bad.get(key_of(atom)) for atom in eqn.invars]
            within = (*order, position)
            if is_tag(eqn):
                outs = found
            elif entered := self._values.entered(eqn, here):
                outs = self._through(eqn, entered, here, level, within, ins, found)
            else:
                outs = self._computed(eqn, here, level, within, ins, found)
            for var, out in zip(eqn.outvars, outs, strict=True):
                put(var, out)
        return [bad.get(key_of(atom)) for atom in inner.outvars]

    def _given(self, address: str, level: Level, order: Order) -> Any:
        """A NaN in an argument or a constant begins there; infinities are intended."""
        bits = self._values.of(address, level)
        if bits is None or not (bits & NAN).any():
            return None
        self.made[address] = BeganBits(bits & NAN, level, (*order, -1), None, ())
        return bits & NAN

    def _computed(
        self,
        eqn: JaxprEqn,
        here: Address,
        level: Level,
        order: Order,
        ins: Sequence[str | None],
        bad: Sequence[Any],
    ) -> list[Any]:
        """The bad bits of the results of an equation without jaxprs; notes which begin here."""
        is_constant = all(map(self._is_constant, ins))
        found: list[Any] = []
        depends = self._values.depends(eqn, ins, level)
        for number in range(len(eqn.outvars)):
            address = here.value(number)
            out = self._values.of(address, level)
            # An infinity of constants is meant, as of log(0), unless it is a division by zero.
            meant_here = is_constant and (out is None or eqn.primitive not in _DIVIDES)
            if meant_here:
                self._constant.add(address)
            self.made.pop(address, None)
            if not takes(dtype_of(eqn.outvars[number])):
                seen = [self._unhandled(eqn, one, bits) for one, bits in zip(ins, bad, strict=True)]
                found.append(None if is_constant else decided(eqn, number, depends, seen))
                self.tests.pop(address, None)
                if found[-1] is not None and tests(eqn):
                    self.tests[address] = found[-1]
                continue
            if out is None:
                found.append(None)
                continue
            # `handed` has the bits of operands that are bad themselves: here they go on, and do not
            # begin. `mask` has the infinities that are meant, as those of a mask of -inf: the
            # result may have them without being bad. What the result has and neither of both is
            # made here.
            handed = mask = np.zeros((1,) * out.ndim, np.uint8)
            for k, (one, atom) in enumerate(zip(ins, eqn.invars, strict=True)):
                if selects(eqn, k):
                    handed = handed if bad[k] is None else handed | depends.decided(bad[k])
                    continue
                bits = of_literal(atom, level) if one is None else self._values.of(one, level)
                if bits is None:
                    continue
                own = np.uint8(0) if bad[k] is None or one in self._constant else bad[k]
                if is_constant or not self._is_constant(one):
                    own = own | (bits & NAN)
                if np.any(own):
                    handed = handed | depends.onward(k, number, own)
                meant = bits & INF & ~own
                if meant.any():
                    mask = mask | given_on(eqn, k, depends.onward(k, number, meant))
            handed, mask = fitted(handed, out), fitted(mask, out)
            made = np.where(handed, 0, out) & ~(np.uint8(INF) if meant_here else mask)
            # Without elements an infinity beside that of a mask may be the mask's.
            kept = out if self._values.fine else out & ~(mask & INF)
            found.append(made | np.where(handed, kept, 0))
            if made.any():
                literals = [a.val if _compat.is_literal(a) else None for a in eqn.invars]
                operands = tuple(zip(ins, literals, strict=True))
                self.made[address] = BeganBits(made.astype(np.uint8), level, order, eqn, operands)
        if not depends.exact:
            self._values.guessed.add(eqn.primitive.name)
        return found

    def _unhandled(self, eqn: JaxprEqn, address: str | None, bits: Any) -> Any:
        made = self.made.get(address or "")
        return bits if bits is None or made is None else unhandled(eqn, bits, made.bits, made.eqn)

    def _through(
        self,
        eqn: JaxprEqn,
        entered: Sequence[Nested],
        here: Address,
        level: Level,
        order: Order,
        ins: Sequence[str | None],
        bad: Sequence[Any],
    ) -> list[Any]:
        """The bad bits of the results of an equation with jaxprs, which are walked through."""
        outs: list[Any] = [None] * len(eqn.outvars)
        for number, nested in enumerate(entered):
            home = here / nested.label
            call = self._values.call(eqn, nested, here, level)
            below, backs = addresses_of(nested.stored, home), {k for _, k in nested.back}
            inputs = [below[key_of(var)] for var in nested.jaxpr.invars]
            given: list[Any] = []
            for k, operand in enumerate(nested.operands):
                if operand is None:  # it may be of any
                    given.append(self._values.of(inputs[k], call.level))
                    continue
                given.append(None if bad[operand] is None else call.enter(bad[operand], "in", k))
                if k not in backs and self._is_constant(ins[operand]):
                    self._constant.add(inputs[k])
            trips = (here, nested.trips if nested.reverse else None)
            within = (*order, trips, number) if isinstance(call, Loop) else (*order, number)
            results = self._turned(nested, home, call, within, given, bad)
            for k, (to, found) in enumerate(zip(nested.results, results, strict=True)):
                if found is not None:
                    for one in range(len(outs)) if to is None else (to,):
                        bits = self._values.of(here.value(one), level)
                        found_there = bits if to is None else found
                        outs[one] = either(outs[one], found_there)
                if to is not None and chooses(eqn) and bad[0] is not None:
                    bits = self._values.of(here.value(to), level)
                    outs[to] = either(outs[to], chosen(eqn, to, len(level), bad[0], bits))
                atom = below.get(key_of(nested.jaxpr.outvars[k]))
                if to is not None and len(entered) == 1 and atom in self._constant:
                    self._constant.add(here.value(to))
        return outs

    def _turned(
        self,
        nested: Nested,
        home: Address,
        call: Call,
        order: Order,
        given: list[Any],
        bad: Sequence[Any],
    ) -> list[Any]:
        """The bad bits of the results of a jaxpr, outside of it: of one call or all iterations."""
        inner = nested.jaxpr
        if not isinstance(call, Loop):
            outs = self._forward(nested.stored, home, call.level, order, given)
            return [None if x is None else call.leave(x, "out", k) for k, x in enumerate(outs)]
        addresses = addresses_of(nested.stored, home)
        # Which iteration first had the bits is not known before the body was walked through, and
        # the body cannot be walked through without. So the carry is guessed, the body walked
        # through for all iterations at once, and the guess replaced by what that hands on, until
        # both agree. Invariant: after n rounds the first n iterations are right, whatever the guess
        # was, since an iteration depends on those before it alone. So no more rounds are needed
        # than iterations.
        inits: dict[int, Any] = {}
        for _, k in nested.back:
            bits = self._values.of(addresses[key_of(inner.invars[k])], call.level)
            operand = nested.operands[k]
            begun = None if operand is None else bad[operand]
            if bits is None:  # finite in each iteration, of which there may be none
                inits[k], given[k] = begun, None
                continue
            none = np.zeros_like(call.leave(bits, "in", k))
            inits[k] = none if begun is None else begun
            # At first a guess: what the loop did not begin with has come up in it.
            meant = call.leave(call.first(bits), "in", k) & ~inits[k]
            given[k] = bits & ~call.enter(meant & INF, "in", k)
        outs: list[Any] = []
        for _ in range(min(call.length + 2, MOST_ITERATIONS)):  # each settles one more iteration
            outs = self._forward(nested.stored, home, call.level, order, given)
            now = list(given)
            for out, k in nested.back:
                if not takes(dtype_of(inner.invars[k])):
                    now[k] = decision_handed_on(call, k, inits[k], outs[out])
                elif given[k] is not None:
                    handed = outs[out]
                    handed = np.zeros_like(given[k]) if handed is None else handed
                    bits = self._values.of(addresses[key_of(inner.invars[k])], call.level)
                    handed = call.handed_on(inits[k], handed)
                    now[k] = fitted(handed, bits) & bits
            if all(x is y or np.array_equal(x, y) for x, y in zip(now, given, strict=True)):
                break
            given = now
        else:
            self._values.guessed.add("a loop")
        found: list[Any] = []
        starts = {out: inits[k] for out, k in nested.back}
        for k, x in enumerate(outs):
            if k not in starts:
                found.append(None if x is None else call.leave(x, "out", k))
                continue
            start = starts[k]
            if x is None and start is None:
                found.append(None)
                continue
            x = np.zeros_like(call.enter(start, "out", k)) if x is None else x
            start = np.zeros_like(call.leave(x, "out", k)) if start is None else start
            found.append(call.result(start, x))
        return found
