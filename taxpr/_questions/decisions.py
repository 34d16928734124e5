"""Follow the decisions of a NaN: a comparison with it is false, and a selection goes by that.

The results of such tests are followed as one bit, through integers and bools, to the selection, the
branch or the carry that they decide.
"""

from collections.abc import Sequence
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._questions.bits import INF, NAN, dtype_of, either, takes
from taxpr._questions.copies import shape_of
from taxpr._questions.depends import Depends
from taxpr._questions.inside_out import Loop
from taxpr._source.files import is_user_file
from taxpr._untyped import np

DECIDED = 8  # beside the bits of floats
# What tests floats, with what of these it sees.
_TESTS = {getattr(lax, f"{name}_p"): NAN for name in ("eq", "ne", "lt", "le", "gt", "ge")}
# What is equal to an infinity is one: `jax.numpy.isinf`. What is greater than a number need not be.
_TESTS.update(dict.fromkeys((lax.is_finite_p, lax.eq_p, lax.ne_p), NAN | INF))


def tests(eqn: JaxprEqn) -> bool:
    """Whether an equation compares floats, or asks whether they are finite."""
    return eqn.primitive in _TESTS


def unhandled(eqn: JaxprEqn, bits: Any, made: Any, by: JaxprEqn | None) -> Any:
    """The bad elements of a test's operand, without those that its own maker tests.

    A function of a library that computes a NaN and asks for it, as `jax.numpy.logaddexp` of two
    infinities does, gives what it means by that.

    Args:
        eqn: The test.
        bits: The bad bits of the operand.
        made: The bits of these that began there; None for nothing.
        by: The equation where they began.
    """
    if made is None or by is None or not tests(eqn) or _call_of(by) != _call_of(eqn):
        return bits
    return bits & ~made


def _call_of(eqn: JaxprEqn) -> tuple[Any, ...]:
    """The innermost call of a user's function; empty in a jaxpr that a library traced."""
    for code, instruction in zip(*_compat.frames_of(eqn), strict=True):
        if is_user_file(code.co_filename, eqn):
            return code, instruction
    return ()


def tested(eqn: JaxprEqn, bits: Any) -> Any:
    """The bits of an operand that decide results of an equation that are no floats."""
    seen = _TESTS.get(eqn.primitive, 0) | DECIDED
    return np.where(bits & np.uint8(seen), np.uint8(DECIDED), np.uint8(0))


def selects(eqn: JaxprEqn, operand: int) -> bool:
    """Whether an operand says, element by element, which of the others the result has."""
    return operand == 0 and eqn.primitive is lax.select_n_p


def chooses(eqn: JaxprEqn) -> bool:
    """Whether the first operand says which of several jaxprs runs."""
    return eqn.primitive is lax.cond_p


def decided(eqn: JaxprEqn, number: int, depends: Depends, bad: Sequence[Any]) -> Any:
    """The elements of an integer or bool result that a test of bad elements decided."""
    found: Any = None
    for k, bits in enumerate(bad):
        if bits is None or not (bits := tested(eqn, bits)).any():
            continue
        exact = depends.exact
        reached = depends.decided(bits) if selects(eqn, k) else depends.onward(k, number, bits)
        if depends.exact:
            found = either(found, reached)
        depends.exact = exact  # what is not sure is not said, as of random numbers
    return found


def chosen(eqn: JaxprEqn, to: int, lead: int, by: Any, bits: Any) -> Any:
    """The bad bits of a result whose branch was chosen by a test of something bad.

    Args:
        eqn: The equation that chooses.
        to: The number of the result.
        lead: The number of leading axes.
        by: The bad bits of its first operand.
        bits: The bits of the result.
    """
    out = eqn.outvars[to]
    by = by.reshape(by.shape[:lead] + (1,) * len(shape_of(out))) & np.uint8(DECIDED)
    if not takes(dtype_of(out)):
        return by
    return None if bits is None else np.where(by, bits, np.uint8(0))


def decision_handed_on(call: Loop, k: int, init: Any, outs: Any) -> Any:
    """For a carry that is no float: which iterations get one that something bad has decided."""
    if init is None and outs is None:
        return None
    outs = np.zeros_like(call.enter(init, "in", k)) if outs is None else outs
    init = np.zeros_like(call.leave(outs, "in", k)) if init is None else init
    handed = call.handed_on(init, outs) & np.uint8(DECIDED)
    return handed if handed.any() else None
