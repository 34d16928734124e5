"""The branches of a closed conditional, in few words."""

import re
from typing import Any

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._text import short

_WIDTH = 24  # characters of the text of a lambda
_MOST = 6  # branches


def branches_in(eqn: introspect.JaxprEqn) -> list[str]:
    """`false: unchanged`, `true: apply`: the branches of a `cond` or `switch`; [] of others.

    A branch is named by its function, or by the text of its lambda. It is unchanged if it hands on
    operands in their order, and no other branch hands on others. The branches of a derivative,
    which has the functions of the forward pass, are not named.
    """
    if eqn.primitive is not p.cond_p or pass_of(eqn) == "backward":
        return []
    nested = introspect.nested_jaxprs(eqn)
    handed = {at for one in nested if (at := _operands_of(one)) is not None}
    texts = [_words(one, eqn, len(handed) < 2) for one in nested[:_MOST]]
    told = [
        f"{key_of(one)}: {text}" for one, text in zip(nested[:_MOST], texts, strict=True) if text
    ]
    more = [f"{len(nested) - _MOST} more"] if len(nested) > _MOST else []
    return [*told, *more] if told else []


def key_of(nested: introspect.Nested) -> str:
    """`true` of a `cond`, and `0` of a `switch`."""
    found = re.search(r"\((\w+)\)", nested.title)
    return found[1] if found else str(nested.facts.get("index", nested.title.split()[-1]))


def _words(nested: introspect.Nested, eqn: introspect.JaxprEqn, alike: bool) -> str:
    """The words for a branch; ``alike`` if all that compute nothing hand on the same operands."""
    jaxpr: Any = nested.jaxpr
    if _is_bare(jaxpr):
        return _handed_on(nested, alike)
    if name := function_of(nested, eqn):
        return name
    name, _, place = (getattr(jaxpr.debug_info, "func_src_info", None) or "").partition(" at ")
    file, _, line = place.rpartition(":")
    if name != "<lambda>" or introspect.is_library_file(file, eqn):
        return name if name.isidentifier() else ""
    stacks = (introspect.statements_of(one) for one in jaxpr.eqns)
    frames = (one for stack in stacks for one in stack)
    text = next((one.text for one in frames if (one.file, str(one.begins)) == (file, line)), "")
    return short.shortened(text, _WIDTH) if text else ""


def _is_bare(jaxpr: Any) -> bool:
    return all(map(introspect.is_tag, jaxpr.eqns))


def _handed_on(nested: introspect.Nested, alike: bool) -> str:
    """The words for a branch that computes nothing."""
    outs: Any = nested.jaxpr.outvars
    if outs and all(map(introspect.is_literal, outs)):
        return ", ".join(map(short.literal_text, outs)) if len(outs) < 3 else "constants"
    if (at := _operands_of(nested)) is None:
        return ""  # a constant, or an operand with a tag
    return "unchanged" if alike and list(at) == sorted(set(at)) else "hands on operands"


def _operands_of(nested: introspect.Nested) -> tuple[int, ...] | None:
    """The operands of the equation that a branch hands on; None of one that does anything else."""
    outs: Any = nested.jaxpr.outvars
    inputs = list(nested.jaxpr.invars)
    if not (outs and _is_bare(nested.jaxpr)):
        return None
    at = [
        None if introspect.is_literal(out) or out not in inputs else inputs.index(out)
        for out in outs
    ]
    found = [None if i is None else nested.operands[i] for i in at]
    return None if None in found else tuple(k for k in found if k is not None)
