"""Call values as the user would: by a variable, by its expression, or by its operation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.extend.core.primitives as p

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import CONST, DefUse
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._drawing.roles import SAME
from taxpr_jupyter._drawing.terms import (
    Meanings,
    Term,
    binds_of,
    filled,
    operation,
    together,
)
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.short import BLANK, literal_text, visible
from taxpr_jupyter._text.source_frames import SourceFrame, frames_around, frames_of
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree.labels import is_plumbing

_LONGEST = 28  # characters
_DEEPEST = 12  # equations, one behind the other
_AROUND = 64  # equations of one expression, at most

_NAME = re.compile(r"(?<![.\w])[^\W\d]\w*")  # in an expression, but no attribute
_STAND_IN = "_blank_"  # for a blank in what Python parses
_PART = re.compile(rf"({_NAME.pattern})\s*[.\[]")  # of which a part is taken
_MODULES = frozenset({"jax", "jnp", "lax", "nn", "np", "numpy"})  # functions named like methods


class ValueWords:
    """Calls the values of one jaxpr.

    Args:
        graph: The graph of the jaxpr.
        home: Its address.
        known: The names of some of its values, by variable.
        held: The variables of the source.
        backward: Whether it is nested in an equation of a backward pass.
    """

    def __init__(
        self,
        graph: DefUse,
        home: taxpr.Address,
        known: Mapping[Any, str],
        held: HeldVariables,
        backward: bool = False,
    ) -> None:
        self.graph, self.home, self.known, self.held = graph, home, known, held
        self._backward = backward
        self._frames: dict[SourceFrame | None, _FrameWords] = {}
        self._frames_at: dict[int, tuple[SourceFrame, ...]] = {}
        self._expressions: dict[int, tuple[Any, ...] | None] = {}

    def of(self, var: introspect.Var, at: SourceFrame | None = None) -> str:
        """The words for a value, such as `z`, `emb.T` or `4 * x ** 3`; "" if they are long.

        Args:
            var: The value.
            at: The call of the user's function around the words in the picture; None for the
                innermost one that made all of the jaxpr. Words of another function begin with its
                name: `helper: x * 2.0`.
        """
        at = at or (self.frames[-1] if self.frames else None)
        here = self.within(at).term(var, 0)
        if at is None or (here and here.written):
            return here.text if here else ""
        every = self._elsewhere(var)
        found = ((f"{name}: {term.text}", term) for name, term in every if name != at.name)
        text, named = next((one for one in found if len(one[0]) <= _LONGEST), ("", None))
        return here.text if here and not (named and named.written) else text

    def held_in(self, var: introspect.Var, at: SourceFrame | None = None) -> str:
        """The variable that holds a value, or the part of one, however long; or "".

        The arguments are as for `of`.
        """
        at = at or (self.frames[-1] if self.frames else None)
        name = self.within(at).name(var)
        return name.text if name else ""

    def within(self, frame: SourceFrame | None) -> _FrameWords:
        """The words in a call of a function."""
        if frame not in self._frames:
            self._frames[frame] = _FrameWords(self, frame)
        return self._frames[frame]

    @functools.cached_property
    def frames(self) -> Sequence[SourceFrame]:
        """The calls of the user's functions that made all of the jaxpr, outermost first."""
        return frames_around(self.graph.eqns)

    def frames_at(self, at: int) -> tuple[SourceFrame, ...]:
        """The calls of the user's functions that made the equation at a position."""
        if at not in self._frames_at:
            self._frames_at[at] = frames_of(self.graph.eqns[at])
        return self._frames_at[at]

    def expression(self, at: int) -> tuple[Any, ...] | None:
        """The text and the place of the innermost expression that made the equation there."""
        if at not in self._expressions:
            self._expressions[at] = _expression(self.graph.eqns[at])
        return self._expressions[at]

    def address(self, var: introspect.Var) -> taxpr.Address:
        """The address of a value without its tags."""
        (at, k), _ = self.graph.behind(var)
        if at < 0:
            return self.home / f"{'const' if at == CONST else 'in'}{k}"
        return (self.home / self.locals[at]).value(k)

    def inside(
        self, at: int, k: int
    ) -> tuple[ValueWords, introspect.Nested, introspect.Atom] | None:
        """The only nested jaxpr that makes a result, and the result in it; None if there is none.

        Args:
            at: The position of the equation.
            k: The number of the result.
        """
        eqn = self.graph.eqns[at]
        made = [
            (nested, j)
            for nested in introspect.nested_jaxprs(eqn)
            for j, result in enumerate(nested.results)
            if result == k
        ]
        if len(made) != 1 or made[0][0].out_roles[made[0][1]] not in ("y", "out"):
            return None
        [(nested, j)] = made
        home, backward = self.home / self.locals[at] / nested.label, self.is_backward(eqn)
        words = ValueWords(DefUse(nested.jaxpr), home, {}, self.held, backward)
        return words, nested, nested.jaxpr.outvars[j]

    def _elsewhere(self, atom: introspect.Atom) -> Iterator[tuple[str, Term]]:
        """The words for a value in other functions, with their names, the nearest first."""
        if introspect.is_literal(atom):
            return
        (at, k), _ = self.graph.behind(atom)
        frames = [*reversed(self.frames_at(at))] if at >= 0 else []
        frames += [SourceFrame(one.owner) for one in self.held.at(self.address(atom))]
        for frame in frames:
            if frame.name and (term := self.within(frame).term(atom, 0)):
                yield frame.name, term
        if at >= 0 and (made := self.inside(at, k)):
            words, _, inner = made
            yield from words._elsewhere(inner)

    @functools.cached_property
    def locals(self) -> Sequence[str]:
        """The last part of the address of each equation."""
        return [*self.graph.positions]

    def is_backward(self, eqn: introspect.JaxprEqn) -> bool:
        """Whether it is of a backward pass; `jax.checkpoint` repeats others in there."""
        inside = self._backward and not introspect.is_recomputed(eqn)
        return inside or pass_of(eqn) == "backward"


class _FrameWords:
    """The words for the values of one jaxpr in a call of a function."""

    def __init__(self, words: ValueWords, frame: SourceFrame | None) -> None:
        self._words, self._frame, self._graph = words, frame, words.graph
        self._terms: dict[Any, Term | None] = {}
        self._texts: dict[Any, Term | None] = {}  # as the source has them

    def term(self, atom: introspect.Atom, depth: int) -> Term | None:
        """The term of a value; None if it has no term or a long one."""
        if introspect.is_literal(atom):
            text = literal_text(atom).removesuffix(".0")
            return Term(text, binds_of(text))
        if atom not in self._terms:
            found = self._found(atom, depth)
            self._terms[atom] = found if found and len(found.text) <= _LONGEST else None
        return self._terms[atom]

    def _found(self, var: introspect.Var, depth: int) -> Term | None:
        if name := self.name(var):
            return name
        (at, k), _ = self._graph.behind(var)
        if at < 0 or depth > _DEEPEST:
            return None
        eqn = self._graph.eqns[at]
        written = None if depth and is_plumbing(eqn) else self._read(at, eqn.outvars[k], depth)
        return written or self._computed(at, k, eqn, depth)

    def _read(self, at: int, var: introspect.Var, depth: int) -> Term | None:
        """The expression of the source, if its names mean the same in the function."""
        frame, frames = self._frame, self._words.frames_at(at)
        if frame is None or not frames:
            return None
        inner = self._words.within(frames[-1])
        if var not in inner._texts:
            inner._texts[var] = inner._written(at, var, depth)
        term = inner._texts[var]
        if term is None or frame.is_in(frames[-1]) < (frame.hiding(frames[-1].owner) is not None):
            return None  # it may be of another call
        names = term.names.keys() - _MODULES
        read = not names or self._words.held.sees(frame, frames[-1].owner, *names)
        return term if read else None

    def name(self, var: introspect.Var) -> Term | None:
        """The variable of the source that holds a value."""
        words, frame = self._words, self._frame
        one = words.held.seen_by(frame, words.address(var)) if frame else None
        if (name := words.known.get(var, "")) and self._knows(name, one):
            root = path_parts(name)[0]
            meanings = self._bindings(var).get(root, frozenset({root}))
            return Term(name, names={root: meanings}, written=True)
        if one is None:
            return None
        names = {one.name: self._bindings(var, one.path)[one.name]}
        return Term(visible(one.text), names=names, written=True)

    def _bindings(self, var: introspect.Var, path: str | None = None) -> Meanings:
        """The bindings of variables that hold a value, or a PyTree with it at a path, by name."""
        frame, held = self._frame, self._words.held
        found: dict[str, set[Any]] = {}
        for one in held.at(self._words.address(var)) if frame else ():
            if path in (None, one.path) and frame and held.sees(frame, one.owner, one.name):
                binding = one.owner, one.occurrence, one.line
                found.setdefault(one.name, set()).add(binding)
        return {name: frozenset(bindings) for name, bindings in found.items()}

    def _knows(self, name: str, one: taxpr.program.Variable | None) -> bool:
        """Whether a name of the jaxpr means the same in the function, maybe as this variable."""
        frame, of, root = self._frame, self._words.frames[:1], path_parts(name)[0]
        if one is not None and root == one.name:
            return True
        if frame is None or not of:
            return True
        return self._words.held.sees(frame, of[0].owner, root, hidden=True)

    def _written(self, at: int, var: introspect.Var, depth: int) -> Term | None:
        """The expression of the source, if its value is this one."""
        eqns, expression = self._graph.eqns, self._words.expression
        if (one := expression(at)) is None or self._words.is_backward(eqns[at]):
            return None
        inside = {at}
        for step in (-1, 1):
            i = at + step
            while 0 <= i < len(eqns) and len(inside) < _AROUND and expression(i) == one:
                inside.add(i)
                i += step
        derived = pass_of(eqns[at]) == "forward"

        def leaves(made: introspect.Var) -> bool:
            """Whether it is used outside of the expression, by more than its derivative."""
            users = [i for i in self._graph.users(made) if i not in inside]
            last = len(eqns)
            return any(
                not derived if i == last else not self._words.is_backward(eqns[i]) for i in users
            )

        leaving = [made for i in inside for made in eqns[i].outvars if leaves(made)]
        if len(leaving) != 1 or leaving[0] is not var:
            return None
        text, operands = one[0], list[introspect.Atom]()
        if BLANK in text:
            operands = _operands(text, eqns[at])
            if len(inside) > 1 or not operands:
                return None
        names = self._named(text, [eqns[i] for i in inside], operands)
        for atom in operands:
            term = self.term(atom, depth + 1)
            names = together(names, term.names) if term else None
            text = filled(text, term) if term else text
        return None if names is None else Term(visible(text), binds_of(text), names, True)

    def _named(
        self, text: str, eqns: Sequence[introspect.JaxprEqn], blanks: Sequence[introspect.Atom]
    ) -> Meanings | None:
        """The meanings of the names of an expression; None if an operand has none of them.

        As in a comprehension, which has variables of its own.
        """
        found: dict[str, frozenset[Any]] = {}
        written = {*_NAME.findall(text)}
        parts = {*_PART.findall(text)} - _MODULES  # a part of an object may be any value
        hidden = {id(atom) for atom in (*blanks, *(var for eqn in eqns for var in eqn.outvars))}
        for atom in (atom for eqn in eqns for atom in eqn.invars if id(atom) not in hidden):
            if introspect.is_literal(atom):
                continue
            called = self._called(atom)
            if not called and (parts or self._graph.behind(atom)[0][0] < 0):
                continue
            root = next((root for root in called if root in written), None)
            if root is None or (both := together(found, {root: called[root]})) is None:
                return None
            found = {**both}
        return {**dict.fromkeys(written, frozenset({None})), **found}

    def _called(self, var: introspect.Var) -> Meanings:
        """All variables that hold a value, or a PyTree that it is a leaf of, by their names."""
        name = self.name(var)
        return {**(name.names if name else {}), **self._bindings(var)}

    def _computed(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> Term | None:
        """An equation on its operands, as the source would have it."""
        if introspect.is_hop(eqn):
            return self._inside(at, k, eqn, depth)
        if introspect.failure_of(eqn) or len(eqn.outvars) > 1 or not eqn.invars:
            return None
        terms: list[Term] = []
        names: Meanings | None = {}
        for atom in eqn.invars:
            if (term := self.term(atom, depth + 1)) is None:
                return None
            if (names := together(names, term.names)) is None:
                return None
            terms.append(term)
        made = operation(eqn, terms)
        return made and made._replace(names=names)

    def _inside(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> Term | None:
        """The words for a result in the only nested jaxpr that makes it."""
        if (made := self._words.inside(at, k)) is None:
            return None
        inner, nested, var = made
        within = inner.within(self._frame)
        ends = zip(nested.jaxpr.invars, nested.operands, nested.in_roles, strict=True)
        for given, operand, role in ends:
            if operand is not None and role in SAME:
                within._terms[given] = self.term(eqn.invars[operand], depth + 1)
        term = within.term(var, depth + 1)
        if term and nested.out_roles[nested.results.index(k)] == "y":  # of all iterations
            return term._replace(repeats=True, placed=False, exact=False)
        return term


def _expression(eqn: introspect.JaxprEqn) -> tuple[Any, ...] | None:
    """The text and the place of the innermost expression of the source that made an equation."""
    found = introspect.statements_of(eqn)
    if not found or not found[0].expression:
        return None
    return found[0].expression, found[0].file, found[0].place, found[0].part, pass_of(eqn)


def _operands(text: str, eqn: introspect.JaxprEqn) -> list[introspect.Atom]:
    """The operands of an equation in the blanks of its expression; [] if unknown."""
    if any(nested.back for nested in introspect.nested_jaxprs(eqn)):
        return []  # of a loop: its first argument is a function
    try:
        tree = ast.parse(text.replace(BLANK, _STAND_IN), mode="eval").body
    except SyntaxError:
        return []
    match tree:
        case ast.BinOp(left=one, right=other) | ast.Compare(left=one, comparators=[other]):
            places = [one, other]
        case ast.UnaryOp(operand=one) | ast.Attribute(value=one) | ast.Subscript(value=one):
            places = [one]
        case ast.Call(func=ast.Attribute(value=one), args=args) if _is_blank(one):
            places = [one, *args]
        case ast.Call(func=ast.Attribute(ast.Name(name), method)) if (
            hasattr(jax.Array, method) and name not in _MODULES
        ):
            return []  # of an array with a name
        case ast.Call(args=args):
            places = args
        case _:
            return []
    blanks = [_is_blank(place) for place in places]
    if sum(blanks) != text.count(BLANK):
        return []
    if len(places) == len(eqn.invars) and eqn.primitive is not p.select_n_p:
        pairs = zip(eqn.invars, places, strict=True)
        if any(isinstance(at, ast.Constant) and not introspect.is_literal(a) for a, at in pairs):
            return []  # `f(•, None)` of a function of two arrays in one argument
        return [atom for atom, blank in zip(eqn.invars, blanks, strict=True) if blank]
    # The others are no operands: `jnp.sum(•, 0)`.
    others = [place for place, blank in zip(places, blanks, strict=True) if not blank]
    named = any(isinstance(node, ast.Name) for other in others for node in ast.walk(other))
    given = any(map(introspect.is_literal, eqn.invars))
    return [] if named or given or len(eqn.invars) != sum(blanks) else [*eqn.invars]


def _is_blank(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == _STAND_IN
