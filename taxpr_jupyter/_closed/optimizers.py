"""The groups of an optimizer that treats some parameters in one way and some in another."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taxpr import introspect
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text import paths, titles

# These apply one transformation to each group: `optax.partition` had the second name before.
PARTITIONS = frozenset({"partition", "multi_transform"})
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
    return groups if len(groups) > 1 else ()


def update_lines(
    made_by: Iterable[MadeBy], known: Mapping[Any, str], results: Mapping[Any, str]
) -> Sequence[str]:
    """The groups of an optimizer's call in words, each with how it is updated; see `update_groups`.

    Such as `ssm: scale_by_adam → scale`, `B, log_dt (4 arrays)`.
    """
    groups = update_groups(made_by, known, results)
    words = paths.apart([group.members for group in groups], _MOST)
    lines: list[str] = []
    for group, told in zip(groups, words, strict=True):
        chain = " → ".join(group.parts)
        lines += titles.list_lines(f"{group.label}: {chain}" if group.label else chain, _WIDTH)
        number = len(group.members)
        if told != group.label:
            several = f"{told} ({count_of(number, 'array')})" if number > 1 else told
            lines += titles.list_lines(several if told else count_of(number, "array"), _WIDTH)
        elif number > 1:
            lines.append(count_of(number, "array"))
    return lines


def _runs(made_by: Iterable[MadeBy]) -> Iterator[tuple[str, list[Any]]]:
    """The transformations of groups in their order, with their equations."""
    for row, same in itertools.groupby(made_by, lambda one: one.functions):
        at = next((k for k, name in enumerate(row) if name in PARTITIONS), len(row))
        if at + 1 < len(row):
            yield row[-1], [one.eqn for one in same]
