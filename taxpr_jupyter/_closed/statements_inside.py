"""The user's statements in a closed part of a program."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.names import is_of_library
from taxpr_jupyter._analysis.sizes import is_loop
from taxpr_jupyter._closed.branches import key_of
from taxpr_jupyter._closed.called import CalledFunctions, transformed
from taxpr_jupyter._closed.listed import MORE, FunctionWords, StatementWords, bare
from taxpr_jupyter._closed.numbers import numbers_in
from taxpr_jupyter._closed.running import (
    READ,
    Read,
    in_root,
    name_of,
    names_handed,
    read,
    returned_call,
    shared,
    targets_in,
    words_given,
)
from taxpr_jupyter._closed.without_equations import completed

_DEEP = 6  # calls in calls that are looked into
_WITHIN = 6  # calls in calls whose statements are told besides
# What only arranges values.
_ARRANGING = frozenset(
    {p.broadcast_in_dim_p, p.convert_element_type_p, p.reshape_p, p.slice_p, p.squeeze_p, p.copy_p}
)


def statements_in(
    eqns: Iterable[introspect.JaxprEqn], within_backward: bool = False
) -> list[StatementWords]:
    """The statements in some equations that one statement or function made, in their order.

    Args:
        eqns: The equations.
        within_backward: Whether they are nested in an equation of a backward pass.
    """
    eqns = [*eqns]
    every = [read(eqn) for eqn in eqns[:READ]]
    own = in_root(every)
    level = shared([one.stack for one in own])
    walk = _StatementReader(eqns if within_backward else ())
    # A statement that computes besides, or calls several functions, has theirs with their names.
    functions = {
        (one.stack[level].file, one.stack[level].begins) for one in own if one.stack[level:]
    }
    if functions and level and (len(functions) > 1 or not all(one.stack[level:] for one in own)):
        said = [StatementWords((), within=tuple(walk.functions(own, level - 1, 1)))]
    else:
        ran = [(one.eqn, one.stack[level]) for one in own if len(one.stack) > level]
        said = completed([*walk.code(own, level)], ran, ends=False)
    for one in own if not said else ():  # the statement has loops or calls
        said += walk.nested(one.eqn, 0) if len(one.stack) == level else ()
    # JAX may have taken the equations of a function of the user's out of its call.
    is_all = len(eqns) <= READ and len(own) == sum(bool(one.stack) for one in every)
    return [*_unlike(said), *([MORE] if said and not is_all else [])]


def statements_inside(
    eqn: introspect.JaxprEqn, within_backward: bool = False
) -> list[StatementWords]:
    """The statements in the nested jaxprs of an equation, in their order.

    A library's equation has the user's functions that it calls, if the user's line does not name
    them.

    Args:
        eqn: The equation.
        within_backward: Whether it is itself nested in an equation of a backward pass.
    """
    return _unlike(_StatementReader([eqn] if within_backward else ()).nested(eqn, 0))


def _unlike(said: Iterable[StatementWords]) -> list[StatementWords]:
    """Each statement once, also one that several equations or calls made."""
    found: dict[StatementWords, StatementWords] = {}
    for one in said:
        alike = one._replace(equations=0, runs=False)
        before = found.get(alike, one)
        equations, runs = max(before.equations, one.equations), before.runs or one.runs
        found[alike] = before._replace(equations=equations, runs=runs)
    return [*found.values()]


class _StatementReader:
    """Reads the statements of a part; what is in it several times once.

    Args:
        backward: Equations of a backward pass that do not say so themselves.
    """

    def __init__(self, backward: Iterable[introspect.JaxprEqn]) -> None:
        self._backward = {*map(id, backward)}
        # By an equation and how deep it is.
        self._said: introspect.ByIdentity[dict[tuple[int, int], list[StatementWords]]]
        self._said = introspect.ByIdentity()
        self._called = CalledFunctions()
        self._results: set[int] = set()  # the variables that leave the jaxprs that are read

    def function(
        self, every: Sequence[Read], level: int, depth: int = 0, within: int = 0
    ) -> list[StatementWords]:
        """The statements of a function as `code`, with those that compute nothing."""
        own = [one for one in every if len(one.stack) > level]
        ran = [(one.eqn, one.stack[level]) for one in own]
        ends = not self._goes_back(own, level)
        return completed([*self.code(every, level, depth, within)], ran, ends)

    def _goes_back(self, own: Sequence[Read], level: int) -> bool:
        """Whether equations are of a backward pass through their function, which returns before it.

        A function that takes a derivative itself has others, of the functions that it calls.
        Equations that `jax.checkpoint` computes again are for a backward pass, too.
        """
        back = [self._is_backward(one.eqn) for one in own]
        if any(len(one.stack) == level + 1 for one in itertools.compress(own, back)):
            return True
        return all(b or introspect.is_recomputed(one.eqn) for b, one in zip(back, own, strict=True))

    def _is_backward(self, eqn: introspect.JaxprEqn) -> bool:
        return id(eqn) in self._backward or pass_of(eqn) == "backward"

    def code(
        self, every: Sequence[Read], level: int, depth: int = 0, within: int = 0
    ) -> Iterator[StatementWords]:
        """The statements at a level of the stacks.

        Args:
            every: The equations.
            level: The level.
            depth: How many calls around it have been looked into, as if they were not there.
            within: How many others have been looked into.
        """
        statements: dict[object, list[Read]] = {}
        for one in every:
            if len(one.stack) > level:
                frame = one.stack[level]
                statements.setdefault((frame.file, frame.place or frame.line), []).append(one)
        around = transformed(one.eqn for one in every)
        leaving = self._leaving(every, alone=not within)
        last = _last(rows[0].stack[level] for rows in statements.values())
        for rows in statements.values():
            frame = rows[0].stack[level]
            targets = targets_in(frame.text)
            calls, returned = self._called.at(rows, level, around)
            given = words_given(frame.text)
            whole = tuple(
                name
                for name in calls
                if given is not None and name in returned and not given.issuperset(bare([name]))
            )
            # The statements of a function whose results are handed on say more than its name. They
            # stand in place of the call only if they read the same there.
            hands = not frame.text or returned_call(frame.text) in calls
            hands = hands and len(calls) == 1
            alike = hands and self._reads_alike(rows, level, alone=len(statements) == 1)
            called = (
                tuple(self.functions(rows, level, within + 1))
                if within < _WITHIN and not alike
                else ()
            )
            if hands and not called and depth < _DEEP:
                inner = self.inside(rows, level, depth + 1, within)
                yield from inner
                if inner:
                    continue
            returns = frame.text.startswith("return ")
            if targets or calls or returns:
                yield StatementWords(
                    targets,
                    whole or calls,
                    equations=sum(one.eqn.primitive not in _ARRANGING for one in rows),
                    runs=bool(calls) or any(is_loop(one.eqn) for one in rows),
                    whole=bool(whole or not calls),
                    source=frame.text,
                    within=called,
                    hands=hands,
                    loops=frame.loops,
                    numbers=numbers_in(frame, (one.eqn for one in rows)),
                    result=returns
                    or frame.place == last
                    or not leaving.isdisjoint(id(one.eqn) for one in rows),
                    place=frame.place,
                )

    def _reads_alike(self, rows: Sequence[Read], level: int, alone: bool) -> bool:
        """Whether a `return` reads the same as the lines of the function that it calls.

        Nothing else is then in its function, and it has given its variables the same names.

        Args:
            rows: The equations of the `return`.
            level: Its level in their stacks.
            alone: Whether its function has no other statement.
        """
        text = rows[0].stack[level].text
        if not text:
            return True
        names = names_handed(text) if alone else None
        if names is None:
            return False
        inner = {one.stack[at].text for one, at in self._running(rows, level)}
        return names.issubset(re.findall(r"\w+", " ".join(inner)))

    def inside(
        self, rows: Sequence[Read], level: int, depth: int, within: int
    ) -> list[StatementWords]:
        """The statements of the functions that one at a level of the stacks calls."""
        inner = self.function(rows, level + 1, depth, within)
        for one in rows:
            inner += self.nested(one.eqn, depth, within) if len(one.stack) == level + 1 else ()
        return inner

    def _read(self, nested: introspect.Nested, eqn: introspect.JaxprEqn) -> list[Read]:
        """The equations of a nested jaxpr of an equation."""
        if self._is_backward(eqn):
            self._backward.update(map(id, nested.jaxpr.eqns))
        self._results.update(map(id, nested.jaxpr.outvars))
        return [read(one) for one in nested.jaxpr.eqns[:READ]]

    def _leaving(self, every: Sequence[Read], alone: bool) -> set[int]:
        """The ids of the equations which make a result of a jaxpr.

        If they are `alone`, values that none of them takes are results, too. A function in others
        may have kept such values for its derivative.
        """
        taken = {id(atom) for one in every for atom in one.eqn.invars} if alone else None
        return {
            id(one.eqn)
            for one in every
            for var in one.eqn.outvars
            if id(var) in self._results or (taken is not None and id(var) not in taken)
        }

    def functions(self, rows: Sequence[Read], level: int, within: int) -> Iterator[FunctionWords]:
        """The functions of the user's that run next in a statement at a level of the stacks."""
        made: dict[tuple[str, int], dict[int, list[Read]]] = {}
        for one, at in self._running(rows, level):
            frame = one.stack[at]
            made.setdefault((frame.file, frame.begins), {}).setdefault(at, []).append(one)
        for place, by_level in made.items():
            said = [
                one for at, own in by_level.items() for one in self.function(own, at, within=within)
            ]
            frame = next((own[0].stack[at] for at, own in by_level.items()))
            around = frame.function.replace("<locals>.", "")
            if said:
                yield FunctionWords(name_of(frame), around, place, tuple(_unlike(said)))

    def _running(self, rows: Iterable[Read], level: int) -> Iterator[tuple[Read, int]]:
        """The equations of the functions that run next, each with the level of its function."""
        for one in rows:
            above = range(level + 1, len(one.stack))
            at = next((k for k in above if name_of(one.stack[k])), None)
            if at is not None:
                yield one, at
            elif len(one.stack) == level + 1:
                for nested in introspect.nested_jaxprs(one.eqn):
                    if _is_idle(nested, one.eqn):
                        continue
                    every = self._read(nested, one.eqn)
                    if not is_of_library(nested, one.eqn):
                        ids = {*map(id, in_root(every))}
                        every = [inner for inner in every if id(inner) in ids or not inner.stack]
                    yield from self._running(every, -1)

    def nested(self, eqn: introspect.JaxprEqn, depth: int, within: int = 0) -> list[StatementWords]:
        """The statements in the nested jaxprs of an equation."""
        said = self._said.of(eqn, lambda _: {})
        if (depth, within) not in said:
            said[depth, within] = [*self._read_nested(eqn, depth, within)]
        return said[depth, within]

    def _read_nested(
        self, eqn: introspect.JaxprEqn, depth: int, within: int
    ) -> Iterator[StatementWords]:
        called: dict[str, None] = {}
        branches: dict[str, list[StatementWords]] = {}
        for nested in introspect.nested_jaxprs(eqn):
            if _is_idle(nested, eqn):
                continue
            every = self._read(nested, eqn)
            names = self._called.of(nested, eqn, transformed(nested.jaxpr.eqns[:READ]))
            text = next((one.text for one in introspect.statements_of(eqn)), "")
            told = {*re.findall(r"\w+", text)}.issuperset(bare(names))
            own = in_root(every)
            said = self.function(own, 0, depth, within)
            if said and len(own) < sum(bool(one.stack) for one in every):
                said.append(MORE)
            if said and (told or not is_of_library(nested, eqn)):
                branches[key_of(nested)] = said
            else:
                called |= dict.fromkeys(names)
        for key, said in branches.items():
            several = eqn.primitive is p.cond_p and len(branches) > 1
            yield from (one._replace(branch=key) for one in said) if several else said
        if called:
            yield StatementWords((), tuple(called), runs=True)


def _is_idle(nested: introspect.Nested, eqn: introspect.JaxprEqn) -> bool:
    """Whether a nested jaxpr is a rule, runs never, or is the condition of a loop."""
    return bool(nested.rule or nested.idle or (eqn.primitive is p.while_p and not nested.back))


def _last(frames: Iterable[introspect.Statement]) -> tuple[int, ...]:
    """The place of the last statement of a function."""
    return max((frame.place for frame in frames), default=())
