"""`Term`: the text of a value, and how the texts of operands make the text of an equation."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import jax.numpy as jnp

from taxpr import introspect
from taxpr_jupyter._text.operations import (
    ADDS,
    COMPARES,
    MULTIPLIES,
    NEGATES,
    OPERATIONS,
    RAISES,
    WHOLE,
    Operation,
)
from taxpr_jupyter._text.short import BLANK, visible
from taxpr_jupyter._tree.labels import is_plumbing

_BINDS: Mapping[type[ast.operator], int] = {
    ast.Add: ADDS,
    ast.Sub: ADDS,
    ast.Mult: MULTIPLIES,
    ast.Div: MULTIPLIES,
    ast.MatMult: MULTIPLIES,
    ast.Mod: MULTIPLIES,
    ast.Pow: RAISES,
}
# Computed element by element, besides the `OPERATIONS` that have a sign.
_OF_ELEMENTS = frozenset(
    {
        *(p.integer_pow_p, p.square_p, p.neg_p, p.abs_p, p.sign_p, p.max_p, p.min_p, p.select_n_p),
        *(p.exp_p, p.log_p, p.sqrt_p, p.rsqrt_p, p.sin_p, p.cos_p, p.tanh_p, p.logistic_p),
        p.convert_element_type_p,
    }
)
# Each result is computed from all elements before it along an axis.
_ALONG = frozenset({p.cumsum_p, p.cumprod_p, p.cummax_p, p.cummin_p, p.cumlogsumexp_p})

Meanings = Mapping[str, frozenset[Any]]


class Term(NamedTuple):
    """The text of a value, how strongly its parts are bound, and the names in it.

    Attributes:
        text: The text.
        binds: How strongly its parts are bound.
        names: For each name in it the bindings of variables that it may mean.
        written: Whether the source has the text.
        repeats: Whether the value repeats what the text says along a dimension: texts leave out
            what only arranges values.
        placed: Whether NumPy would place it so beside a value that has more dimensions.
        exact: Whether the value has the dimensions of the text.
    """

    text: str
    binds: int = WHOLE
    names: Meanings = MappingProxyType({})
    written: bool = False
    repeats: bool = False
    placed: bool = True
    exact: bool = True

    def within(self, binds: int) -> str:
        """The text as a part of another one that binds so strongly."""
        return self.text if self.binds > binds else f"({self.text})"


def together(names: Meanings | None, more: Meanings) -> Meanings | None:
    """The meanings of the names of two texts; None if one of them must mean two values."""
    if names is None:
        return None
    both = {name: names[name] & one if name in names else one for name, one in more.items()}
    return {**names, **both} if all(both.values()) else None


def filled(text: str, term: Term) -> str:
    """An expression with a term in its first blank."""
    before, _, after = text.partition(BLANK)
    ahead = before.rstrip()
    assigned = ahead.endswith("=") and not ahead.endswith(("==", "!=", "<=", ">="))
    alone = before[-1:] in tuple("([") or ahead.endswith(",") or assigned
    alone = alone and after[:1] in (")", "]", ",")
    binds = RAISES if after.lstrip().startswith(("**", ".", "[", "(")) else NEGATES
    return f"{before}{term.text if alone else term.within(binds)}{after}"


def binds_of(text: str) -> int:
    """How strongly the parts of an expression of the source are bound."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return COMPARES
    if isinstance(tree, ast.BinOp):
        return _BINDS.get(type(tree.op), COMPARES)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return NEGATES
    bound = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
    return WHOLE if isinstance(tree, bound) else COMPARES


def operation(eqn: introspect.JaxprEqn, terms: Sequence[Term]) -> Term | None:
    """An equation on its operands, without the names in them.

    None where Python would compute another value from the text, such as the sum of a value that
    the equation repeats and the text does not.
    """
    kind, known = eqn.primitive, OPERATIONS.get(eqn.primitive, Operation())
    if is_plumbing(eqn) and terms:
        first, (given, made) = terms[0], _shapes(eqn)
        return first._replace(
            repeats=first.repeats or _repeats(eqn),
            placed=first.placed and _places(eqn),
            exact=first.exact and given == made,
        )
    pairs = zip(eqn.invars, terms, strict=True)
    arrays = [(atom, term) for atom, term in pairs if _shape(atom)]
    if not (known.sign or kind in _OF_ELEMENTS):
        exact = all(term.exact for _, term in arrays)
        if any(term.repeats for _, term in arrays) or (_axes(eqn) and not exact):
            return None
        return _operator(eqn, known, terms) or _function(eqn, known, terms)
    placed = [term.placed for _, term in arrays]
    if any(placed) and not all(placed):
        return None
    _, shape = _shapes(eqn)
    made = _operator(eqn, known, terms) or _function(eqn, known, terms)
    return made._replace(
        repeats=bool(arrays) and all(term.repeats for _, term in arrays),
        placed=all(placed),
        exact=not arrays or any(term.exact and _shape(atom) == shape for atom, term in arrays),
    )


def _operator(eqn: introspect.JaxprEqn, known: Operation, terms: Sequence[Term]) -> Term | None:
    kind = eqn.primitive
    if known.sign and not (kind is p.div_p and _is_integer(eqn)):
        one, other = terms
        # `a - b - c` needs no parentheses, `a - (b - c)` does; `a ** b` binds to the right.
        binds = known.binds
        left = one.within(binds if binds in (RAISES, COMPARES) else binds - 1)
        return Term(f"{left} {known.sign} {other.within(binds)}", binds)
    if kind is p.integer_pow_p:
        return Term(f"{terms[0].within(RAISES)} ** {eqn.params['y']}", RAISES)
    if kind is p.square_p:
        return Term(f"{terms[0].within(RAISES)} ** 2", RAISES)
    if kind is p.neg_p:
        return Term(f"-{terms[0].within(NEGATES)}", NEGATES)
    if kind is p.dot_general_p and _is_product(eqn):
        left, right = terms[0].within(MULTIPLIES - 1), terms[1].within(MULTIPLIES)
        return Term(f"{left} @ {right}", MULTIPLIES)
    if kind is p.transpose_p and _is_reversal(eqn.params["permutation"]):
        return Term(f"{terms[0].within(RAISES)}.T")
    return None


def _function(eqn: introspect.JaxprEqn, known: Operation, terms: Sequence[Term]) -> Term:
    texts = [term.text for term in terms]
    if eqn.primitive is p.select_n_p and len(terms) == 3:
        which, other, one = texts
        return Term(f"where({which}, {one}, {other})")
    if eqn.primitive is p.pad_p:
        texts = texts[:1]  # the rest says with what, and not how much
    name = visible(known.function or eqn.primitive.name)
    return Term(f"{name}({', '.join((*texts, *_axes(eqn)))})")


def _axes(eqn: introspect.JaxprEqn) -> list[str]:
    """The arguments that tell along which axes an equation goes, if not along all."""
    params, given = eqn.params, len(_shape(eqn.invars[0]))
    if eqn.primitive is p.transpose_p:
        return [str((*params["permutation"],))]
    if eqn.primitive is p.sort_p:
        return [str(params["dimension"])] if given > 1 else []
    if eqn.primitive in _ALONG:
        axis = [str(params["axis"])] if given > 1 else []
        return [*axis, *(["reverse=True"] if params["reverse"] else [])]
    axes = params.get("axes", ())
    if not axes or not isinstance(axes, tuple) or len(axes) == given:
        return []
    return [str(axes[0] if len(axes) == 1 else axes)]


def _repeats(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation that only arranges values has some of them several times."""
    given, made = _shapes(eqn)
    if eqn.primitive is not p.broadcast_in_dim_p:
        return False
    at = dict(zip(eqn.params["broadcast_dimensions"], given, strict=True))
    return any(length not in (1, at.get(k)) for k, length in enumerate(made))


def _places(eqn: introspect.JaxprEqn) -> bool:
    """Whether NumPy would put the dimensions of its operand to the same places."""
    given, made = _shapes(eqn)
    if eqn.primitive is p.broadcast_in_dim_p:
        at = (*eqn.params["broadcast_dimensions"],)
        return at == (*range(len(made) - len(given), len(made)),) or not _longer(given)
    return _longer(given) == _longer(made)


def _longer(shape: Sequence[Any]) -> Sequence[Any]:
    """A shape without the first dimensions of length 1."""
    return [*itertools.dropwhile(lambda length: length == 1, shape)]


def _shapes(eqn: introspect.JaxprEqn) -> tuple[Sequence[Any], Sequence[Any]]:
    return _shape(eqn.invars[0]), _shape(eqn.outvars[0])


def _shape(atom: introspect.Atom) -> Sequence[Any]:
    return getattr(atom.aval, "shape", ())


def _is_integer(eqn: introspect.JaxprEqn) -> bool:
    aval: Any = eqn.outvars[0].aval
    return jnp.issubdtype(aval.dtype, jnp.integer)


def _is_reversal(permutation: Sequence[int]) -> bool:
    return [*permutation] == [*range(len(permutation))][::-1]


def _is_product(eqn: introspect.JaxprEqn) -> bool:
    """Whether it is `a @ b` of NumPy."""
    (left, right), (batch, other) = eqn.params["dimension_numbers"]
    a, b = (len(_shape(atom)) for atom in eqn.invars)
    same = (*batch,) == (*other,) == (*range(max(a - 2, 0)),) or not (batch or other)
    return same and (*left,) == (a - 1,) and (*right,) == (max(b - 2, 0),)
