"""The branches of a closed conditional, in few words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._text import short
from taxpr_jupyter._text.paths import path_parts

_WIDTH = 24  # characters of the text of a lambda
_MOST = 6  # branches
_RESULTS = 4  # of a branch, of which it is told what they are


class Called(NamedTuple):
    """The names of the operands and results of a conditional, "" for each without one.

    Attributes:
        operands: By the number of the operand, the index included.
        results: The variables that hold the results.
    """

    operands: Sequence[str]
    results: Sequence[str]


NAMELESS = Called((), ())


def branches_in(eqn: introspect.JaxprEqn, called: Called = NAMELESS) -> list[str]:
    """`false: unchanged`, `true: apply`: the branches of a `cond` or `switch`; [] of others.

    A branch is named by its function, or by the text of its lambda. It is unchanged if it hands on
    operands in their order, and no other branch hands on others. The results that
    a branch does not compute are told: `false: skip (loss = 0.0, params unchanged)`. The branches
    of a derivative, which has the functions of the forward pass, are not named.
    """
    if eqn.primitive is not p.cond_p or pass_of(eqn) == "backward":
        return []
    nested = introspect.nested_jaxprs(eqn)
    handed = {at for one in nested if (at := _operands_of(one)) is not None}
    told: list[str] = []
    for one in nested[:_MOST]:
        words = _words(one, eqn, alike=len(handed) < 2)
        if text := _with_results(words, one, called):
            told.append(f"{key_of(one)}: {text}")
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


def _with_results(words: str, nested: introspect.Nested, called: Called) -> str:
    """The words for a branch with those for the results that it does not compute."""
    bare = _is_bare(nested.jaxpr)
    if words == "unchanged" or (bare and len(nested.results) == 1 and words):
        return words
    told = list(_results(nested, called))
    same = ", ".join(name for name, value in told if name == value)
    others = [f"{name} = {value}" for name, value in told if name != value]
    if not told or len(told) > _RESULTS:
        return words
    text = ", ".join([*others, *([f"{same} unchanged"] if same else [])])
    return f"{words} ({text})" if words and not bare else text


def _results(nested: introspect.Nested, called: Called) -> Iterator[tuple[str, str]]:
    """Names of results with the literal or the operand that each is; for a tree once, if all are.

    A branch that takes `params['w']` and `params['b']` has `params`, `params`.
    """
    inputs, jaxpr = list(nested.jaxpr.invars), nested.jaxpr
    values: dict[str, list[tuple[str, str, str]]] = {}  # by the variable; "" for what is computed
    for out, at in zip(jaxpr.outvars, nested.results, strict=True):
        name = called.results[at] if at is not None and at < len(called.results) else ""
        if not name:
            continue
        root, *parts = path_parts(name)
        value = whole = ""
        end = "".join(parts)
        if introspect.is_literal(out):
            value = whole = short.literal_text(out)
        elif out in inputs and (k := nested.operands[inputs.index(out)]) is not None:
            value = called.operands[k] if k < len(called.operands) else ""
            if called.operands.count(value) > 1:  # `old = params`, and the `params` made after it
                value = ""
            whole = value.removesuffix(end) if value.endswith(end) else ""
        values.setdefault(root, []).append((name, value, whole))
    for root, found in values.items():
        roots = {whole for _, _, whole in found}
        if len(found) == 1:
            yield from ((name, value) for name, value, _ in found if value)
        elif len(roots) == 1 and "" not in roots:
            yield root, roots.pop()


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
