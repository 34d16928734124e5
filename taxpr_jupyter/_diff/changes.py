"""Describe in words how two partner equations differ: params, literals, types."""

import dataclasses
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from taxpr import introspect
from taxpr_jupyter._analysis.param_keys import holds_jaxpr
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff.pairing import Pairs
from taxpr_jupyter._text import short

_WIDTH = 40  # characters of one value in a text


@dataclasses.dataclass
class EqnDifference:
    """The differences of two equations.

    Attributes:
        hard: Changes of the equation itself.
        soft: Changes that follow from other operand types, if these differ.
        typed: Whether the types of the operands differ.
    """

    hard: list[str] = dataclasses.field(default_factory=list)
    soft: list[str] = dataclasses.field(default_factory=list)
    typed: bool = False


def different(
    before: Any, after: Any, operands: Pairs, results: Pairs, keys: Keys
) -> EqnDifference:
    """Compare two equations of the same primitive, given the pairs of operands and of results."""
    found = EqnDifference()
    shapes = dtypes = False
    for k, m in operands.items():
        ours, theirs = before.invars[k], after.invars[m]
        literals = introspect.is_literal(ours) + introspect.is_literal(theirs)
        if literals == 2 and not one_value(ours.val, theirs.val):
            found.hard.append(literal_change(k, ours, theirs))
        elif keys.aval(ours.aval) != keys.aval(theirs.aval):
            text = f"operand {k} {type_text(ours.aval, theirs.aval)}"
            found.soft.append(text)
            if literals == 0:
                found.typed = True
                shapes |= np.shape(ours.aval) != np.shape(theirs.aval)
                dtypes |= _dtype(ours.aval) != _dtype(theirs.aval)
    for k, m in results.items():
        ours, theirs = before.outvars[k].aval, after.outvars[m].aval
        if keys.aval(ours) != keys.aval(theirs):
            name = f"result {k} " if len(before.outvars) > 1 else ""
            found.soft.append(f"{name}{type_text(ours, theirs)}")
    for word, ours, theirs in (
        ("operands", before.invars, after.invars),
        ("results", before.outvars, after.outvars),
    ):
        if len(ours) != len(theirs):
            found.hard.append(f"{word} {len(ours)}→{len(theirs)}")
    _params(before, after, keys, found, shapes, dtypes)
    return found


def literal_change(k: int, before: Any, after: Any) -> str:
    """`operand 1 2.0→3.0`."""
    return f"operand {k} {_arrow(short.literal_text(before), short.literal_text(after))}"


def type_text(before: Any, after: Any) -> str:
    """`dtype f32→bf16`, `shape (3,)→(4,)`."""
    texts = []
    if np.shape(before) != np.shape(after):
        texts.append(f"shape {_arrow(str(before.shape), str(after.shape))}")
    if _dtype(before) != _dtype(after):
        texts.append(f"dtype {_arrow(_short_dtype(before), _short_dtype(after))}")
    weak = [getattr(aval, "weak_type", False) for aval in (before, after)]
    if weak[0] != weak[1]:
        texts.append("weak type" if weak[1] else "no weak type")
    if not texts:
        ours, theirs = short.aval_text(before), short.aval_text(after)
        texts.append(_arrow(ours, theirs) if ours != theirs else "sharding")
    return ", ".join(texts)


def _params(
    before: Any, after: Any, keys: Keys, found: EqnDifference, shapes: bool, dtypes: bool
) -> None:
    ours, theirs = _shown_params(before), _shown_params(after)
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            found.hard.append(f"param {name} {'removed' if name in ours else 'added'}")
            continue
        a, b = keys.param(ours[name]), keys.param(theirs[name])
        if a == b or holds_jaxpr(a) or holds_jaxpr(b):
            continue
        texts = [_param_text(side[name]) for side in (ours, theirs)]
        text = f"param {short.visible(name)}"
        if texts[0] != texts[1]:
            text = f"{text} {_arrow(*texts)}"
        follows = (shapes and _is_shape(ours[name], before) and _is_shape(theirs[name], after)) or (
            dtypes and _is_dtype(ours[name], before) and _is_dtype(theirs[name], after)
        )
        (found.soft if follows else found.hard).append(text)


def _param_text(value: Any) -> str:
    """The text of a param; of a function its name."""
    known = hasattr(value, "call_wrapped") or isinstance(value, types.FunctionType)
    return value.__name__ if known else short.param_text(value)


def _shown_params(eqn: introspect.JaxprEqn) -> dict[str, Any]:
    if not introspect.is_tag(eqn):
        return dict(eqn.params)
    return {str(name): value for name, value in introspect.tag_params(eqn).items()}


def _is_shape(value: Any, eqn: introspect.JaxprEqn) -> bool:
    """Whether a param only repeats the shape of a result."""
    return isinstance(value, tuple) and any(value == np.shape(v.aval) for v in eqn.outvars)


def _is_dtype(value: Any, eqn: introspect.JaxprEqn) -> bool:
    return isinstance(value, np.dtype) and any(value == _dtype(v.aval) for v in eqn.outvars)


def one_value(before: Any, after: Any) -> bool:
    """Whether two literals have the same value, in possibly different dtypes."""
    ours, theirs = np.asarray(before), np.asarray(after)
    if ours.shape != theirs.shape:
        return False
    if ours.dtype == theirs.dtype:
        return ours.tobytes() == theirs.tobytes()
    try:
        there, here = ours.astype(theirs.dtype), theirs.astype(ours.dtype)
    except (TypeError, ValueError):
        return False
    return there.tobytes() == theirs.tobytes() or here.tobytes() == ours.tobytes()


def _dtype(aval: Any) -> Any:
    return getattr(aval, "dtype", None)


def _short_dtype(aval: Any) -> str:
    return short.aval_text(aval).partition("[")[0]


def _arrow(before: str, after: str) -> str:
    return f"{short.shortened(before, _WIDTH)}→{short.shortened(after, _WIDTH)}"


def joined(texts: Sequence[str]) -> str:
    """Join texts; equal ones appear once."""
    return "; ".join(dict.fromkeys(texts))
