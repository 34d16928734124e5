"""Find the origins that reach the results: a walk from their non-finite elements backwards."""

from collections.abc import Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._primitives.tag_equation import is_tag
from taxpr._questions.bits import (
    MOST_ITERATIONS,
    NAN,
    NEGINF,
    POSINF,
    Values,
    dtype_of,
    either,
    given_on,
    key_of,
    takes,
)
from taxpr._questions.copies import shape_of
from taxpr._questions.decisions import DECIDED, chooses, selects, tested
from taxpr._questions.inside_out import Call, Loop, fitted
from taxpr._recordings.axes import Level
from taxpr._untyped import np


class Reaches:
    """The elements, by iterations, that made the results bad.

    Args:
        jaxpr: The program.
        values: Its values.
        bad: By address the bits of non-finite elements that are not intended.
        results: The bad bits of the results.
        more: By address the bad bits of values that are followed back like results.

    Attributes:
        marked: By address the elements; None for none.
        decided: The addresses of marked results that a test of bad elements chose.
    """

    def __init__(
        self,
        jaxpr: StoredJaxpr,
        values: Values,
        bad: Mapping[str, Any],
        results: Sequence[Any],
        more: Mapping[str, Any],
    ) -> None:
        self._values, self._bad, self._more = values, bad, more
        self.marked: dict[str, Any] = {}
        self.decided: dict[str, None] = {}
        self._backward(jaxpr, Address(), (), [None if one is None else one > 0 for one in results])

    def _backward(
        self, stored: StoredJaxpr, home: Address, level: Level, marks: Sequence[Any]
    ) -> list[Any]:
        """Mark what marked results of a jaxpr are made of; returns what is marked of its inputs."""
        inner, addresses = _compat.open_jaxpr(stored), addresses_of(stored, home)
        marked: dict[int, Any] = {}

        def put(atom: Any, mark: Any) -> None:
            bad = self._bad.get(addresses.get(key_of(atom), ""))
            if (
                bad is not None
                and mark is not None
                and (mark := fitted(mark, bad) & (bad > 0)).any()
            ):
                marked[key_of(atom)] = either(marked.get(key_of(atom)), mark)

        def take(var: Any) -> Any:
            mark = marked.get(key_of(var))
            if (address := addresses.get(key_of(var))) is not None:
                self.marked[address] = mark
            return mark

        for atom, mark in zip(inner.outvars, marks, strict=True):
            put(atom, mark)
        for local, eqn in reversed(numbered(inner)):
            here = home / local
            for number, var in enumerate(eqn.outvars):
                if (seed := self._more.get(here.value(number))) is not None:
                    put(var, seed > 0)
            outs = [take(var) for var in eqn.outvars]
            if is_tag(eqn):
                found: Sequence[Any] = outs
            elif entered := self._values.entered(eqn, here):
                by = self._bad.get(addresses.get(key_of(eqn.invars[0]), "")) if eqn.invars else None
                found = self._back_through(eqn, entered, here, level, outs, by)
            elif any(one is not None for one in outs):
                ins = [addresses.get(key_of(atom)) for atom in eqn.invars]
                found = self._made_of(eqn, here, level, ins, outs)
            else:
                continue
            for atom, mark in zip(eqn.invars, found, strict=True):
                put(atom, mark)
        for var in inner.constvars:
            take(var)
        return [take(var) for var in inner.invars]

    def _made_of(
        self,
        eqn: JaxprEqn,
        here: Address,
        level: Level,
        ins: Sequence[str | None],
        outs: Sequence[Any],
    ) -> list[Any]:
        """The elements of operands that marked results of an equation without jaxprs came from."""
        found: list[Any] = [None] * len(ins)
        depends = self._values.depends(eqn, ins, level)
        bad = [self._bad.get(one or "") for one in ins]
        for number, mark in enumerate(outs):
            if mark is None:
                continue
            out = self._bad[here.value(number)]
            for k, one in enumerate(bad):
                if one is None:
                    continue
                if selects(eqn, k):
                    taken = fitted(depends.deciding(mark), one) & (one > 0)
                    if taken.any() and np.any(out & (NAN | POSINF | NEGINF)):
                        self.decided[here.value(number)] = None
                    found[k] = either(found[k], taken)
                    continue
                if (decided := mark & ((out & DECIDED) > 0)).any():
                    reached = depends.back(k, number, decided)
                    seen = tested(eqn, one) > 0
                    found[k] = either(found[k], fitted(reached, seen) & seen)
                given = given_on(eqn, k, one)
                for has, made_of in (
                    (NAN, one),
                    (POSINF, given & POSINF),
                    (NEGINF, given & NEGINF),
                ):
                    here_of = mark & ((out & has) > 0)
                    if here_of.any() and made_of.any():
                        reached = depends.back(k, number, here_of)
                        found[k] = either(found[k], fitted(reached, one) & (made_of > 0))
        if not depends.exact:
            self._values.guessed.add(eqn.primitive.name)
        return found

    def _back_through(
        self,
        eqn: JaxprEqn,
        entered: Sequence[Nested],
        here: Address,
        level: Level,
        outs: Sequence[Any],
        by: Any,
    ) -> list[Any]:
        """The same for an equation with jaxprs, which are walked through.

        ``by`` has the bad bits of the first operand, which may choose a branch.
        """
        found: list[Any] = [None] * len(eqn.invars)
        if chooses(eqn) and by is not None:
            for number, mark in enumerate(outs):
                if mark is not None:
                    if takes(dtype_of(eqn.outvars[number])):
                        self.decided[here.value(number)] = None
                    chosen = mark.any(tuple(range(len(level), mark.ndim)))
                    found[0] = either(found[0], fitted(chosen, by) & (by > 0))
        for nested in entered:
            home = here / nested.label
            call = self._values.call(eqn, nested, here, level)
            below = addresses_of(nested.stored, home)
            marks: list[Any] = []
            for k, to in enumerate(nested.results):
                if to is None:
                    bad = self._bad.get(below.get(key_of(nested.jaxpr.outvars[k]), ""))
                    some = any(one is not None for one in outs)
                    marks.append(bad > 0 if bad is not None and some else None)
                else:
                    marks.append(None if outs[to] is None else call.enter(outs[to], "out", k))
            ins = self._turned_back(nested, home, call, marks, outs)
            for k, operand in enumerate(nested.operands):
                if ins[k] is None:
                    continue
                if operand is not None:
                    found[operand] = either(found[operand], ins[k])
                    continue
                for number, atom in enumerate(eqn.invars):
                    shape = (1,) * (len(level) + len(shape_of(atom)))
                    found[number] = np.ones(shape, bool)
        return found

    def _turned_back(
        self,
        nested: Nested,
        home: Address,
        call: Call,
        marks: list[Any],
        outs: Sequence[Any],
    ) -> list[Any]:
        """The same for the operands of a jaxpr, of its call or of all its iterations."""
        if not isinstance(call, Loop):
            ins = self._backward(nested.stored, home, call.level, marks)
            return [None if x is None else call.leave(x, "in", k) for k, x in enumerate(ins)]
        below = addresses_of(nested.stored, home)
        inputs = [below[key_of(var)] for var in nested.jaxpr.invars]
        bads: dict[int, Any] = {k: self._bad.get(inputs[k]) for _, k in nested.back}
        results = {  # one that feeds no result may feed another jaxpr, as `marks` has it
            out: None
            if marks[out] is None
            else call.leave(marks[out], "out", out)
            if (to := nested.results[out]) is None
            else outs[to]
            for out, _ in nested.back
        }
        # As `Begins` does forwards, from the last iteration back: after n rounds the marks of the
        # last n iterations are right. Marks are only those of bad elements, so a guess of all of
        # them is the most that can be, and rounds take away. At first a guess: of what the loop
        # hands on at its end, all that was handed on before.
        begun = {k for out, k in nested.back if results[out] is not None and bads[k] is not None}
        guess: dict[int, Any] = {k: bads[k] > 0 for k in begun}
        ins: list[Any] = []
        for _ in range(min(call.length + 2, MOST_ITERATIONS)):  # each settles one more iteration
            for out, k in nested.back:
                marks[out] = None
                if both := _both(call, k, results[out], guess.get(k)):
                    marks[out] = call.marked_outs(*both)
            ins = self._backward(nested.stored, home, call.level, marks)
            now: dict[int, Any] = {}
            for _, k in nested.back:
                if ins[k] is not None:  # what was not guessed is, from here on
                    now[k] = ins[k] if k in guess else bads[k] > 0
            if now.keys() == guess.keys() and all(np.array_equal(now[k], guess[k]) for k in now):
                break
            guess = now
        else:
            self._values.guessed.add("a loop")
        found = [None if x is None else call.leave(x, "in", k) for k, x in enumerate(ins)]
        for out, k in nested.back:
            if both := _both(call, k, results[out], ins[k]):
                found[k] = call.marked_init(*both)
        return found


def _both(call: Loop, k: int, result: Any, handed: Any) -> tuple[Any, Any] | None:
    """A carry's marks after its loop, and of the value handed on; zeros if one is None."""
    if result is None and handed is None:
        return None
    if handed is None:
        handed = np.zeros_like(call.enter(result, "in", k))
    if result is None:
        result = np.zeros_like(call.leave(handed, "in", k))
    return result, handed
