"""The parts of the user's code that a folded part of a backward pass goes back through."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from taxpr import introspect
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._analysis.sizes import is_loop
from taxpr_jupyter._closed.running import (
    READ,
    Read,
    Stack,
    in_root,
    name_of,
    read,
    shared,
    targets_in,
)

FEW = 8  # equations: so few need no words for their parts


def gone_back(eqns: Iterable[introspect.JaxprEqn], in_loop: bool = False) -> list[str]:
    """The variables whose derivatives some equations of a backward pass take, in their order.

    `∂ td, ∂ backup`. Besides there are the rules of `jax.custom_vjp` with the jitted functions that
    they call, `contact_bwd: clip`, `∂ of backward pass of mse`, and `recomputes layer` where
    `jax.checkpoint` runs a function again.

    Args:
        eqns: The equations.
        in_loop: Whether they are in a loop of the backward pass.
    """
    return list(dict.fromkeys(_names([*eqns][:READ], in_loop)))


def target_of(eqn: introspect.JaxprEqn) -> str:
    """The variable that the user's innermost assignment around an equation makes, or ""."""
    found = (targets_in(one.text) for one in introspect.statements_of(eqn))
    return ", ".join(next(filter(None, found), ()))


def _names(eqns: Sequence[introspect.JaxprEqn], in_loop: bool) -> Iterator[str]:
    every = [read(eqn) for eqn in eqns]
    own = in_root(every)
    level, ids = shared([one.stack for one in own]), {*map(id, own)}
    for one in every:
        within = id(one) in ids
        inner = one.stack[level:] if within else ()
        yield from _recomputed(one.eqn)
        if within and _is_second(one.eqn, in_loop):
            called = _differentiated(one.stack)
            yield f"∂ of backward pass of {called}" if called else "∂ of a backward pass"
        elif one.rule:
            yield from _of_rule(one, every)
        else:
            yield from _of_code(one.eqn, inner, in_loop)


def _recomputed(eqn: introspect.JaxprEqn) -> Iterator[str]:
    for nested in introspect.nested_jaxprs(eqn):
        if nested.facts.get("differentiated"):
            yield f"recomputes {function_of(nested, eqn) or 'a part'}"


def _of_code(eqn: introspect.JaxprEqn, stack: Stack, in_loop: bool) -> Iterator[str]:
    nested = introspect.nested_jaxprs(eqn) if is_loop(eqn) or not stack else ()
    found = [
        name for one in nested for name in gone_back(one.jaxpr.eqns, in_loop or bool(one.back))
    ]
    if found or not stack:
        yield from found
        return
    if targets := targets_in(stack[0].text):
        yield f"∂ {', '.join(targets)}"
    elif name := next((name_of(frame) for frame in stack[1:] if name_of(frame)), ""):
        yield f"∂ {name}"


def _of_rule(one: Read, every: Sequence[Read]) -> Iterator[str]:
    called = [
        str(other.eqn.params["name"])
        for other in every
        if other.rule == one.rule and introspect.is_hop(other.eqn) and "name" in other.eqn.params
    ]
    yield ": ".join(filter(None, (one.rule, ", ".join(dict.fromkeys(called)))))


def _is_second(eqn: introspect.JaxprEqn, in_loop: bool) -> bool:
    """Whether it is the derivative of an equation of another backward pass.

    The name stack of a loop's body begins anew, without the backward pass around it.
    """
    return [*introspect.transformations_of(eqn)].count("transpose") + in_loop > 1


def _differentiated(stack: Stack) -> str:
    """The innermost function that the statement calling it differentiates: `jax.grad(loss)(w)`."""
    called = ((name_of(frame), by.text) for by, frame in itertools.pairwise(stack))
    names = [name for name, text in called if name and re.search(rf"grad\({name}\b", text)]
    return names[-1] if names else ""
