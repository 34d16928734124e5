"""The user's functions that run inside of a folded equation."""

from taxpr import introspect
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._text.source_frames import frames_of

_READ = 2000  # equations: what comes after so many is rarely something new, and takes long


def calls_in(eqn: introspect.JaxprEqn) -> list[str]:
    """The names of the user's functions that an equation's own function calls, in their order.

    One whose derivative is taken comes again, as `∂ loss`.
    """
    found: dict[str, None] = {}
    for nested in introspect.nested_jaxprs(eqn):
        _note(found, nested)
    return list(found)


def _note(found: dict[str, None], nested: introspect.Nested) -> None:
    eqns = nested.jaxpr.eqns[:_READ]
    stacks = [[frame.name for frame in frames_of(eqn)] for eqn in eqns]
    first = {stack[0] for stack in stacks if stack}
    own = int(len(first) == 1)  # the function that the jaxpr was traced from
    for eqn, stack in zip(eqns, stacks, strict=True):
        sign = "∂ " if pass_of(eqn) == "backward" else ""
        if name := next(filter(None, stack[own:]), ""):
            found[f"{sign}{name}"] = None
            continue
        for inner in introspect.nested_jaxprs(eqn):
            if name := function_of(inner, eqn):
                found[f"{sign}{name}"] = None
            else:
                _note(found, inner)
