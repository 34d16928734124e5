"""The groups of an optimizer that treats some parameters in one way and some in another."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp

from taxpr import introspect
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text import paths, titles

# These apply one transformation to each group: `optax.partition` had the second name before.
PARTITIONS = frozenset({"partition", "multi_transform"})
_STATE = re.compile(r"\.(mu|nu|trace)(?=[.\[])")  # in the path of another part of the state
_ZEROS = "set_to_zero"
_MOST = 4  # keys that tell the parameters of a group
_WIDTH = 36  # characters of a line
_LABEL = re.compile(r"\binner_states\[(.+?)\](?=\.|\[|$)")  # in the path of a state
_LEAF = re.compile(r"\.mu(?=[.\[])")  # before the path of a parameter, in the state of its momentum


class MadeBy(NamedTuple):
    """An equation of an optimizer, and the functions of the optimizer that made it.

    Attributes:
        functions: Their names, outermost first: `chain`, `scale_by_adam`.
        eqn: The equation.
    """

    functions: tuple[str, ...]
    eqn: introspect.JaxprEqn


@dataclass
class UpdateGroup:
    """A group of parameters, and how an optimizer updates it.

    Attributes:
        label: The user's name for it, `ssm`; "" if it is not known.
        parts: The transformations, in their order.
        members: The paths of its parameters; empty if they are not known.
    """

    label: str = ""
    parts: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)


def update_groups(
    made_by: Iterable[MadeBy], known: Mapping[Any, str], results: Mapping[Any, str]
) -> Sequence[UpdateGroup]:
    """The groups of an optimizer's call; () without groups, or if they are not certain.

    The path of a state has the label of the group that it belongs to. A transformation without a
    state belongs to the group whose results it takes.

    Args:
        made_by: The equations of the call.
        known: The names of inputs.
        results: The variables that hold the results of the call, by value.
    """
    groups: list[UpdateGroup] = []
    made: dict[Any, UpdateGroup] = {}  # by the value
    for part, eqns in _runs(made_by):
        operands = [a for eqn in eqns for a in eqn.invars if not introspect.is_literal(a)]
        own = {var for eqn in eqns for var in eqn.outvars}
        names = [known[var] for var in operands if var in known]
        found = {match[1].strip("'\"") for name in names if (match := _LABEL.search(name))}
        before = [made[var] for var in operands if var in made and var not in own]
        found.update(group.label for group in before if group.label)
        label = found.pop() if found else ""
        before += (group for group in groups if label and group.label == label)
        if found or len({id(group) for group in before}) > 1:
            return ()
        group = next(iter(before), None)
        if group is None:
            groups.append(group := UpdateGroup())
        group.label = label
        group.parts += [part] if part not in group.parts[-1:] else []
        group.members += [name[at.end() :] for name in names if (at := _LEAF.search(name))]
        made.update(dict.fromkeys(own, group))
    for group in groups:
        names = [name for var, name in results.items() if made.get(var) is group]
        names = [name for name in names if not _LABEL.search(name)]
        leaves = dict.fromkeys("".join(paths.path_parts(name)[1:]) for name in names)
        if not leaves or (group.members and {*group.members} != {*leaves}):
            return ()  # such as two groups that begin with one transformation without a state
        group.members = [*leaves]
    if len(groups) < 2:
        return ()
    told = {leaf for group in groups for leaf in group.members}
    if not _scalars(known) <= told:
        for group in groups:
            group.members = [] if _ZEROS in group.parts else group.members
    return groups


def _scalars(known: Mapping[Any, str]) -> set[str]:
    """The paths of single floats among inputs.

    The zero that is the update of one is a number in the program, and no equation makes it.
    """
    return {
        "".join(paths.path_parts(name)[1:])
        for var, name in known.items()
        if not _LABEL.search(name)
        and len(paths.path_parts(name)) > 1
        and getattr(var.aval, "shape", None) == ()
        and jnp.issubdtype(var.aval.dtype, jnp.floating)
    }


def update_lines(
    parts: Sequence[str],
    made_by: Sequence[MadeBy],
    known: Mapping[Any, str],
    results: Mapping[Any, str],
) -> Sequence[str]:
    """The lines on an optimizer's call: its parts, and each group with how it is updated.

    Such as `clip → partition`, `ssm: scale_by_adam → scale`, `B, log_dt (4 arrays)`; and
    `set_to_zero of bias → scale`, with the parameters whose updates are set to zero.

    Args:
        parts: The parts.
        made_by: The equations of the call.
        known: The names of inputs.
        results: The variables that hold the results of the call, by value.
    """
    groups = update_groups(made_by, known, results)
    if not groups:
        frozen = _frozen(made_by, known, results)
        told = (f"{part} of {frozen}" if frozen and part == _ZEROS else part for part in parts)
        return titles.list_lines(" → ".join(told))
    chain = [part.partition(" of ")[0] for part in parts]
    lines = titles.list_lines(" → ".join(chain)) if len(chain) > 1 else []
    words = paths.apart([group.members for group in groups], _MOST)
    for group, told in zip(groups, words, strict=True):
        chain = " → ".join(group.parts)
        lines += titles.list_lines(f"{group.label}: {chain}" if group.label else chain, _WIDTH)
        number = len(group.members)
        if not number:
            continue
        if told != group.label:
            several = f"{told} ({count_of(number, 'array')})" if number > 1 else told
            lines += titles.list_lines(several if told else count_of(number, "array"), _WIDTH)
        elif number > 1:
            lines.append(count_of(number, "array"))
    return lines


def _frozen(made_by: Sequence[MadeBy], known: Mapping[Any, str], results: Mapping[Any, str]) -> str:
    """The parameters whose updates an optimizer sets to zero; "" if one is not certain."""
    found: list[str] = []
    zeros = [at for at, one in enumerate(made_by) if one.functions[-1:] == (_ZEROS,)]
    if zeros and _scalars(known):
        return ""
    for at in zeros:
        leaves = _leaves_of(made_by[at].eqn, made_by[at + 1 :], known, results)
        if len(leaves) != 1:
            return ""
        found += leaves
    return ", ".join(map(paths.key_of, found)) if len(found) <= _MOST else f"{len(found)} arrays"


def _leaves_of(
    eqn: introspect.JaxprEqn,
    after: Sequence[MadeBy],
    known: Mapping[Any, str],
    results: Mapping[Any, str],
) -> set[str]:
    """The paths of the parameters that an update is for: it goes with their momentum only.

    A value goes through equations that keep its shape; a norm of all updates does not.
    """
    aval: Any = eqn.outvars[0].aval
    reached, leaves = {*eqn.outvars}, set[str]()
    momenta = {var: name[at.end() :] for var, name in known.items() if (at := _LEAF.search(name))}
    for _, one in after:
        operands = {atom for atom in one.invars if not introspect.is_literal(atom)}
        outs: list[Any] = [out.aval for out in one.outvars]
        if introspect.is_hop(one) or [getattr(out, "shape", None) for out in outs] != [aval.shape]:
            continue
        if reached.isdisjoint(operands):
            own = {momenta[var] for var in operands if var in momenta}
            momenta.update((one.outvars[0], leaf) for leaf in own)
            continue
        reached.add(one.outvars[0])
        leaves.update(momenta[var] for var in operands if var in momenta)
    for var in reached.intersection(results):
        if (name := results[var]) and not _STATE.search(name):
            leaves.add("".join(paths.path_parts(name)[1:]))
    return leaves


def _runs(made_by: Iterable[MadeBy]) -> Iterator[tuple[str, list[Any]]]:
    """The transformations of groups in their order, with their equations."""
    for row, same in itertools.groupby(made_by, lambda one: one.functions):
        at = next((k for k, name in enumerate(row) if name in PARTITIONS), len(row))
        if at + 1 < len(row):
            yield row[-1], [one.eqn for one in same]
