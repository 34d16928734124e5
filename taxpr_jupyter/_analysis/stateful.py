"""Find the inputs and outputs of a program that are values of states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax

import taxpr


@dataclasses.dataclass(frozen=True)
class StateEnds:
    """Where the value of a state enters and leaves a program.

    Attributes:
        name: The name of the state.
        ins: Which flat inputs are the leaves of its value.
        outs: Which flat outputs are those of its final value.
        leaves: The names of the leaves, such as `bn['mean']`; of a value that is one array that
            of the state.
        written: Whether the program writes it; else the outputs are the inputs.
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
        states: Where they enter and leave, in the order of the inputs.
    """

    states: tuple[StateEnds, ...] = ()


def states_of(program: Any) -> tuple[StateEnds, ...]:
    """Where the states of a program enter and leave; () for one without.

    And () for one whose inputs or outputs are others by now, as after `taxpr.Program.until`.
    """
    states = program.states if isinstance(program, StatefulProgram) else ()
    ins, outs = program.in_names, program.out_names
    known = all(
        ins[one.ins.start : one.ins.stop] == outs[one.outs.start : one.outs.stop] for one in states
    )
    return states if known else ()


def shown_names(program: taxpr.Program) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs for people: those of states without a word before them."""
    ins, outs = list(program.in_names), list(program.out_names)
    for one in states_of(program):
        ins[one.ins.start : one.ins.stop] = one.leaves
        outs[one.outs.start : one.outs.stop] = one.leaves
    return ins, outs


def state_leaves(program: Any) -> dict[str, str]:
    """The names of the arrays of states, by the addresses of the inputs and outputs they are."""
    found: dict[str, str] = {}
    for one in states_of(program):
        for i, j, leaf in zip(one.ins, one.outs, one.leaves, strict=True):
            found[f"in{i}"] = found[f"out{j}"] = leaf
    return found


def stateful_program(
    program: taxpr.Program, states: Mapping[str, Any], written: Iterable[str]
) -> StatefulProgram:
    """The program of a pure function of states, with what is known of these.

    Args:
        program: From ``(states, *args, **kwargs)`` to ``(out, states)``.
        states: The values of the states by name.
        written: The names of those that it writes.
    """
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
    parts = {f.name: getattr(program, f.name) for f in dataclasses.fields(taxpr.Program)}
    parts["out_names"] = (
        *(f"out{name.removeprefix('out[0]')}" for name in program.out_names[:first]),
        *program.in_names[:at],
    )
    return StatefulProgram(**parts, states=tuple(ends))


def injected_program(injected: taxpr.Injected, program: taxpr.Program) -> taxpr.Program:
    """A program with injectors, as one with the states of the program that was injected."""
    states = states_of(program)
    if not states:
        return injected
    shift = len(injected.invars) - len(program.invars)  # the context comes first
    moved = tuple(
        dataclasses.replace(one, ins=range(one.ins.start + shift, one.ins.stop + shift))
        for one in states
    )
    parts = {f.name: getattr(injected, f.name) for f in dataclasses.fields(taxpr.Program)}
    return StatefulProgram(**parts, states=moved)
