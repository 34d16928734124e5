"""Find where the outputs of a program are made, also inside of calls."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT, DefUse


def made_at(program: taxpr.Program, outputs: Iterable[int]) -> dict[int, str]:
    """The address of the maker of each output; without outputs that are no value.

    A call that runs its jaxpr once hands results on, so the value inside it is told. For a loop or
    a conditional it is the result of the equation: the value in an iteration or a branch is another
    one, and may not be computed at all.
    """
    graph_of = functools.cache(DefUse)  # of each jaxpr once, for all outputs
    found = {k: _maker(graph_of, program, program.outvars[k], taxpr.Address()) for k in outputs}
    return {k: address for k, address in found.items() if address}


def _maker(
    graph_of: Callable[[Any], DefUse], jaxpr: Any, atom: introspect.Atom, within: taxpr.Address
) -> str:
    if introspect.is_literal(atom):
        return ""
    graph = graph_of(jaxpr)
    (at, k), _ = graph.behind(atom)
    if at < 0:
        return str(within / f"in{k}") if at == INPUT else ""
    local, eqn = introspect.numbered(graph.jaxpr)[at]
    for nested in introspect.nested_jaxprs(eqn):
        once = not (nested.conditional or nested.rule or nested.idle or nested.back)
        for inner, result, role in zip(
            nested.jaxpr.outvars, nested.results, nested.out_roles, strict=True
        ):
            if once and result == k and role == "out":
                inside = _maker(graph_of, nested.jaxpr, inner, within / local / nested.label)
                return inside or f"{within / local}.{k}"
    return f"{within / local}.{k}"
