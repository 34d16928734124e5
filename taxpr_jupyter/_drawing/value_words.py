"""Call values as the user would: by a variable, by its expression, or by its operation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives as p
import jax.numpy as jnp

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import CONST, DefUse
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._drawing.roles import SAME
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.short import literal_text, visible
from taxpr_jupyter._text.source_frames import SourceFrame, frames_around, frames_of
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree.labels import is_plumbing

_LONGEST = 28  # characters
_DEEPEST = 12  # equations, one behind the other
_AROUND = 64  # equations of one expression, at most
_BLANK = "•"  # `introspect.statements_of` writes it for an operand that is computed

_NAME = re.compile(r"(?<![.\w])[^\W\d]\w*")  # in an expression, but no attribute
_STAND_IN = "_blank_"  # for it in what Python parses
_MODULES = frozenset({"jax", "jnp", "lax", "nn", "np", "numpy"})  # functions named like methods

# How strongly operators bind.
_COMPARES, _ADDS, _MULTIPLIES, _NEGATES, _RAISES, _WHOLE = range(6)

_OPERATORS: Mapping[Any, tuple[str, int]] = {
    p.add_p: ("+", _ADDS),
    p.add_jaxvals_p: ("+", _ADDS),
    p.sub_p: ("-", _ADDS),
    p.mul_p: ("*", _MULTIPLIES),
    p.div_p: ("/", _MULTIPLIES),
    p.pow_p: ("**", _RAISES),
    p.eq_p: ("==", _COMPARES),
    p.ne_p: ("!=", _COMPARES),
    p.lt_p: ("<", _COMPARES),
    p.le_p: ("<=", _COMPARES),
    p.gt_p: (">", _COMPARES),
    p.ge_p: (">=", _COMPARES),
}
_BINDS: Mapping[type[ast.operator], int] = {
    ast.Add: _ADDS,
    ast.Sub: _ADDS,
    ast.Mult: _MULTIPLIES,
    ast.Div: _MULTIPLIES,
    ast.MatMult: _MULTIPLIES,
    ast.Mod: _MULTIPLIES,
    ast.Pow: _RAISES,
}
# Functions with another name in `jax.numpy` and `jax.nn` than the primitive.
_FUNCTIONS: Mapping[Any, str] = {
    p.logistic_p: "sigmoid",
    p.reduce_sum_p: "sum",
    p.reduce_max_p: "max",
    p.reduce_min_p: "min",
    p.reduce_prod_p: "prod",
}


class _Term(NamedTuple):
    """The text of a value, how strongly its parts are bound, and the names in it.

    Attributes:
        text: The text.
        binds: How strongly its parts are bound.
        names: For each name in it the variable that it means; None for a module or function.
        written: Whether the source has the text.
    """

    text: str
    binds: int = _WHOLE
    names: Mapping[str, Any] = MappingProxyType({})
    written: bool = False

    def within(self, binds: int) -> str:
        return self.text if self.binds > binds else f"({self.text})"


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
        found = [(f"{name}: {term.text}", term) for name, term in every if name != at.name]
        named = [one for one in found if len(one[0]) <= _LONGEST]
        if here and not (named and named[0][1].written):
            return here.text
        return named[0][0] if named else ""

    def within(self, frame: SourceFrame | None) -> _FrameWords:
        """The words in a call of a function."""
        if frame not in self._frames:
            self._frames[frame] = _FrameWords(self, frame)
        return self._frames[frame]

    @functools.cached_property
    def frames(self) -> Sequence[SourceFrame]:
        """The calls of the user's functions that made all of the jaxpr, outermost first."""
        return frames_around(self.graph.eqns)

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

    def _elsewhere(self, atom: introspect.Atom) -> Iterator[tuple[str, _Term]]:
        """The words for a value in other functions, with their names, the nearest first."""
        if introspect.is_literal(atom):
            return
        (at, k), _ = self.graph.behind(atom)
        frames = [*reversed(frames_of(self.graph.eqns[at]))] if at >= 0 else []
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
        return [local for local, _ in introspect.numbered(self.graph.jaxpr)]

    def is_backward(self, eqn: introspect.JaxprEqn) -> bool:
        """Whether it is of a backward pass; `jax.checkpoint` repeats others in there."""
        inside = self._backward and not introspect.is_recomputed(eqn)
        return inside or pass_of(eqn) == "backward"


class _FrameWords:
    """The words for the values of one jaxpr in a call of a function."""

    def __init__(self, words: ValueWords, frame: SourceFrame | None) -> None:
        self._words, self._frame, self._graph = words, frame, words.graph
        self._terms: dict[Any, _Term | None] = {}

    def term(self, atom: introspect.Atom, depth: int) -> _Term | None:
        """The term of a value; None if it has no term or a long one."""
        if introspect.is_literal(atom):
            text = literal_text(atom).removesuffix(".0")
            return _Term(text, _binds(text))
        if atom not in self._terms:
            found = self._found(atom, depth)
            self._terms[atom] = found if found and len(found.text) <= _LONGEST else None
        return self._terms[atom]

    def _found(self, var: introspect.Var, depth: int) -> _Term | None:
        if name := self._name(var):
            return name
        (at, k), _ = self._graph.behind(var)
        if at < 0 or depth > _DEEPEST:
            return None
        eqn = self._graph.eqns[at]
        written = None if depth and is_plumbing(eqn) else self._read(at, eqn.outvars[k], depth)
        return written or self._computed(at, k, eqn, depth)

    def _read(self, at: int, var: introspect.Var, depth: int) -> _Term | None:
        """The expression of the source, if its names mean the same in the function."""
        frame, frames = self._frame, frames_of(self._graph.eqns[at])
        if frame is None or not frames:
            return None
        term = self._words.within(frames[-1])._written(at, var, depth)
        if term is None or frame.is_in(frames[-1]) < (frame.hiding(frames[-1].owner) is not None):
            return None  # it may be of another call
        names = term.names.keys() - _MODULES
        read = not names or self._words.held.sees(frame, frames[-1].owner, *names)
        return term if read else None

    def _name(self, var: introspect.Var) -> _Term | None:
        """The variable of the source that holds a value."""
        words, frame = self._words, self._frame
        one = words.held.seen_by(frame, words.address(var)) if frame else None
        if (name := words.known.get(var, "")) and self._knows(name, one):
            root = path_parts(name)[0]
            return _Term(name, names={root: _meaning(one) if one else root}, written=True)
        if one is None:
            return None
        return _Term(visible(one.text), names={one.name: _meaning(one)}, written=True)

    def _knows(self, name: str, one: taxpr.program.Variable | None) -> bool:
        """Whether a name of the jaxpr means the same in the function, maybe as this variable."""
        frame, of, root = self._frame, self._words.frames[:1], path_parts(name)[0]
        if one is not None and root == one.name:
            return True
        if frame is None or not of:
            return True
        return self._words.held.sees(frame, of[0].owner, root, hidden=True)

    def _written(self, at: int, var: introspect.Var, depth: int) -> _Term | None:
        """The expression of the source, if its value is this one."""
        eqns, one = self._graph.eqns, _expression(self._graph.eqns[at])
        if one is None or self._words.is_backward(eqns[at]):
            return None
        inside = {at}
        for step in (-1, 1):
            i = at + step
            while 0 <= i < len(eqns) and len(inside) < _AROUND and _expression(eqns[i]) == one:
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
        if _BLANK in text:
            operands = _operands(text, eqns[at])
            if len(inside) > 1 or not operands:
                return None
        names = self._named(text, [eqns[i] for i in inside], operands)
        for atom in operands:
            term = self.term(atom, depth + 1)
            names = _together(names, term.names) if term else None
            text = _filled(text, term) if term else text
        return None if names is None else _Term(visible(text), _binds(text), names, True)

    def _named(
        self, text: str, eqns: Sequence[introspect.JaxprEqn], blanks: Sequence[introspect.Atom]
    ) -> Mapping[str, Any] | None:
        """The meanings of the names of an expression; None if an operand has none of them.

        As in a comprehension, which has variables of its own.
        """
        found: dict[str, Any] = dict.fromkeys(_NAME.findall(text))
        hidden = {id(atom) for atom in (*blanks, *(var for eqn in eqns for var in eqn.outvars))}
        for atom in (atom for eqn in eqns for atom in eqn.invars if id(atom) not in hidden):
            if introspect.is_literal(atom) or not (called := self._called(atom)):
                continue
            root = next((root for root in called if root in found), None)
            if root is None or found[root] not in (None, called[root]):
                return None
            found[root] = called[root]
        return found

    def _called(self, var: introspect.Var) -> Mapping[str, Any]:
        """All variables that hold a value, or a PyTree that it is a leaf of, by their names."""
        frame, held, name = self._frame, self._words.held, self._name(var)
        every = held.at(self._words.address(var)) if frame else ()
        seen = (one for one in every if frame and held.sees(frame, one.owner, one.name))
        own = {one.name: _meaning(one) for one in seen}
        return {**own, **(name.names if name else {})}

    def _computed(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> _Term | None:
        """An equation on its operands, as the source would have it."""
        if introspect.is_hop(eqn):
            return self._inside(at, k, eqn, depth)
        if introspect.failure_of(eqn) or len(eqn.outvars) > 1 or not eqn.invars:
            return None
        terms: list[_Term] = []
        names: Mapping[str, Any] | None = {}
        for atom in eqn.invars:
            if (term := self.term(atom, depth + 1)) is None:
                return None
            if (names := _together(names, term.names)) is None:
                return None
            terms.append(term)
        made = _operation(eqn, terms)
        return made and made._replace(names=names)

    def _inside(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> _Term | None:
        """The words for a result in the only nested jaxpr that makes it."""
        if (made := self._words.inside(at, k)) is None:
            return None
        inner, nested, var = made
        within = inner.within(self._frame)
        ends = zip(nested.jaxpr.invars, nested.operands, nested.in_roles, strict=True)
        for given, operand, role in ends:
            if operand is not None and role in SAME:
                within._terms[given] = self.term(eqn.invars[operand], depth + 1)
        return within.term(var, depth + 1)


def _meaning(one: taxpr.program.Variable) -> Any:
    """Tells the values apart that a variable held."""
    return one.owner, one.name, one.occurrence


def _together(names: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The meanings of the names of two texts; None if one of them means two values."""
    if names is None or any(names.get(name, one) != one for name, one in more.items()):
        return None
    return {**names, **more}


def _filled(text: str, term: _Term) -> str:
    """An expression with a term in its first blank."""
    before, _, after = text.partition(_BLANK)
    alone = before[-1:] in tuple("([") or before.rstrip()[-1:] in tuple(",=")
    alone = alone and after[:1] in (")", "]", ",")
    return f"{before}{term.text if alone else term.within(_NEGATES)}{after}"


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
        tree = ast.parse(text.replace(_BLANK, _STAND_IN), mode="eval").body
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
    if sum(blanks) != text.count(_BLANK):
        return []
    if len(places) == len(eqn.invars) and eqn.primitive is not p.select_n_p:
        return [atom for atom, blank in zip(eqn.invars, blanks, strict=True) if blank]
    # The others are no operands: `jnp.sum(•, 0)`.
    others = [place for place, blank in zip(places, blanks, strict=True) if not blank]
    named = any(isinstance(node, ast.Name) for other in others for node in ast.walk(other))
    given = any(map(introspect.is_literal, eqn.invars))
    return [] if named or given or len(eqn.invars) != sum(blanks) else [*eqn.invars]


def _is_blank(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == _STAND_IN


def _binds(text: str) -> int:
    """How strongly the parts of an expression of the source are bound."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return _COMPARES
    if isinstance(tree, ast.BinOp):
        return _BINDS.get(type(tree.op), _COMPARES)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _NEGATES
    bound = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
    return _WHOLE if isinstance(tree, bound) else _COMPARES


def _operation(eqn: introspect.JaxprEqn, terms: Sequence[_Term]) -> _Term | None:
    """An equation on its operands."""
    kind = eqn.primitive
    if is_plumbing(eqn) and terms:
        return terms[0]
    if kind in _OPERATORS and not (kind is p.div_p and _is_integer(eqn)):
        sign, binds = _OPERATORS[kind]
        one, other = terms
        # `a - b - c` needs no parentheses, `a - (b - c)` does; `a ** b` binds to the right.
        left = one.within(binds if binds in (_RAISES, _COMPARES) else binds - 1)
        return _Term(f"{left} {sign} {other.within(binds)}", binds)
    if kind is p.integer_pow_p:
        return _Term(f"{terms[0].within(_RAISES)} ** {eqn.params['y']}", _RAISES)
    if kind is p.square_p:
        return _Term(f"{terms[0].within(_RAISES)} ** 2", _RAISES)
    if kind is p.neg_p:
        return _Term(f"-{terms[0].within(_NEGATES)}", _NEGATES)
    if kind is p.dot_general_p and _is_product(eqn):
        return _Term(
            f"{terms[0].within(_MULTIPLIES - 1)} @ {terms[1].within(_MULTIPLIES)}", _MULTIPLIES
        )
    if (
        kind is p.transpose_p
        and [*eqn.params["permutation"]] == [*range(len(eqn.params["permutation"]))][::-1]
    ):
        return _Term(f"{terms[0].within(_RAISES)}.T")
    if kind is p.select_n_p and len(terms) == 3:
        which, other, one = (term.text for term in terms)
        return _Term(f"where({which}, {one}, {other})")
    name = _FUNCTIONS.get(kind, kind.name)
    return _Term(f"{visible(name)}({', '.join(term.text for term in terms)})")


def _is_integer(eqn: introspect.JaxprEqn) -> bool:
    aval: Any = eqn.outvars[0].aval
    return jnp.issubdtype(aval.dtype, jnp.integer)


def _is_product(eqn: introspect.JaxprEqn) -> bool:
    """Whether it is `a @ b` of NumPy."""
    (left, right), (batch, other) = eqn.params["dimension_numbers"]
    a, b = (len(getattr(atom.aval, "shape", ())) for atom in eqn.invars)
    same = (*batch,) == (*other,) == (*range(max(a - 2, 0)),) or not (batch or other)
    return same and (*left,) == (a - 1,) and (*right,) == (max(b - 2, 0),)
