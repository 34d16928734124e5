"""Group consecutive equations of flat code, and name the groups.

From the outside in: forward and backward pass; the scopes of the name stack, which come from
modules and `jax.named_scope`; in programs that are too long to be read equation by equation, the
statements of the user's source, with the called functions' statements, and their expressions; and
finally runs of equations. Three or more repetitions become a group.

Invariants: a group has consecutive equations, so groups never form a cycle and the jaxpr's text
folds in the same way. Groups depend only on the number and source of equations that are no tags, so
neither tags nor folding changes them.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._closed.flags import flags_of
from taxpr_jupyter._tree.arrange import MANY, Arranger
from taxpr_jupyter._tree.call_stacks import Units
from taxpr_jupyter._tree.repeats import repeat_in
from taxpr_jupyter._tree.source_steps import SourceStep
from taxpr_jupyter._tree.tree import SOURCE, Item

_PASSES = 12  # more changes between forward and backward than this are no passes
_ALIKE = 3  # so many in a row that fill an array with a number, or that a library needs
_SHORT = 8  # so many equations of a statement need no further order


class Groups:
    """Groups the equations of one jaxpr.

    Args:
        items: An item for each equation.
        home: The address of the jaxpr.
        few: So many equations need no further order; and no more items are on one level.
        keys: Numbers equations.
        plain: Whether the program is so short that it is shown equation by equation.
        of_library: Whether a library traced the jaxpr, and not the user.
        graph: The graph of the jaxpr.
    """

    def __init__(
        self,
        items: Sequence[Item],
        home: taxpr.Address,
        few: int,
        keys: Keys,
        plain: bool,
        of_library: bool,
        graph: DefUse,
    ) -> None:
        self._of_library = of_library
        self._items = items
        self._few = few
        self._plain = plain
        self._units = Units(items, keys, graph)
        self._make = Arranger(items, self._units, home, few, keys)
        # Groups of either pass by what they are groups of, to tell which belong together.
        self._made: dict[tuple[str, Any], list[Item]] = {}

    def items(self) -> Sequence[Item]:
        """The items, in groups."""
        if not len(self._units):
            return self._items
        made = [*self._items[: self._units.starts[0]], *self._by_callback()]
        for (name, what), items in self._made.items():
            forward = self._made.get(("forward", what))
            if name == "backward" and forward:
                # The backward pass goes through what repeats itself from its end.
                alike = forward[::-1] if len(forward) == len(items) else forward[:1] * len(items)
                for item, partner in zip(items, alike, strict=True):
                    item.forward = partner.address
        return self._in_one_call(made)

    def _in_one_call(self, items: list[Item]) -> list[Item]:
        """Makes one group of all items, if they are a library's call that runs user functions."""
        stop = len(self._units)
        call = None if self._plain or len(items) == 1 else self._units.library_call(0, stop)
        if call is None or not any(map(self._units.runs_users, range(stop))):
            return items
        return [self._make.group(call.kind, call.title, 0, stop, items)]

    # --- calls by a library -----------------------------------------------------------------------

    def _by_callback(self) -> list[Item]:
        """Each call of a function of the user's by the library that traced the jaxpr is a group."""
        stop = len(self._units)

        def callback(unit: int) -> SourceStep | None:
            step = self._units.step(unit, 0)
            return step if step and step.kind == "callback" else None

        runs = _runs(0, stop, callback) if self._of_library else []
        if all(step is None for step, _, _ in runs):
            return self._by_pass(0, stop)
        made: list[Item] = []
        for step, a, b in runs:
            made += [self._called(step, a, b, 0)] if step else self._by_scope(a, b, 0)
        return self._make.arranged(made, 0)

    def _called(self, step: SourceStep, start: int, stop: int, depth: int) -> Item:
        """A call of a function of the user's, which is the step at this depth."""
        inner = self._units.shared_step(start, stop, depth + 1)
        if inner is None or inner.kind != "statement":
            inner = step
        if stop - start == 1:
            [item, *_] = self._units.items(start, stop)
            item.title = inner.title
        else:
            children = self._by_scope(start, stop, 0)
            item = self._make.group(inner.kind, inner.title, start, stop, children)
        item.note = "" if inner is step else step.title
        item.called, item.function = step.title, step.key
        return item

    # --- passes -----------------------------------------------------------------------------------

    def _by_pass(self, start: int, stop: int) -> list[Item]:
        passes = self._units.passes
        if "backward" in passes:
            self._units.join_passes()
        runs = _runs(start, stop, passes.__getitem__)
        if "backward" not in passes or len(runs) > _PASSES:
            return self._by_scope(start, stop, 0)
        made: list[Item] = []
        titled: dict[str, list[Item]] = {}
        for name, a, b in runs:
            children = self._by_scope(a, b, 0)
            if name and b - a > 1 and len(runs) > 1:
                function = self._units.functions(a, b)
                title = f"{name} pass" + (f" of {function}" if function else "")
                call = self._units.library_call(a, b)
                inside = call is not None and call.function  # it is all that the function does
                note = call.title.removeprefix("∂ ") if call and inside else ""
                children = [self._make.group("pass", title, a, b, children, note)]
                titled.setdefault(title + note, []).extend(children)
            elif b - a > 1 and not name and len(runs) > 1:
                shared = self._units.common_steps(start, stop)
                call = self._units.library_call(a, b) or self._units.statement(a, b, shared)
                if call and not self._plain:
                    group = self._make.group(call.kind, call.title, a, b, children)
                    group.parts = self._units.updates(a, b)
                    children = [group]
            made += children
        for several in titled.values():
            _number(several)
        return self._make.arranged(made, start)

    # --- scopes -----------------------------------------------------------------------------------

    def _by_scope(self, start: int, stop: int, depth: int) -> list[Item]:
        runs = self._scope_runs(start, stop, depth)
        if len(runs) == 1:
            return (
                self._by_source(start, stop, 0)
                if runs[0][0] is None
                else self._by_scope(start, stop, depth + 1)
            )
        level = 0 if self._plain else self._units.common_steps(start, stop)
        around = [] if self._plain else self._around_scopes(start, stop, depth, level)
        made: list[Item] = []
        parts: dict[SourceStep, list[Item]] = {}
        at = start
        for step, a, b in around:
            made += self._beside_scopes(at, a, depth, level, (start, stop))
            part = self._made_by(step, a, b, level, self._by_scope(a, b, depth))
            parts.setdefault(step, []).append(part)
            made.append(part)
            at = b
        made += self._beside_scopes(at, stop, depth, level, (start, stop))
        for several in parts.values():
            _tell_apart(several)
        return self._make.arranged(made, start)

    def _around_scopes(
        self, start: int, stop: int, depth: int, level: int
    ) -> list[tuple[SourceStep, int, int]]:
        """The statements, and where they are, that call a function which is no scope itself.

        Such as a module of the user's without a scope, with layers of a library that have one.
        """
        found: list[tuple[SourceStep, int, int]] = []
        scopes = self._units.scopes
        for step, a, b in self._units.step_runs(start, stop, level):
            loose = [unit for unit in range(a, b) if len(scopes[unit]) <= depth]
            if (
                step is not None
                and step.kind in SOURCE
                and 0 < len(loose) < b - a
                and any(self._units.is_called(unit, level) for unit in loose)
                and not any(
                    scopes[k - 1][depth:] and scopes[k - 1][depth:][:1] == scopes[k][depth:][:1]
                    for k in (a, b)
                    if start < k < stop  # a scope goes on behind the statement
                )
            ):
                found.append((step, a, b))
        return found

    def _scope_runs(self, start: int, stop: int, depth: int) -> list[tuple[str | None, int, int]]:
        """The runs of units with the same scope at this depth: its name or None, start, stop."""

        def name_of(unit: int) -> str | None:
            scopes = self._units.scopes[unit]
            return scopes[depth] if depth < len(scopes) else None

        return _runs(start, stop, name_of)

    def _beside_scopes(
        self, start: int, stop: int, depth: int, level: int, whole: tuple[int, int]
    ) -> list[Item]:
        """Groups some units by their scopes, and those between these by the source."""
        if start == stop:
            return []
        made: list[Item] = []
        runs = self._scope_runs(start, stop, depth)
        for in_scope, i, j in _several(runs):
            if not in_scope:
                a, b = runs[i][1], runs[j - 1][2]
                made += self._by_source(a, b, level, beside=whole)
                for name, a, _ in runs[i:j]:  # a module with one equation, such as a convolution
                    [item, *_] = self._units.items(a, a + 1)
                    if name and not (self._plain or item.title):
                        name = "/".join(self._units.scopes[a][depth:])
                        item.title, _ = self._units.scope_title(a, a + 1, name)
                continue
            for _, a, b in runs[i:j]:
                deeper = self._units.common_depth(a, b, depth + 1)
                name = "/".join(self._units.scopes[a][depth:deeper])
                title, note = self._units.scope_title(a, b, name)
                if not (note or depth):
                    note = flags_of(self._units.eqns[a:b], name.partition("/")[0])
                group = self._make.group("scope", title, a, b, self._by_scope(a, b, deeper), note)
                self._note(group, a, self._units.scopes[a][:deeper])
                made.append(group)
        return made

    # --- loose code -------------------------------------------------------------------------------

    def _by_source(
        self,
        start: int,
        stop: int,
        depth: int,
        inside: bool = False,
        loop: str | None = None,
        beside: tuple[int, int] | None = None,
    ) -> list[Item]:
        """Groups code without scopes, if it is long, by the statements that it comes from.

        Args:
            start: The first unit.
            stop: The one behind the last.
            depth: How many steps they have in common.
            inside: Whether this is inside of a statement.
            loop: The title of repetitions in them, if a loop around them is known.
            beside: For units between scopes, the begin and the end of the whole. The common steps
                are told, too.
        """
        if self._plain:
            return self._loose(start, stop)
        runs = self._units.step_runs(start, stop, depth)
        while len(runs) == 1 and runs[0][0] is not None and beside is None:
            loop = runs[0][0].title if runs[0][0].kind == "loop" else None
            depth += 1
            runs = self._units.step_runs(start, stop, depth)
        if beside is None and (mapped := self._mapped(start, stop, depth)):
            return [mapped]
        if inside and stop - start <= _SHORT and not self._units.any_moved(start, stop):
            return self._beside_users(start, stop)
        if len(runs) == 1 and runs[0][0] is None:
            return self._repeated(start, stop)
        made: list[Item] = []
        parts: dict[SourceStep, list[Item]] = {}
        for step, a, b in runs:
            if step is None:
                items = self._repeated(a, b)
                made += [self._make.run(a, b, items)] if self._is_plumbing(a, b, items) else items
                continue
            if beside and self._goes_on(step, a, b, depth, *beside):
                made += self._by_source(a, b, depth + 1, beside=beside)
                continue
            if step.kind == "callback":
                items = [part := self._called(step, a, b, depth)]
            elif b - a == 1:
                items = self._units.items(a, b)
                part = items[0]
                part.title = step.title if step.kind != "function" else ""
            else:
                is_loop = step.kind == "loop"  # its title stands around what repeats itself
                children = self._by_source(a, b, depth + 1, not is_loop, "" if is_loop else None)
                items = [part := self._made_by(step, a, b, depth, children)]
            if step.kind in ("statement", "expression") and self._units.follows_rule(a, b, depth):
                part.note = "custom rule"
            moved, loop_of = self._units.moved_out(a, b)
            if moved:
                part.title, part.note = moved, f"moved out of the {loop_of}"
            parts.setdefault(step, []).append(part)
            made += items
        arranged = self._make.arranged(made, start)
        repeats = [item for item in arranged if item.kind == "repeat"]
        for item in repeats:
            item.title = item.title if loop is None else loop
        for several in parts.values() if not repeats else ():
            _tell_apart(several)
        if not repeats:
            self._name_parts(start, stop, depth)
        runs_in = any(item.kind == "run" for item in arranged)
        if loop and not (repeats or runs_in) and len(arranged) > 1:  # its title is around all
            return [self._make.group("loop", loop, start, stop, arranged)]
        return arranged

    def _name_parts(self, start: int, stop: int, depth: int) -> None:
        """Calls single equations, which are parts of a statement, by their expressions.

        Such as `jnp.zeros((2, 8))` of `lax.scan(cell, jnp.zeros((2, 8)), xs)`; but not those that a
        comprehension repeats.
        """
        expressions = self._units.whole_expressions(start, stop, depth)
        times = Counter(expressions.values())
        for unit, title in expressions.items():
            [item, *_] = self._units.items(unit, unit + 1)
            item.title = item.title or (title if times[title] == 1 else "")

    def _made_by(
        self, step: SourceStep, start: int, stop: int, depth: int, children: Sequence[Item]
    ) -> Item:
        """The group of some units that the step at this depth makes."""
        note = step.note or self._units.called(start, stop, depth)
        part = self._make.group(step.kind, step.title, start, stop, children, note)
        part.parts = self._units.updates(start, stop)
        steps = self._units.paths[start][: depth + 1]
        self._note(part, start, tuple(one.key[:-1] for one in steps))
        return part

    def _mapped(self, start: int, stop: int, depth: int) -> Item | None:
        """A group of calls of one function for several values, as `jax.tree.map` makes.

        None if the units are something else.

        Args:
            start: The first unit.
            stop: The one behind the last.
            depth: How many steps they have in common.
        """
        title, period = self._units.mapped(start, stop, depth)
        if not period:
            return None
        spans = [(at, at + period) for at in range(start, stop, period)]
        parts = [self._by_source(a, b, depth, inside=True) for a, b in spans]
        note = f"{len(parts)} times"
        if len(parts) >= MANY:
            children = self._make.repeat(parts, spans, of_place=True).children
        elif period == 1:
            children = [item for part in parts for item in part]
        else:
            children = [
                self._make.group("once", title, a, b, part, f"{k + 1} of {len(parts)}")
                for k, (part, (a, b)) in enumerate(zip(parts, spans, strict=True))
            ]
        return self._make.group("statement", title, start, stop, children, note)

    def _goes_on(self, step: SourceStep, a: int, b: int, depth: int, first: int, last: int) -> bool:
        """Whether the rest of a statement or expression is in a scope beside it."""
        beside = [unit for unit in (a - 1, b) if first <= unit < last]
        return step.kind in SOURCE and any(self._units.step(unit, depth) == step for unit in beside)

    def _is_plumbing(self, start: int, stop: int, items: Sequence[Item]) -> bool:
        """Whether these are several equations of libraries, beside the functions that they call."""
        eqns = self._units.eqns[start:stop]
        sources = [(one, eqn) for eqn in eqns if (one := introspect.source_of(eqn))]
        return (
            len(sources) >= _ALIKE
            and all(introspect.is_library_file(one.file, eqn) for one, eqn in sources)
            and not any(map(self._make.has_name, items))
        )

    def _beside_users(self, start: int, stop: int) -> list[Item]:
        """Equations one by one; beside the user's code a library's make groups."""
        runs = _runs(start, stop, self._units.is_of_library)
        if not any(map(self._units.runs_users, range(start, stop))):
            return self._loose(start, stop)
        made: list[Item] = []
        for of_library, a, b in runs:
            items = self._loose(a, b)
            made += [self._make.run(a, b, items)] if of_library and b - a >= _ALIKE else items
        self._name_parts(start, stop, self._units.common_steps(start, stop))
        return made

    def _repeated(self, start: int, stop: int) -> list[Item]:
        """Groups equations from one place by their repetitions."""
        repeat = repeat_in(self._units.keys(start, stop))
        covered = repeat.period * repeat.times if repeat else 0
        if repeat and stop - start <= self._few and repeat.period == 1:
            repeat = None  # a chain of equations, which can be read
        if repeat is None or covered <= max(self._few // 2, (stop - start) // 4):
            return self._make.arranged(self._beside_users(start, stop), start)
        first, period = start + repeat.start, repeat.period
        spans = [(at, at + period) for at in range(first, start + repeat.stop, period)]
        parts = [self._repeated(a, b) for a, b in spans]
        whole = self._make.repeat(parts, spans, self._units.function(first, spans[-1][1]))
        before, after = self._repeated(start, first), self._repeated(start + repeat.stop, stop)
        return self._make.arranged([*before, whole, *after], start)

    def _loose(self, start: int, stop: int) -> list[Item]:
        """Equations one by one; those in a row that fill arrays with one number are together."""
        made: list[Item] = []
        for filling, a, b in _runs(start, stop, self._units.filling):
            items = self._units.items(a, b)
            if filling and b - a >= _ALIKE and b - a < stop - start:
                items = [self._make.group("run", filling, a, b, items)]
            made += items
        return made

    def _note(self, group: Item, unit: int, what: Any) -> None:
        self._made.setdefault((self._units.passes[unit], what), []).append(group)


def _tell_apart(parts: Sequence[Item]) -> None:
    """Numbers the separate parts of a statement; single equations among them keep their names.

    The only loop or call among them has the title of the statement.
    """
    main = [part for part in parts if part.is_group or introspect.is_hop(part.eqn)]
    for part in parts if len(parts) > 1 else ():
        if not part.is_group and main != [part]:
            part.title = ""
    _number([part for part in parts if part.is_group and not part.note])


def _number(parts: Sequence[Item]) -> None:
    """Numbers parts that have one title."""
    for k, part in enumerate(parts if len(parts) > 1 else (), 1):
        number = f"{k} of {len(parts)}"
        part.note = f"{part.note}, {number}" if part.note else number


def _runs(start: int, stop: int, key_of: Callable[[int], Any]) -> list[tuple[Any, int, int]]:
    """The runs of equal keys: key, start, stop."""
    runs = []
    for key, found in itertools.groupby(range(start, stop), key_of):
        units = list(found)
        runs.append((key, units[0], units[-1] + 1))
    return runs


def _several(runs: Sequence[tuple[Any, int, int]]) -> list[tuple[bool, int, int]]:
    """Which runs make groups: those with a key. One equation belongs to the loose ones around."""
    return _runs(0, len(runs), lambda i: runs[i][0] is not None and runs[i][2] - runs[i][1] > 1)
