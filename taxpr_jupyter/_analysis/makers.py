"""Find where the outputs of a program are made, also inside of calls."""

from collections.abc import Iterable

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.def_use import INPUT, DefUse


def made_at(program: taxpr.Program, outputs: Iterable[int]) -> dict[int, str]:
    """The address of the maker of each output; without outputs that are no value.

    A call that runs its jaxpr once hands results on, so the value inside it is told. For a loop or
    a conditional it is the result of the equation: the value in an iteration or a branch is another
    one, and may not be computed at all.
    """
    found = {k: _maker(DefUse(program), program.outvars[k], taxpr.Address()) for k in outputs}
    return {k: address for k, address in found.items() if address}


def _maker(graph: DefUse, atom: introspect.Atom, within: taxpr.Address) -> str:
    if introspect.is_literal(atom):
        return ""
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
                inside = _maker(DefUse(nested.jaxpr), inner, within / local / nested.label)
                return inside or f"{within / local}.{k}"
    return f"{within / local}.{k}"
