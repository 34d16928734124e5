"""What the operands and results of equations with nested jaxprs are called, at both ends.

Roles come from the table of higher-order primitives. Besides, JAX notes the names of a function's
arguments in its jaxpr: `params['w']` says more than `arg 0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import taxpr
from taxpr_jupyter._picture._labels import path_parts
from taxpr_jupyter._picture._text import shortened, visible

_WHOLE = 18  # characters: so long may a list of names at an edge be


@dataclass(frozen=True, slots=True)
class Role:
    """What one operand or result is.

    Attributes:
        kind: "carry", "x", "index" and so on; "" where only its number is known.
        name: A short text of its own: "carry 0", "x", "3".
    """

    kind: str
    name: str


def numbered(roles: Sequence[str]) -> list[str]:
    """`carry`, or `x 0`, `x 1` where a role is there more than once."""
    total, seen = Counter(roles), Counter()
    names = []
    for role in roles:
        names.append(f"{role} {seen[role]}" if total[role] > 1 else role)
        seen[role] += 1
    return names


def in_names(nested: taxpr.Nested) -> list[str]:
    """The names of a nested jaxpr's inputs; of arguments those that they have in the code."""
    known = _argument_names(nested)
    return [
        known[i] if role == "arg" and known[i] else name
        for i, (role, name) in enumerate(
            zip(nested.in_roles, numbered(nested.in_roles), strict=True)
        )
    ]


def in_paths(nested: taxpr.Nested) -> list[str]:
    """The same, to tell what belongs together: what has no name in the code has only its role."""
    known = _argument_names(nested)
    return [
        known[i] if role == "arg" and known[i] else role for i, role in enumerate(nested.in_roles)
    ]


def out_names(nested: taxpr.Nested) -> list[str]:
    """The names of a nested jaxpr's outputs."""
    return numbered(nested.out_roles)


def _argument_names(nested: taxpr.Nested) -> Sequence[str]:
    """The names of arguments in the code, "" for what has none there."""
    names = getattr(nested.jaxpr.debug_info, "arg_names", None)
    if names is None or len(names) != len(nested.in_roles):  # JAX made it of another one
        return [""] * len(nested.in_roles)
    # Two functions in one, such as a call and what it closes over, may use a name twice.
    return [name if names.count(name) == 1 else "" for name in names]


def operand_roles(eqn: Any) -> list[Role]:
    """What each operand of an equation with nested jaxprs is."""
    nested_jaxprs = taxpr.nested_jaxprs(eqn)
    found: dict[int, Role] = {}
    for nested in nested_jaxprs:
        known = _argument_names(nested)
        ends = zip(nested.operands, nested.in_roles, numbered(nested.in_roles), strict=True)
        for i, (k, role, name) in enumerate(ends):
            if k is None or k in found:
                continue
            if role == "arg":
                name = _end_of(known[i]) or str(k)
            elif role == "const" and len(nested_jaxprs) > 1:  # each has its own
                name = f"{nested.label} {name}"
            found[k] = Role(role, name)
    others = [k for k in range(len(eqn.invars)) if k not in found]
    # What enters none of several jaxprs chooses one of them.
    chooses = len(nested_jaxprs) > 1 and len(others) == 1
    for k in others:
        found[k] = Role("index", "index") if chooses else Role("", str(k))
    return [found[k] for k in range(len(eqn.invars))]


def _end_of(name: str) -> str:
    """The name of an argument at an edge: of a long one the end, `…['kernel']`, which says most."""
    if len(name) <= _WHOLE:
        return visible(name)
    parts = path_parts(name)
    while len(parts) > 1 and sum(map(len, parts)) >= _WHOLE:
        parts = parts[1:]
    return shortened("…" + "".join(parts), _WHOLE)


def result_roles(eqn: Any) -> list[Role]:
    """What each result of an equation with nested jaxprs is."""
    made = [Role("", str(k)) for k in range(len(eqn.outvars))]
    for nested in taxpr.nested_jaxprs(eqn):
        names = out_names(nested)
        for k, role, name in zip(nested.results, nested.out_roles, names, strict=True):
            if k is not None and role != "out":
                made[k] = Role(role, name)
    return made


def joined(roles: Sequence[Role]) -> str:
    """What goes along one edge: the names, or how many of which kind there are."""
    roles = list(dict.fromkeys(roles))
    text = ", ".join(role.name for role in roles if role.name)
    if len(text) <= _WHOLE or len(roles) == 1:
        return text
    kinds = Counter(role.kind or "value" for role in roles)
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())
