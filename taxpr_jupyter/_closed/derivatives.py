"""The parts of the user's code that a folded part of a backward pass goes back through."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from taxpr import introspect
from taxpr_jupyter._analysis.sizes import is_loop

_READ = 2000  # equations: after so many comes little that is new
FEW = 8  # equations: so few need no words for their parts
_TARGET = re.compile(r"([^()=:]+?)(?:: [^=]+?)? (?:[-+*/@%&|^]|<<|>>|//|\*\*)?= ")

Stack = Sequence[introspect.Statement]  # outermost first


class _Read(NamedTuple):
    """An equation with the statements that were running.

    Attributes:
        eqn: The equation.
        stack: The statements, without the user's derivative rules.
        rule: The name of the outermost function of a rule that made it; "" without one.
    """

    eqn: introspect.JaxprEqn
    stack: Stack
    rule: str


def gone_back(eqns: Iterable[introspect.JaxprEqn], in_loop: bool = False) -> list[str]:
    """The variables whose derivatives some equations of a backward pass take, in their order.

    `∂ td, ∂ backup`. Besides there are the rules of `jax.custom_vjp` with the jitted functions that
    they call, `contact_bwd: clip`, and `∂ of backward pass of mse`.

    Args:
        eqns: The equations.
        in_loop: Whether they are in a loop of the backward pass.
    """
    return list(dict.fromkeys(_names([*eqns][:_READ], in_loop)))


def target_of(eqn: introspect.JaxprEqn) -> str:
    """The variable that the user's innermost assignment around an equation makes, or ""."""
    found = (_TARGET.match(one.text) for one in introspect.statements_of(eqn))
    return next((target[1] for target in found if target), "")


def _names(eqns: Sequence[introspect.JaxprEqn], in_loop: bool) -> Iterator[str]:
    read = [_read(eqn) for eqn in eqns]
    # JAX moves equations into a loop from outside, and sums have no place of their own.
    functions = Counter(_function(one.stack[0]) for one in read if one.stack)
    root = functions.most_common(1)[0][0] if functions else None
    own = [one.stack for one in read if one.stack and _function(one.stack[0]) == root]
    level = _shared(own)
    for one in read:
        within = bool(one.stack) and _function(one.stack[0]) == root
        inner = one.stack[level:] if within else ()
        if within and _is_second(one.eqn, in_loop):
            called = _differentiated(one.stack)
            yield f"∂ of backward pass of {called}" if called else "∂ of a backward pass"
        elif one.rule:
            yield from _of_rule(one, read)
        else:
            yield from _of_code(one.eqn, inner, in_loop)


def _of_code(eqn: introspect.JaxprEqn, stack: Stack, in_loop: bool) -> Iterator[str]:
    nested = introspect.nested_jaxprs(eqn) if is_loop(eqn) or not stack else ()
    found = [
        name for one in nested for name in gone_back(one.jaxpr.eqns, in_loop or bool(one.back))
    ]
    if found or not stack:
        yield from found
        return
    if target := _TARGET.match(stack[0].text):
        yield f"∂ {target[1]}"
    elif name := next((_name(frame) for frame in stack[1:] if _name(frame)), ""):
        yield f"∂ {name}"


def _of_rule(one: _Read, read: Sequence[_Read]) -> Iterator[str]:
    called = [
        str(other.eqn.params["name"])
        for other in read
        if other.rule == one.rule and introspect.is_hop(other.eqn) and "name" in other.eqn.params
    ]
    yield ": ".join(filter(None, (one.rule, ", ".join(dict.fromkeys(called)))))


def _read(eqn: introspect.JaxprEqn) -> _Read:
    every = introspect.statements_of(eqn)[::-1]
    stack = introspect.statements_of(eqn, rules=False)[::-1]
    return _Read(eqn, stack, _name(every[len(stack)]) if len(every) > len(stack) else "")


def _is_second(eqn: introspect.JaxprEqn, in_loop: bool) -> bool:
    """Whether it is the derivative of an equation of another backward pass.

    The name stack of a loop's body begins anew, without the backward pass around it.
    """
    return [*introspect.transformations_of(eqn)].count("transpose") + in_loop > 1


def _differentiated(stack: Stack) -> str:
    """The innermost function that the statement calling it differentiates: `jax.grad(loss)(w)`."""
    called = ((_name(frame), by.text) for by, frame in itertools.pairwise(stack))
    names = [name for name, text in called if name and re.search(rf"grad\({name}\b", text)]
    return names[-1] if names else ""


def _shared(stacks: Sequence[Stack]) -> int:
    """How many statements all stacks begin with."""
    if not stacks:
        return 0
    level = 0
    while all(len(stack) > level for stack in stacks) and (
        len({(stack[level].file, stack[level].place) for stack in stacks}) == 1
    ):
        level += 1
    return level


def _function(frame: introspect.Statement) -> tuple[str, int, str]:
    return frame.file, frame.begins, frame.function


def _name(frame: introspect.Statement) -> str:
    """The name of a function, of a module its class; "" of a lambda or a comprehension."""
    around, _, name = frame.function.rpartition("<locals>.")[2].rpartition(".")
    name = around if name == "__call__" and around else name
    return name if name.isidentifier() else ""
