"""Texts for the operands and results of equations with nested jaxprs, at both ends of an edge.

Roles come from the table of higher-order primitives. Besides, JAX notes the names of a function's
arguments in its jaxpr: `params['w']` says more than `arg 0`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from taxpr import introspect
from taxpr_jupyter._analysis.names import argument_names, is_of_jax, is_of_library, numbered
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.short import shortened, visible

SAME = frozenset({"const", "arg"})  # roles of inputs that are their operand, at all times
_PATH = re.compile(r"[.\[]")  # the name of a leaf
_SAYS_NOTHING = re.compile(r"[a-z]\d?")
_LOOP = 28  # characters of a role of a loop with its name
_WHOLE = 18  # characters: the longest list of names at an edge


@dataclass(frozen=True, slots=True)
class Role:
    """The role of one operand or result.

    Attributes:
        kind: "carry", "x", "index" and so on; "" if only its number is known.
        name: A short text: "carry 0", "x", "3".
    """

    kind: str
    name: str


def operand_roles(
    eqn: introspect.JaxprEqn, inside: Sequence[Sequence[str]] | None = None
) -> list[Role]:
    """The role of each operand of an equation with nested jaxprs.

    Args:
        eqn: The equation.
        inside: For each nested jaxpr the names of its inputs with their roles: `carry h`.
    """
    nested_jaxprs = introspect.nested_jaxprs(eqn)
    found: dict[int, Role] = {}
    for n, nested in enumerate(nested_jaxprs):
        known = argument_names(nested)
        ends = zip(nested.operands, nested.in_roles, numbered(nested.in_roles), strict=True)
        for i, (k, role, name) in enumerate(ends):
            if k is None or k in found:
                continue
            if role == "arg":
                # In a library, only plain argument names mean something to the user.
                named = known[i].isidentifier() or not is_of_library(nested, eqn)
                # `x2` looks like a number of values.
                named = named and not (_SAYS_NOTHING.fullmatch(known[i]) and is_of_jax(nested))
                name = (_end_of(known[i]) if named else "") or str(k)
            elif inside and name[-1].isdigit() and inside[n][i] != name:
                name = shortened(inside[n][i], _LOOP)
            elif role == "const" and len(nested_jaxprs) > 1:  # each jaxpr has its own
                name = f"{nested.label} {name}"
            found[k] = Role(role, name)
    others = [k for k in range(len(eqn.invars)) if k not in found]
    # The only operand that enters none of several jaxprs chooses one of them.
    chooses = len(nested_jaxprs) > 1 and len(others) == 1
    for k in others:
        found[k] = Role("index", "index") if chooses else Role("", str(k))
    return [found[k] for k in range(len(eqn.invars))]


def _end_of(name: str) -> str:
    """The name of an argument, or the end of a long one, which says most: `…['kernel']`."""
    if len(name) <= _WHOLE:
        return visible(name)
    parts = path_parts(name)
    while len(parts) > 1 and sum(map(len, parts)) >= _WHOLE:
        parts = parts[1:]
    return shortened("…" + "".join(parts), _WHOLE)


def result_roles(eqn: introspect.JaxprEqn) -> list[Role]:
    """The role of each result of an equation with nested jaxprs."""
    made = [Role("", str(k)) for k in range(len(eqn.outvars))]
    for nested in introspect.nested_jaxprs(eqn):
        names = numbered(nested.out_roles)
        for k, role, name in zip(nested.results, nested.out_roles, names, strict=True):
            if k is not None and role != "out":
                made[k] = Role(role, name)
    return made


def joined(roles: Sequence[Role]) -> str:
    """The text at the end of an edge: the names of its values, or their number by kind.

    For many leaves it has the names of the trees: `m, v, p`.
    """
    roles = list(dict.fromkeys(roles))
    names = [role.name for role in roles if role.name]
    trees = [path_parts(name)[0] if _PATH.search(name) else name for name in names]
    trees = [tree for tree in trees if tree != "…"]  # of a long name only the end is left
    for told in (names, dict.fromkeys(trees)):
        text = ", ".join(told)
        if len(text) <= _WHOLE or len(roles) == 1:
            return text
    kinds = Counter(role.kind for role in roles)
    return ", ".join(
        f"{kind} ×{number}".strip() if number > 1 else kind or "value"
        for kind, number in kinds.items()
    )
