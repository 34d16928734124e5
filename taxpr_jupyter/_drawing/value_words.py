"""Call values as the user would: by a variable, by its expression, or by its operation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives as p
import jax.numpy as jnp

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import CONST, DefUse
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._text.short import literal_text, visible
from taxpr_jupyter._tree.labels import is_plumbing

_LONGEST = 28  # characters
_DEEPEST = 12  # equations, one behind the other
_AROUND = 64  # equations of one expression, at most
_BLANK = "•"  # `introspect.statements_of` writes it for an operand that is computed

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
    """The text of a value, and how strongly what it consists of is bound."""

    text: str
    binds: int = _WHOLE

    def within(self, binds: int) -> str:
        return self.text if self.binds > binds else f"({self.text})"


class ValueWords:
    """Calls the values of one jaxpr.

    Args:
        graph: The graph of the jaxpr.
        home: Its address.
        known: The names of some of its values, by variable.
        held: Gives the variable of the source that held the value at an address, or "".
        backward: Whether it is nested in an equation of a backward pass.
    """

    def __init__(
        self,
        graph: DefUse,
        home: taxpr.Address,
        known: Mapping[Any, str],
        held: Callable[[str], str],
        backward: bool = False,
    ) -> None:
        self._graph, self._home, self._known, self._held = graph, home, known, held
        self._backward = backward
        self._terms: dict[Any, _Term | None] = {}

    def of(self, var: introspect.Var) -> str:
        """The words for a value, such as `z`, `emb.T` or `4 * x ** 3`; "" if they are long."""
        term = self._term(var, 0)
        return term.text if term else ""

    def _term(self, atom: introspect.Atom, depth: int) -> _Term | None:
        if introspect.is_literal(atom):
            text = literal_text(atom).removesuffix(".0")
            return _Term(text, _binds(text))
        if atom not in self._terms:
            found = self._found(atom, depth)
            self._terms[atom] = found if found and len(found.text) <= _LONGEST else None
        return self._terms[atom]

    def _found(self, var: introspect.Var, depth: int) -> _Term | None:
        if name := self._known.get(var, ""):
            return _Term(name)
        (at, k), _ = self._graph.behind(var)
        if at < 0:
            address = self._home / f"{'const' if at == CONST else 'in'}{k}"
            return _Term(name) if (name := self._held(address)) else None
        if name := self._held((self._home / self._locals[at]).value(k)):
            return _Term(name)
        if depth > _DEEPEST:
            return None
        eqn = self._graph.eqns[at]
        written = None if depth and is_plumbing(eqn) else self._written(at, eqn.outvars[k], depth)
        return written or self._computed(at, k, eqn, depth)

    @functools.cached_property
    def _locals(self) -> Sequence[str]:
        """The last part of the address of each equation."""
        return [local for local, _ in introspect.numbered(self._graph.jaxpr)]

    def _written(self, at: int, var: introspect.Var, depth: int) -> _Term | None:
        """The expression of the source, if its value is this one."""
        eqns, one = self._graph.eqns, _expression(self._graph.eqns[at])
        if one is None or self._is_backward(eqns[at]):
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
            return any(not derived if i == last else not self._is_backward(eqns[i]) for i in users)

        leaving = [made for i in inside for made in eqns[i].outvars if leaves(made)]
        if len(leaving) != 1 or leaving[0] is not var:
            return None
        text = one[0]
        if _BLANK in text:
            operands = _operands(text, eqns[at])
            terms = [self._term(atom, depth + 1) for atom in operands]
            if len(inside) > 1 or not terms:
                return None
            for term in terms:
                if term is None or re.search(rf"\b{re.escape(term.text)}\b", one[0]):
                    return None
                text = text.replace(_BLANK, term.within(_NEGATES), 1)
        return _Term(visible(text), _binds(text))

    def _is_backward(self, eqn: introspect.JaxprEqn) -> bool:
        """Whether it is of a backward pass; `jax.checkpoint` repeats others in there."""
        inside = self._backward and not introspect.is_recomputed(eqn)
        return inside or pass_of(eqn) == "backward"

    def _computed(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> _Term | None:
        """An equation on its operands, as the source would have it."""
        if introspect.is_hop(eqn):
            return self._inside(at, k, eqn, depth)
        if introspect.failure_of(eqn) or len(eqn.outvars) > 1:
            return None
        terms: list[_Term] = []
        for atom in eqn.invars:
            if (term := self._term(atom, depth + 1)) is None:
                return None
            terms.append(term)
        return _operation(eqn, terms)

    def _inside(self, at: int, k: int, eqn: introspect.JaxprEqn, depth: int) -> _Term | None:
        """The words for a result in the only nested jaxpr that makes it."""
        made = [
            (nested, j)
            for nested in introspect.nested_jaxprs(eqn)
            for j, result in enumerate(nested.results)
            if result == k
        ]
        if len(made) != 1 or made[0][0].out_roles[made[0][1]] not in ("y", "out"):
            return None
        [(nested, j)] = made
        known: dict[Any, str] = {}
        ends = zip(nested.jaxpr.invars, nested.operands, nested.in_roles, strict=True)
        for var, operand, role in ends:
            term = None
            if operand is not None and role in ("const", "arg"):
                term = self._term(eqn.invars[operand], depth + 1)
            if term is not None and term.binds == _WHOLE:
                known[var] = term.text
        home = self._home / self._locals[at] / nested.label
        backward = self._is_backward(eqn)
        inner = ValueWords(DefUse(nested.jaxpr), home, known, self._held, backward)
        return inner._term(nested.jaxpr.outvars[j], depth + 1)


def _expression(eqn: introspect.JaxprEqn) -> tuple[Any, ...] | None:
    """The text and the place of the innermost expression of the source that made an equation."""
    found = introspect.statements_of(eqn)
    if not found or not found[0].expression:
        return None
    return found[0].expression, found[0].file, found[0].place, found[0].part, pass_of(eqn)


def _operands(text: str, eqn: introspect.JaxprEqn) -> list[introspect.Atom]:
    """The operands of an equation that stand in the blanks of its expression; [] if unknown."""
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
