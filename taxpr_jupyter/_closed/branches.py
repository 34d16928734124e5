"""The branches of a closed conditional, in few words."""

import re
from typing import Any

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._text import short

_WIDTH = 24  # characters of the text of a lambda
_MOST = 6  # branches


def branches_in(eqn: introspect.JaxprEqn) -> list[str]:
    """`false: unchanged`, `true: apply`: the branches of a `cond` or `switch`; [] of others.

    A branch is named by its function, or by the text of its lambda. It is unchanged if it hands on
    operands in their order.
    """
    if eqn.primitive is not p.cond_p:
        return []
    nested = introspect.nested_jaxprs(eqn)
    texts = [_words(one, eqn) for one in nested[:_MOST]]
    told = [f"{_key(one)}: {text}" for one, text in zip(nested[:_MOST], texts, strict=True) if text]
    more = [f"{len(nested) - _MOST} more"] if len(nested) > _MOST else []
    return [*told, *more] if told else []


def _key(nested: introspect.Nested) -> str:
    """`true` of a `cond`, and `0` of a `switch`."""
    found = re.search(r"\((\w+)\)", nested.title)
    return found[1] if found else str(nested.facts.get("index", nested.title.split()[-1]))


def _words(nested: introspect.Nested, eqn: introspect.JaxprEqn) -> str:
    jaxpr: Any = nested.jaxpr
    if not any(not introspect.is_tag(one) for one in jaxpr.eqns):
        return _handed_on(jaxpr)
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


def _handed_on(jaxpr: Any) -> str:
    """The words for a branch that computes nothing."""
    outs, inputs = list(jaxpr.outvars), list(jaxpr.invars)
    if outs and all(map(introspect.is_literal, outs)):
        return ", ".join(map(short.literal_text, outs)) if len(outs) < 3 else "constants"
    if not outs or any(introspect.is_literal(out) or out not in inputs for out in outs):
        return ""  # a constant, or an operand with a tag
    at = [inputs.index(out) for out in outs]
    return "unchanged" if at == sorted(set(at)) else "hands on operands"
