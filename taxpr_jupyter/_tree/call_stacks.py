"""The equations of one jaxpr with their scopes and call stacks, to group them."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.sizes import is_loop
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._closed.optimizers import PARTITIONS
from taxpr_jupyter._text import short
from taxpr_jupyter._text.operations import OPERATIONS, Operation
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.rules import is_of_rule
from taxpr_jupyter._tree.source_steps import (
    SourceStep,
    call_around,
    common,
    derivative_title,
    part_title,
    places_of,
    steps_of,
    update_by,
    without_expressions,
)
from taxpr_jupyter._tree.tree import Item

_NUMBERS = re.compile(r"\d+(/\d+)*")
_CHOICE = re.compile(r"\bif\b.*\belse\b", re.DOTALL)
_CALL = re.compile(r"(?:\w+\.)*(\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)")  # without more behind it
_FILLS = re.compile(r"(zeros|ones|full)(_like)?")
_MAKES = re.compile(r"(zeros|ones|full|empty)(_like)?|array|asarray|broadcast_to")
_DOTTED = re.compile(r"\w+(\.\w+)+")


class Units:
    """Units: equations that are no tags, each with the tags behind it.

    Attributes:
        eqns: The equation of each unit.
        starts: The position in the items where each unit starts, and at last where they end.
        passes: For each unit "forward" or "backward", see `pass_of`, or "".
        scopes: The scopes of each unit, outermost first.
    """

    def __init__(self, items: Sequence[Item], keys: Keys, graph: DefUse) -> None:
        self._items = items
        self._keys = keys
        self._graph = graph
        self.starts = [i for i, item in enumerate(items) if not introspect.is_tag(item.eqn)]
        self.eqns = [items[i].eqn for i in self.starts]
        self.starts.append(len(items))
        self.passes = _passes(self.eqns, bool(items) and items[0].within_backward)
        self.scopes = [_scopes(eqn) for eqn in self.eqns]
        loops = [unit for unit, eqn in enumerate(self.eqns) if is_loop(eqn)]
        self._moved = self._moved_out_of(loops, libraries=False)
        self._loops = self._moved | self._moved_out_of(loops, libraries=True)
        for unit, loop in self._loops.items():  # they stand in the statement with the loop
            self.passes[unit], self.scopes[unit] = self.passes[loop], self.scopes[loop]
        self._idle = [unit for unit in range(1, len(self)) if self._is_left_over(unit)]
        for unit in self._idle:
            self.passes[unit], self.scopes[unit] = self.passes[unit - 1], self.scopes[unit - 1]
        self._numbers: list[int] = []
        self._left: dict[int, set[tuple[Any, ...]]] = {}  # by loop, see `_left_in`
        self._ruled: set[int] = set()  # units that a rule of the user's made, see `paths`

    def __len__(self) -> int:
        return len(self.eqns)

    def _is_left_over(self, unit: int) -> bool:
        """Whether JAX made an array of one number for a derivative, which does not use it."""
        eqn = self.eqns[unit]
        derived = {"jvp", "transpose"}.intersection(introspect.transformations_of(eqn))
        if not (derived and labels.fills(eqn)):
            return False
        users = itertools.chain.from_iterable(map(self._graph.users, eqn.outvars))
        written = (one.expression for one in introspect.statements_of(eqn)[:1])
        calls = (_CALL.fullmatch(text) for text in written)
        is_users = any(call and _MAKES.fullmatch(call[1]) for call in calls)
        return not is_users and next(users, None) is None

    def items(self, start: int, stop: int) -> list[Item]:
        """The items of some units, tags included."""
        return list(self._items[self.starts[start] : self.starts[stop]])

    def key(self, unit: int) -> int:
        """A number that units share which compute the same way."""
        return self.keys(unit, unit + 1)[0]

    def keys(self, start: int, stop: int) -> list[int]:
        """That of some units: groups are looked for at many levels."""
        if not self._numbers:
            self._numbers = [self._keys.alike(eqn) for eqn in self.eqns]
        return self._numbers[start:stop]

    @functools.cached_property
    def codes(self) -> list[int]:
        """A number for each unit, the same for one place in the source, whatever the shapes are."""
        found: dict[tuple[Any, ...], int] = {}
        return [
            found.setdefault((eqn.primitive, path), len(found))
            for eqn, path in zip(self.eqns, self.paths, strict=True)
        ]

    def common_depth(self, start: int, stop: int, depth: int) -> int:
        """How many scopes all have in common."""
        first = self.scopes[start]
        while depth < len(first) and all(
            scopes[depth : depth + 1] == first[depth : depth + 1]
            for scopes in self.scopes[start:stop]
        ):
            depth += 1
        return depth

    def filling(self, unit: int) -> str:
        """`broadcast_in_dim(0.0)`, of an equation that fills an array with a number; else ""."""
        eqn = self.eqns[unit]
        return labels.operation_lines(eqn)[0] if labels.fills(eqn) else ""

    # --- where they come from ---------------------------------------------------------------------

    @functools.cached_property
    def paths(self) -> list[tuple[SourceStep, ...]]:
        """For each unit the steps of the user's source that led to it, outermost first."""
        known: dict[Any, tuple[tuple[SourceStep, ...], bool]] = {}
        steps: dict[SourceStep, SourceStep] = {}  # each once, as they are compared often
        paths: list[tuple[SourceStep, ...]] = []
        for unit, eqn in enumerate(self.eqns):
            # Many equations have equal tracebacks, and to read the frames of one takes long.
            key = derived, _ = self._is_derivative(unit), eqn.source_info.traceback
            found = known.get(key)
            if found is None:
                stack = introspect.statements_of(eqn, libraries=True, rules=False)
                made = (steps.setdefault(step, step) for step in steps_of(stack, derived))
                found = known[key] = tuple(made), derived and is_of_rule(eqn)
            paths.append(found[0])
            if found[1]:
                self._ruled.add(unit)
        for unit, loop in self._loops.items():
            around = paths[loop]
            if unit in self._moved:  # in the statement of the loop, beside its expression
                around = without_expressions(around)
            paths[unit] = (*around, *paths[unit])
        self._leave_sums_out(paths)
        for unit in self._idle:  # what JAX has left over is with the equation before it
            paths[unit] = paths[unit - 1]
        return paths

    def _moved_out_of(self, loops: Sequence[int], libraries: bool) -> dict[int, int]:
        """For each unit that JAX moved out of the body of a loop, the unit of the loop.

        In a jaxpr of its own the frames of a body begin with its function; with ``libraries``, with
        a function of the library that has the loop. All else begins with the one of this jaxpr.
        """
        own = {_outermost(self.eqns[loop], libraries) for loop in loops}
        bodies: dict[tuple[str, str] | None, list[int]] = {}
        for loop in loops:
            eqn = self.eqns[loop]
            for body in _bodies(eqn, libraries):
                if body not in own and (not libraries or introspect.is_library_file(body[1], eqn)):
                    bodies.setdefault(body, []).append(loop)
        moved: dict[int, int] = {}
        for unit, eqn in enumerate(self.eqns if bodies else ()):
            behind = () if is_loop(eqn) else bodies.get(_outermost(eqn, libraries), ())
            if (loop := next((loop for loop in behind if loop > unit), None)) is not None:
                moved[unit] = loop
        return moved

    def join_passes(self) -> None:
        """Count to a forward pass what has no derivative in the middle of it, such as a mask."""
        runs = [(name, len(list(same))) for name, same in itertools.groupby(self.passes)]
        ends = [0, *itertools.accumulate(size for _, size in runs)]
        for k in range(1, len(runs) - 1):
            around = [runs[k - 1][0], runs[k][0], runs[k + 1][0]]
            if around != ["forward", "", "forward"]:
                continue
            before, (start, stop), behind = itertools.pairwise(ends[k - 1 : k + 3])
            if self._is_one_pass(before, (start, stop), behind):
                self.passes[start:stop] = ["forward"] * (stop - start)

    def _is_one_pass(self, *spans: tuple[int, int]) -> bool:
        """Whether the function that is differentiated made all of these units.

        They have functions in common, or a statement, which calls it; or it is the function of
        this jaxpr, in which the first units are, too, and not in something that it calls.
        """
        (start, _), (_, stop) = spans[0], spans[-1]
        if self.functions(start, stop) or self.statement(start, stop, 0):
            return True
        direct = {
            path[0]
            for a, b in (spans[0], spans[-1])
            for path in self._distinct(a, b)
            if path and [step.kind for step in path if step.kind != "expression"] == ["statement"]
        }
        return len(direct) > 1

    def _leave_sums_out(self, paths: list[tuple[SourceStep, ...]]) -> None:
        """Take sums of cotangents out of a statement that makes only one of the two.

        JAX makes them with the last use of a value, but they are the cotangent of all of its uses.
        """
        sums = [
            unit
            for unit, eqn in enumerate(self.eqns)
            if eqn.primitive is p.add_jaxvals_p and self._is_derivative(unit)
        ]
        made = {var: k for k, eqn in enumerate(self.eqns) for var in eqn.outvars} if sums else {}
        for unit in reversed(sums):
            path = paths[unit]
            depth = len(path)
            while depth and path[depth - 1].kind != "statement":
                depth -= 1
            if unit + 1 < len(paths) and paths[unit + 1][:depth] == path[:depth]:
                continue  # it is in the middle of the statement
            for atom in self.eqns[unit].invars:
                if not introspect.is_literal(atom) and atom not in made:
                    continue  # it comes from outside of the jaxpr, such as a sum that a loop keeps
                beside = () if introspect.is_literal(atom) else paths[made[atom]]
                path = path if path == beside else path[: common(path, beside)]
            paths[unit] = path

    def follows_rule(self, start: int, stop: int, depth: int) -> bool:
        """Whether a rule of the user's made some of the units, itself at this depth."""
        if not self._ruled:
            return False
        ends = 2 if self.paths[start][depth].kind == "statement" else 1
        ruled = self._ruled.intersection(range(start, stop))
        return any(len(self.paths[unit]) - depth <= ends for unit in ruled)

    def scope_title(self, start: int, stop: int, name: str) -> tuple[str, str]:
        """The title and the note of a scope.

        `eqx.nn.Linear` says what is called, the user's source also which one: `self.embed(x)`. A
        layer of penzai, which is called `0`, has its class, too: `0 · Linear`.
        """
        derived = all(map(self._is_derivative, range(start, stop)))
        if _NUMBERS.fullmatch(name):
            steps = reversed(self.paths[start][: self.common_steps(start, stop)])
            called = (step.title.split(".") for step in steps if step.kind == "function")
            kind = next((some[-2] for some in called if some[1:] and some[-1] == "__call__"), "")
            name = f"{name} · {kind}" if kind else name
        library = all(path[-1:] and path[-1].kind == "function" for path in self.paths[start:stop])
        if not (_DOTTED.fullmatch(name) and library):
            return derivative_title(name, derived), ""
        steps = self.paths[start][: self.common_steps(start, stop)]
        found = [k for k, step in enumerate(steps) if step.kind in ("statement", "expression")]
        if not found:
            return derivative_title(name, derived), ""
        at = found[-1]
        beside = [unit for unit in (start - 1, stop) if 0 <= unit < len(self)]
        if any(self.step(unit, at) == steps[at] for unit in beside):
            return derivative_title(name, derived), ""  # several modules are in this call
        if at - 1 in found and steps[at].kind == "expression":
            whole = all(self.step(unit, at - 1) != steps[at - 1] for unit in beside)
            at -= whole  # the expression is all of the statement
        return steps[at].title, name

    def _is_derivative(self, unit: int) -> bool:
        item = self._items[self.starts[unit]]
        backward = item.within_backward or self.passes[unit] == "backward"
        return backward and not item.is_recomputed

    def step(self, unit: int, depth: int) -> SourceStep | None:
        """One of these steps; None where there are fewer."""
        path = self.paths[unit]
        return path[depth] if depth < len(path) else None

    def whole_expressions(self, start: int, stop: int, depth: int) -> dict[int, str]:
        """The calls of functions in a statement that made a single unit each, by unit.

        Other expressions may have made only a part of a derivative here, as `x ** 2` made `2 * x`.

        Args:
            start: The first unit.
            stop: The one behind the last.
            depth: How many steps lead to the statement, itself included.
        """
        paths = self.paths[start:stop]
        times = Counter(id(path[depth]) for path in paths if len(path) > depth)
        steps = ((k, path[depth]) for k, path in enumerate(paths, start) if len(path) > depth)
        return {
            unit: step.title
            for unit, step in steps
            if step.kind == "expression" and times[id(step)] == 1
            if _calls(step.title, self.eqns[unit], self._is_derivative(unit))
        }

    def is_called(self, unit: int, depth: int) -> bool:
        """Whether a function of the user's that the step at this depth calls made a unit."""
        return any(step.kind == "statement" for step in self.paths[unit][depth + 1 :])

    def step_runs(
        self, start: int, stop: int, depth: int
    ) -> list[tuple[SourceStep | None, int, int]]:
        """The runs of units with the same step: the step, the start and the stop."""
        steps = [path[depth] if depth < len(path) else None for path in self.paths[start:stop]]
        runs: list[tuple[SourceStep | None, int, int]] = []
        for step, same in itertools.groupby(steps):  # each is there once, so that `is` decides
            begin, start = start, start + len(list(same))
            runs.append((step, begin, start))
        return runs

    def mapped(self, start: int, stop: int, depth: int) -> tuple[str, int]:
        """The statement of a function that one expression calls for each of several values.

        As by `jax.tree.map` or in a comprehension: the calls are alike but for shapes, and none
        takes what another one gives.

        Args:
            start: The first unit.
            stop: The one behind the last.
            depth: How many steps they have in common.

        Returns:
            Its only statement, or its name, and the number of units of a call; ("", 0) if there is
            no such function, or one call.
        """
        steps = self.paths[start][:depth]
        called = {self.step(unit, depth) for unit in range(start, stop)}
        names = {step.function if step else "" for step in called}
        inside = [step for step in steps if step.kind == "statement"]
        if any(start <= unit < stop for unit in self._idle):
            return "", 0  # which no call made
        if any(step.kind == "loop" for step in steps):
            return "", 0
        if len(inside) > 1 and steps[-1].kind in ("statement", "expression"):
            title = inside[-1].title
        elif len(inside) == 1 and len(names) == 1:
            [title] = names
        else:
            return "", 0
        return title, self._period(start, stop) if title else 0

    def _period(self, start: int, stop: int) -> int:
        """The number of units of a call, if all calls are alike and use no result of another."""
        length, codes = stop - start, self.codes[start:stop]
        for period in range(1, length // 2 + 1):
            if length % period == 0 and codes[:-period] == codes[period:]:
                made = [
                    {var for eqn in self.eqns[at : at + period] for var in eqn.outvars}
                    for at in range(start, stop, period)
                ]
                every = set[Any]().union(*made)
                atoms = (
                    (k // period, atom)
                    for k, eqn in enumerate(self.eqns[start:stop])
                    for atom in eqn.invars
                    if not introspect.is_literal(atom)
                )
                if all(atom in made[k] or atom not in every for k, atom in atoms):
                    return 0 if self._is_several(start, start + period) else period
        return 0

    def _is_several(self, start: int, stop: int) -> bool:
        """Whether this may be several calls that take the two sides of an ``if`` in one line."""
        choices: dict[SourceStep, list[int]] = {}
        for unit in range(start, stop):
            steps = [step for step in self.paths[unit] if step.kind == "statement"]
            if steps and _CHOICE.search(steps[-1].title):
                choices.setdefault(steps[-1], []).append(unit)
        for units in choices.values():
            made = set[Any]()
            for k, unit in enumerate(reversed(units)):  # what a later unit takes is of its call
                if k and made.isdisjoint(self.eqns[unit].outvars):
                    return True
                made.update(a for a in self.eqns[unit].invars if not introspect.is_literal(a))
        return False

    def _distinct(self, start: int, stop: int) -> Iterable[tuple[SourceStep, ...]]:
        """The paths of some units, nearly each once: units of one traceback share a path."""
        paths = self.paths[start:stop]
        return dict(zip(map(id, paths), paths, strict=True)).values()

    def shared_step(self, start: int, stop: int, depth: int) -> SourceStep | None:
        """The step at a depth, if some units have it in common."""
        found = {self.step(unit, depth) for unit in range(start, stop)}
        return found.pop() if len(found) == 1 else None

    def common_steps(self, start: int, stop: int) -> int:
        """How many steps some units have in common."""
        first, *others = self._distinct(start, stop)
        depth = len(first)
        for path in others:
            depth = min(depth, common(first, path))
        return depth

    def moved_out(self, start: int, stop: int) -> tuple[str, str]:
        """The title of units in the body of a loop that JAX computes before it, and `scan`.

        ("", "") of other units.
        """
        loops = {self._moved.get(unit) for unit in range(start, stop)} if self._moved else {None}
        loop = loops.pop() if len(loops) == 1 else None
        if loop is None:
            return "", ""
        depth = self.common_steps(start, stop)
        steps = self.paths[start][:depth]
        parts = [self.step(unit, depth) for unit in range(start, stop)]
        left = self._left_in(loop)
        outside = [
            self.paths[unit]
            for unit, one in self._moved.items()
            if one == loop and not start <= unit < stop
        ]
        # A call that is here as a whole says more than a statement of its function.
        while places_of(steps) not in left:
            call = call_around(steps)
            known = len(call) <= len(without_expressions(self.paths[loop]))
            if (
                known
                or places_of(call) in left
                or any(common(call, p) == len(call) for p in outside)
            ):
                break
            steps = call
        return part_title(steps, parts, left), self.eqns[loop].primitive.name

    def _left_in(self, loop: int) -> set[tuple[Any, ...]]:
        """The places of the steps to each equation that is still in a loop's body, and of these."""
        if loop not in self._left:
            around = places_of(without_expressions(self.paths[loop]))
            stacks = (
                introspect.statements_of(eqn, libraries=True, rules=False)
                for nested in introspect.nested_jaxprs(self.eqns[loop])
                for eqn in nested.jaxpr.eqns
            )
            ways = {places_of(tuple(steps_of(stack, False))) for stack in stacks}
            self._left[loop] = {(*around, *way[: k + 1]) for way in ways for k in range(len(way))}
        return self._left[loop]

    def is_of_library(self, unit: int) -> bool:
        """Whether a library made a unit, with no code of the user's in it."""
        source = introspect.source_of(self.eqns[unit])
        library = source is not None and introspect.is_library_file(source.file, self.eqns[unit])
        return library and not self.runs_users(unit)

    def runs_users(self, unit: int) -> bool:
        """Whether a function of the user's made something inside of a unit."""
        return _runs_users(self.eqns[unit])

    def any_moved(self, start: int, stop: int) -> bool:
        """Whether JAX moved some units out of the body of a loop of the user's."""
        return any(start <= unit < stop for unit in self._moved)

    def library_call(self, start: int, stop: int) -> SourceStep | None:
        """The statement of the user's that called a library for all of some units, if one did."""
        depth = self.common_steps(start, stop)
        steps = [step for step in self.paths[start][:depth] if step.kind in ("statement", "loop")]
        called = all(path[-1:] and path[-1].kind == "function" for path in self.paths[start:stop])
        return steps[-1] if called and steps and steps[-1].kind == "statement" else None

    def statement(self, start: int, stop: int, depth: int) -> SourceStep | None:
        """The step at this depth, if it is a statement that made all of some units."""
        step = self.shared_step(start, stop, depth)
        return step if step and step.kind == "statement" else None

    def functions(self, start: int, stop: int) -> str:
        """`fit › loss`: the user's functions that made all of some units, outermost first."""
        rows = dict.fromkeys(self._distinct(start, stop))
        # A derivative begins and ends in the statement that asks for it.
        outer = {row[:k] for row in rows for k in range(len(row))}
        names = [
            dict.fromkeys(step.function for step in row if step.function)
            for row in rows
            if row not in outer
        ]
        levels = zip(*names, strict=False)
        shared = itertools.takewhile(lambda level: len({*level}) == 1, levels)
        return " › ".join(level[0] for level in shared)

    def called(self, start: int, stop: int, depth: int) -> str:
        """The function of the user's that the step at this depth calls, if it does not name it."""
        found: set[str] = set()
        for path in self._distinct(start, stop):
            if len(path) > depth + 1:
                found.add(next((step.function for step in path[depth + 1 :] if step.function), ""))
            if "" in found or len(found) > 1:
                return ""
        name = next(iter(found), "")
        return "" if name in re.findall(r"\w+", self.paths[start][depth].title) else name

    @functools.cached_property
    def _makers(self) -> dict[int, tuple[str, ...]]:
        """The makers of the parts of an optimizer in each path, by its identity."""
        return {
            id(path): tuple(maker for step in path if (maker := update_by(step)))
            for path in self._distinct(0, len(self.paths))
        }

    def updates(self, start: int, stop: int) -> Sequence[str]:
        """The parts of an optimizer: `clip_by_global_norm`, `scale_by_adam`; () of other units.

        The transformations of several groups of parameters count as a single part:
        `partition of scale_by_adam, scale, add_decayed_weights`.
        """
        rows = dict.fromkeys(self._makers[id(path)] for path in self._distinct(start, stop))
        outer = {row[:k] for row in rows for k in range(len(row))}  # these combine others
        parts: dict[str, dict[str, None]] = {}  # for each the names in it, in order
        for row in rows:
            if row and row not in outer:
                whole = next((name for name in row[:-1] if name in PARTITIONS), row[-1])
                parts.setdefault(whole, {})[row[-1]] = None
        names = [
            f"{whole} of {', '.join(inside)}" if whole in PARTITIONS else whole
            for whole, inside in parts.items()
        ]
        return names if len(names) > 1 or not PARTITIONS.isdisjoint(parts) else ()

    def sources(self, start: int, stop: int) -> list[introspect.Source]:
        """Where equations were made, as far as it is known."""
        found = map(introspect.source_of, self.eqns[start:stop])
        return [source for source in found if source]

    def function(self, start: int, stop: int) -> str:
        """The function that most of some equations are from; of a lambda what it computes."""
        names = Counter(map(short.function_name, self.sources(start, stop)))
        name = names.most_common(1)[0][0] if names else "equations"
        return self.made_by(start, stop) if name == "<lambda>" else name

    def made_by(self, start: int, stop: int) -> str:
        """The innermost step that some equations have in common, such as the body of a lambda."""
        steps = self.paths[start][: self.common_steps(start, stop)]
        return steps[-1].title if steps else "equations"

    def place(self, unit: int) -> tuple[Any, ...]:
        """From where an equation is, from the coarse to the fine: scopes, function, line."""
        source = next(iter(self.sources(unit, unit + 1)), None)
        return self.scopes[unit], source and source.function, source and source.line


def _outermost(eqn: introspect.JaxprEqn, libraries: bool = False) -> tuple[str, str] | None:
    """The user's outermost function that made an equation, or a library's, and its file."""
    frames = introspect.statements_of(eqn, libraries)
    return (frames[-1].function, frames[-1].file) if frames else None


def _runs_users(eqn: introspect.JaxprEqn) -> bool:
    return introspect.is_hop(eqn) and any(
        bool(introspect.statements_of(inner)) or _runs_users(inner)
        for nested in introspect.nested_jaxprs(eqn)
        for inner in nested.jaxpr.eqns
    )


def _bodies(loop: introspect.JaxprEqn, libraries: bool = False) -> Iterator[tuple[str, str]]:
    """The outermost function, and its file, of each jaxpr that a loop repeats."""
    for nested in introspect.nested_jaxprs(loop):
        inner = (_outermost(eqn, libraries) for eqn in nested.jaxpr.eqns if nested.back)
        if body := next(filter(None, inner), None):
            yield body


def _calls(expression: str, eqn: introspect.JaxprEqn, derived: bool) -> bool:
    """Whether an expression calls the function that an equation computes, or its derivative."""
    if short.BLANK in expression:
        return False
    if derived:
        return not labels.fills(eqn)
    call = _CALL.fullmatch(expression)
    if call is None:
        return False
    if labels.fills(eqn):
        return bool(_FILLS.fullmatch(call[1]))
    named = OPERATIONS.get(eqn.primitive, Operation()).function
    return call[1] in (eqn.primitive.name, named)


def _passes(eqns: Sequence[Any], within_backward: bool) -> list[str]:
    """The pass of each equation; none of those that are in one of a backward pass."""
    if within_backward:
        return [""] * len(eqns)
    passes = [pass_of(eqn) for eqn in eqns]
    if "backward" in passes:  # what differentiated its result is no forward pass of it
        end = len(passes) - passes[::-1].index("backward")
        passes[end:] = [""] * (len(passes) - end)
    return passes


def _scopes(eqn: introspect.JaxprEqn) -> tuple[str, ...]:
    """The scopes that people set, without the scopes of `jax.numpy.einsum`, such as `ij,jk->ik`."""
    return tuple(name for name in introspect.scopes_of(eqn) if "->" not in name)
