"""Find the inputs and outputs of a program that are values of states."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax

import taxpr


@dataclasses.dataclass(frozen=True)
class StateEnds:
    """The inputs and outputs of a program that are the value of one state.

    Attributes:
        name: The name of the state.
        ins: The flat inputs that are the leaves of its value.
        outs: The flat outputs that are the leaves of its final value.
        leaves: The names of the leaves, such as `bn['mean']`; if the value is a single array, the
            name of the state.
        written: Whether the program writes it. If not, the outputs are the inputs.
    """

    name: str
    ins: range
    outs: range
    leaves: tuple[str, ...]
    written: bool


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class StatefulProgram(taxpr.Program):
    """A program ``(states, *args, **kwargs) -> (out, states)``, states by name.

    Attributes:
        states: Their inputs and outputs, in the order of the inputs.
    """

    states: tuple[StateEnds, ...] = ()


def states_of(program: Any) -> tuple[StateEnds, ...]:
    """The inputs and outputs of a program's states; () for a program without states.

    Also () for a program with other inputs or outputs by now, as after `taxpr.Program.until`.
    """
    states = program.states if isinstance(program, StatefulProgram) else ()
    ins, outs = program.in_names, program.out_names
    known = all(
        ins[one.ins.start : one.ins.stop] == outs[one.outs.start : one.outs.stop] for one in states
    )
    return states if known else ()


def shown_names(program: taxpr.Program) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs for people: values of states have the states' names."""
    ins, outs = list(program.in_names), list(program.out_names)
    for one in states_of(program):
        ins[one.ins.start : one.ins.stop] = one.leaves
        outs[one.outs.start : one.outs.stop] = one.leaves
    return ins, outs


def state_leaves(program: Any) -> dict[str, str]:
    """The names of the arrays of states, by the addresses of their inputs and outputs."""
    found: dict[str, str] = {}
    for one in states_of(program):
        for i, j, leaf in zip(one.ins, one.outs, one.leaves, strict=True):
            found[f"in{i}"] = found[f"out{j}"] = leaf
    return found


def stateful_program(
    program: taxpr.Program, states: Mapping[str, Any], written: Iterable[str]
) -> StatefulProgram:
    """Add to a program ``(states, *args, **kwargs) -> (out, states)`` where its states are."""
    written = frozenset(written)
    names = sorted(states)  # as JAX flattens a dict
    n_out = program.out_tree.num_leaves
    first = n_out - len(jax.tree.leaves(dict(states)))
    ends, at = [], 0
    for name in names:
        paths = jax.tree_util.tree_flatten_with_path(states[name])[0]
        leaves = tuple(f"{name}{jax.tree_util.keystr(path)}" for path, _ in paths)
        ins = range(at, at + len(leaves))
        outs = range(first + ins.start, first + ins.stop)
        ends.append(StateEnds(name, ins, outs, leaves, name in written))
        at = ins.stop
    out_names = (
        *(f"out{name.removeprefix('out[0]')}" for name in program.out_names[:first]),
        *program.in_names[:at],
    )
    return _with_states(program, ends, out_names=out_names)


def injected_program(injected: taxpr.program.Injected, program: taxpr.Program) -> taxpr.Program:
    """Add to an injected program the states of the program that was injected."""
    states = states_of(program)
    if not states:
        return injected
    shift = len(injected.invars) - len(program.invars)  # the context comes first
    return _with_states(
        injected,
        (
            dataclasses.replace(one, ins=range(one.ins.start + shift, one.ins.stop + shift))
            for one in states
        ),
    )


def _with_states(
    program: taxpr.Program, states: Iterable[StateEnds], **changes: Any
) -> StatefulProgram:
    parts = {f.name: getattr(program, f.name) for f in dataclasses.fields(taxpr.Program)}
    return StatefulProgram(**parts | changes, states=tuple(states))
