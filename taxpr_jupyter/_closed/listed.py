"""The user's statements in a closed part of a program, in few words."""

import itertools
import re
import textwrap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.names import function_of, is_of_library
from taxpr_jupyter._analysis.sizes import is_loop
from taxpr_jupyter._closed.branches import key_of
from taxpr_jupyter._closed.running import (
    READ,
    Read,
    hands_on,
    in_root,
    name_of,
    read,
    shared,
    targets_in,
    words_given,
)

# The most lines, of statements in few words and of those as in the source, by the equations of the
# part: a larger one would take more room if it were open.
_LINES: Mapping[int, tuple[int, int]] = {0: (3, 8), 60: (4, 12), 150: (6, 24)}
_LONG = 110  # characters of a statement that is written as in the source
_MOST = 40  # statements: of more, only the most telling ones are looked at
_VARIABLES = 4, 2  # of one assignment: if there is room, and if there is not
_DEEP = 6  # calls in calls that are looked into
_CALLS = 100  # equations: a statement that calls a function says as much as one of so many
# What only arranges values.
_ARRANGING = frozenset(
    {p.broadcast_in_dim_p, p.convert_element_type_p, p.reshape_p, p.slice_p, p.squeeze_p, p.copy_p}
)


class StatementWords(NamedTuple):
    """A statement of the user's in few words.

    Attributes:
        targets: The variables that it assigns; none of a `return` or an expression.
        calls: The user's functions that it calls, with `∂` before one whose derivative it takes.
        telling: How much it says; if there is no room, that with less is left out.
        whole: Whether it assigns the results of the calls themselves.
        branch: The branch of a conditional that it is in; "" if no other branch has any.
        source: The statement as in the source; "" if there are several.
    """

    targets: tuple[str, ...]
    calls: tuple[str, ...] = ()
    telling: int = 0
    whole: bool = True
    branch: str = ""
    source: str = ""

    def text(self, variables: int = _VARIABLES[0]) -> str:
        """`x = push(…)`, `y = … push(…)`, `temperature`, `push(…)`; "" of a `return x + y`."""
        more = ["…"] if len(self.targets) > variables else []
        targets = ", ".join([*self.targets[:variables], *more])
        called = ", ".join(f"{name}(…)" for name in self.calls)
        called = f"… {called}" if targets and called and not self.whole else called
        return " = ".join(filter(None, (targets, called)))


def statements_in(eqns: Iterable[introspect.JaxprEqn]) -> list[StatementWords]:
    """The statements in some equations that one statement or function made, in their order."""
    eqns = [*eqns]
    own = in_root([read(eqn) for eqn in eqns[:READ]])
    level = shared([one.stack for one in own])
    said = [*_of_code(own, level)]
    for one in own if not said else ():  # the statement has loops or calls
        said += _of_nested(one.eqn, 0) if len(one.stack) == level else ()
    return [*_unlike(said), *([_MORE] if said and len(eqns) > READ else [])]


def statements_inside(eqn: introspect.JaxprEqn) -> list[StatementWords]:
    """The statements in the nested jaxprs of an equation, in their order.

    A library's equation has the user's functions that it calls, if the user's line does not name
    them.
    """
    return _unlike(_of_nested(eqn, 0))


def lines_of(
    said: Sequence[StatementWords], width: int, told: Iterable[str] = (), equations: int = 0
) -> list[str]:
    """`x = push(…); log_q = flow_log_density(…)`: statements in a few lines; the most telling ones.

    If there is room for more, each has its own line, and the most telling ones are as in the
    source: `log_q = flow_log_density(frozen, x)`.

    Args:
        said: The statements.
        width: The characters of a line.
        told: Lines with functions that are not told again.
        equations: How many equations they have made.
    """
    words = {*re.findall(r"\w+", " ".join(told))}
    few, room = max(lines for least, lines in _LINES.items() if equations >= least)
    found = [
        one
        for one in said
        if one.targets or _is_result(one) or not words.issuperset(_bare(one.calls))
    ]
    if len(found) == 1 and not found[0].calls:  # which says nothing of how it is made
        return []
    if found and not any(one.targets or one.source for one in found):
        names = [name for one in found for name in one.calls if name not in words]
        return _wrapped(f"calls {', '.join(dict.fromkeys(names))}", width, few)[:few]
    order = sorted(range(len(found)), key=lambda k: (-found[k].telling, k))[:_MOST]
    kept, variables = {k: found[k] for k in order}, _VARIABLES[0]
    while kept:
        shown = [kept[k] for k in sorted(kept)]
        shown += [_MORE] if len(kept) < len(found) and shown[-1] is not _MORE else []
        texts = _short(shown, variables)
        lines = _wrapped("; ".join(filter(None, _branched(shown, texts))), width, few)
        if len(lines) <= few or len(kept) == 1:
            return _as_written(shown, texts, width, room) or lines[:few]
        least = order[len(kept) - 1]
        if variables == _VARIABLES[0]:
            variables = _VARIABLES[1]
        elif kept[least].targets and kept[least].calls:
            kept[least] = kept[least]._replace(calls=())
        else:
            del kept[least]
    return []


def _as_written(
    shown: Sequence[StatementWords], texts: Sequence[str], width: int, room: int
) -> list[str]:
    """Statements in lines, the most telling ones as in the source; empty if there is no room."""
    found, written = dict(enumerate(texts)), dict[int, str]()
    lines: list[str] = []
    for k in sorted(found, key=lambda k: (-shown[k].telling, k)):
        source = shown[k].source
        if 0 < len(source) <= _LONG and source != found[k]:
            longer = _rows(shown, found | written | {k: source}, {*written, k}, width)
            if len(longer) <= room:
                written[k], lines = source, longer
    return lines


def _rows(
    shown: Sequence[StatementWords],
    texts: Mapping[int, str],
    written: Container[int],
    width: int,
) -> list[str]:
    """A line for each statement that is as in the source; others share theirs."""
    rows: list[str] = []
    together = False
    for k, text in enumerate(_branched(shown, texts.values())):
        if together and k not in written:
            rows[-1] += f"; {text}" if text else ""
        elif text:
            rows.append(text)
        together = bool(rows) and k not in written and (together or bool(text))
    return [line for row in rows for line in textwrap.wrap(row, width)]


Transformations = tuple[str, ...]
_Calls = tuple[tuple[str, ...], Collection[str]]  # all functions, and whose result it may be
_MORE = StatementWords(("…",), telling=1 << 20)  # what no room is left for, or nobody has read


def _branched(said: Sequence[StatementWords], texts: Iterable[str]) -> Iterator[str]:
    """The texts of statements, the first of each branch with its name before it."""
    branch = ""
    for one, text in zip(said, texts, strict=True):
        named = one.branch != branch and one is not _MORE and text
        yield f"{one.branch}: {text}" if named else text
        branch = one.branch if text else branch


def _wrapped(text: str, width: int, most: int) -> list[str]:
    text = re.sub(r"(∂|\w:) ", "\\1\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(text, width, max_lines=most + 1, placeholder=" …")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _is_result(one: StatementWords) -> bool:
    """Whether it is a `return` that calls no function of the user's."""
    return not one.calls and one.source.startswith("return ")


def _bare(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("∂ ") for name in names]


def _unlike(said: Iterable[StatementWords]) -> list[StatementWords]:
    """Each statement once."""
    found: dict[StatementWords, StatementWords] = {}
    for one in said:
        alike = one._replace(telling=0)
        before = found.get(alike, one)
        found[alike] = before._replace(telling=max(before.telling, one.telling))
    return [*found.values()]


def _short(said: Sequence[StatementWords], variables: int) -> list[str]:
    """Each text once, "" for another time; a variable alone only if no other statement makes it."""
    made = {one.targets for one in said if one.calls}
    alone = [not one.calls and one.targets in made for one in said]
    found: set[tuple[str, str]] = set()
    texts: list[str] = []
    for one, is_again in zip(said, alone, strict=True):
        text = one.text(variables)
        is_known = is_again or (one.branch, text) in found
        texts.append("" if is_known else text)
        found.add((one.branch, text))
    return texts


def _of_code(every: Sequence[Read], level: int, depth: int = 0) -> Iterator[StatementWords]:
    """The statements at a level of the stacks."""
    statements: dict[object, list[Read]] = {}
    for one in every:
        if len(one.stack) > level:
            frame = one.stack[level]
            statements.setdefault((frame.file, frame.place or frame.line), []).append(one)
    around = _transformed(one.eqn for one in every)
    for rows in statements.values():
        frame = rows[0].stack[level]
        targets = targets_in(frame.text)
        calls, returned = _of_jax(rows, frame) or _calls_at(rows, level, around)
        given = words_given(frame.text)
        whole = tuple(
            name
            for name in calls
            if given is not None and name in returned and not given.issuperset(_bare([name]))
        )
        inner: list[StatementWords] = []
        # The statements of a function say more than its name, if its value has no other.
        hands = not targets and (len(statements) == 1 or hands_on(frame.text))
        if hands and len(calls) == 1 and depth < _DEEP:
            inner += _of_code(rows, level + 1, depth + 1)
            for one in rows:
                inner += _of_nested(one.eqn, depth + 1) if len(one.stack) == level + 1 else ()
        if inner:
            yield from inner
        elif targets or calls or frame.text.startswith("return "):
            loops = any(is_loop(one.eqn) for one in rows)
            many = sum(one.eqn.primitive not in _ARRANGING for one in rows)
            telling = min(many, _CALLS - 1) + _CALLS * (bool(calls) + loops)
            source = " ".join(frame.text.split())
            yield StatementWords(
                targets, whole or calls, telling, bool(whole or not calls), source=source
            )


def _of_nested(eqn: introspect.JaxprEqn, depth: int) -> Iterator[StatementWords]:
    called: dict[str, None] = {}
    branches: dict[str, list[StatementWords]] = {}
    for nested in introspect.nested_jaxprs(eqn):
        if nested.rule or nested.idle or (eqn.primitive is p.while_p and not nested.back):
            continue
        every = [read(one) for one in nested.jaxpr.eqns[:READ]]
        names = _called_in(nested, eqn, _transformed(nested.jaxpr.eqns[:READ]))
        text = next((one.text for one in introspect.statements_of(eqn)), "")
        told = {*re.findall(r"\w+", text)}.issuperset(_bare(names))
        said = [*_of_code(in_root(every), 0, depth)]
        if said and (told or not is_of_library(nested, eqn)):
            branches[key_of(nested)] = said
        else:
            called |= dict.fromkeys(names)
    for key, said in branches.items():
        several = eqn.primitive is p.cond_p and len(branches) > 1
        yield from (one._replace(branch=key) for one in said) if several else said
    if called:
        yield StatementWords((), tuple(called), _CALLS)


def _of_jax(rows: Sequence[Read], frame: introspect.Statement) -> _Calls | None:
    """The function of JAX that a statement calls, if it is the point of the statement."""
    if all(one.eqn.primitive is p.stop_gradient_p for one in rows):
        return ("stop_gradient",), ["stop_gradient"]
    if "associative_scan(" in frame.text:
        found = map(introspect.associative_scan_of, (one.eqn for one in rows))
        if any(one is not None and one.place == frame.place for one in found):
            return ("associative_scan",), ["associative_scan"]
    return None


# --- calls ----------------------------------------------------------------------------------------


def _calls_at(rows: Sequence[Read], level: int, around: Transformations) -> _Calls:
    """The user's functions that a statement at a level of the stacks calls."""
    made: dict[str, list[introspect.JaxprEqn]] = {}
    looped: set[str] = set()  # in a loop, in a branch, or by a library
    for one in rows:
        if name := next(filter(None, map(name_of, one.stack[level + 1 :])), ""):
            made.setdefault(name, []).append(one.eqn)
        elif len(one.stack) == level + 1:
            for nested in introspect.nested_jaxprs(one.eqn):
                plain = nested.trips == 1 and not nested.conditional
                for found in _called_in(nested, one.eqn, around):
                    made.setdefault(found, []).append(one.eqn)
                    if not plain or found != function_of(nested, one.eqn):
                        looped.add(found)
    names = _signed(made, around)
    return names, [name for name in names if looped.isdisjoint((name, *_bare([name])))]


def _called_in(
    nested: introspect.Nested, eqn: introspect.JaxprEqn, around: Transformations
) -> tuple[str, ...]:
    """The user's function that a nested jaxpr was traced from, or those that it calls."""
    if name := function_of(nested, eqn):
        return (name,)
    every = [read(one) for one in nested.jaxpr.eqns[:READ]]
    # The function that the jaxpr was traced from is running, if it is the user's.
    own = 0 if is_of_library(nested, eqn) else shared([one.stack[:1] for one in every if one.stack])
    made: dict[str, list[introspect.JaxprEqn]] = {}
    for one in every:
        if name := next(filter(None, map(name_of, one.stack[own:])), ""):
            made.setdefault(name, []).append(one.eqn)
            continue
        for inner in introspect.nested_jaxprs(one.eqn):
            for found in _called_in(inner, one.eqn, around):
                made.setdefault(found, []).append(one.eqn)
    return _signed(made, around)


def _signed(
    made: Mapping[str, Sequence[introspect.JaxprEqn]], around: Transformations
) -> tuple[str, ...]:
    """Functions with the equations that each has made; with `∂` if its derivative is taken.

    Then all of them are in a `jvp`, and some are transposed. A function that takes a derivative
    itself has other ones.

    Args:
        made: The functions.
        around: The transformations of all that is around.
    """
    signed: list[str] = []
    for name, eqns in made.items():
        own = [introspect.transformations_of(eqn)[len(around) :] for eqn in eqns]
        derived = all(own) and any("transpose" in one for one in own)
        signed.append(f"∂ {name}" if derived and not name.startswith("∂ ") else name)
    return tuple(dict.fromkeys(signed))


def _transformed(eqns: Iterable[introspect.JaxprEqn]) -> Transformations:
    """The transformations that all equations are in."""
    alike = zip(*map(introspect.transformations_of, eqns), strict=False)
    first = itertools.takewhile(lambda names: len(set(names)) == 1, alike)
    return tuple(names[0] for names in first)
