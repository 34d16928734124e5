"""Say for people what equations are, and how two partners differ."""

import enum
from collections.abc import Sequence
from typing import Any

from taxpr import introspect
from taxpr_jupyter._diff.changes import type_text
from taxpr_jupyter._diff.status import Side, atom_of
from taxpr_jupyter._diff.wrappers import wrapped
from taxpr_jupyter._text.short import shortened

NAME = 60  # characters


class Rank(enum.IntEnum):
    """The order of changes: what matters most comes first."""

    VALUE = 0
    WRAPPER = 1
    AGAIN = 2  # what a removed remat computed again
    RENAMED = 3
    ALONE = 4
    WIRED = 5
    RESULT = 6


def ended(sides: tuple[Side, Side], name: str, partner: str, what: str) -> str:
    """How an input, constant or output changed."""
    if what:
        return "another value"
    text = type_text(atom_of(sides[0], partner).aval, atom_of(sides[1], name).aval)
    return "another value" if text == "sharding" and "const" in name else text


def word(eqn: introspect.JaxprEqn) -> str:
    """An equation for people: `sin`, `jit layer`, `tag h`."""
    if introspect.is_tag(eqn):
        return f"tag {shortened(str(introspect.tag_params(eqn).get('name', '')), NAME)}".strip()
    return f"{eqn.primitive.name} {called(eqn)}".strip()


def wrapper(eqn: introspect.JaxprEqn) -> str:
    """A wrapper for people: `jit around layer`."""
    nested = wrapped(eqn)
    assert nested is not None, "only these are opened"
    title = nested.title.partition(" ")[0]
    function = getattr(nested.jaxpr.debug_info, "func_src_info", None) or ""
    name = called(eqn) or shortened(function.partition(" at ")[0], NAME)
    return f"{title} around {name}" if name else title


def called(eqn: introspect.JaxprEqn) -> str:
    """The name of the function that an equation calls."""
    names = (one.facts.get("name") for one in introspect.nested_jaxprs(eqn))
    return shortened(str(next(filter(None, names), "")), NAME)


def phrase(before: Any, after: Any, texts: Sequence[str]) -> tuple[Rank, str]:
    """How a pair of equations changed, for people, and the rank of that."""
    names, kind = (called(before), called(after)), after.primitive.name
    kind = "tag" if introspect.is_tag(after) else kind
    phrases: dict[str, Rank] = {}
    types: dict[str, Rank] = {}  # they mostly follow from what else there is
    resized = any(text.startswith(("operands ", "results ")) for text in texts)
    for text in texts:
        word, _, rest = text.partition(" ")
        if all(names) and names[0] != names[1] and text.startswith("param name "):
            phrases[f"{names[0]} renamed to {names[1]}"] = Rank.RENAMED
        elif word in ("operands", "results"):
            phrases[f"{kind}: {text}"] = Rank.WIRED
        elif resized and word == "param" and "→(" in rest:
            continue  # one entry for each operand or result
        elif " → " in text:
            phrases[f"{kind} takes other values"] = Rank.WIRED
        elif word == "operand" and "→" in rest:
            change = rest.partition(" ")[2]
            (types if " " in change else phrases)[change] = Rank.VALUE
        elif word == "param":
            phrases[f"{kind} {rest}"] = Rank.VALUE
        else:
            types[text if "→" in text else f"{kind}: {text}"] = Rank.VALUE
    phrases = phrases or types
    return min(phrases.values()), ", ".join(phrases)
