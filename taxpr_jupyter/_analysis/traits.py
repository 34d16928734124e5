"""Find the traits of equations and values: batched, sharded, donated, with effects.

A node with a trait has a class, a short sign on its label, and words in its tooltip.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core.primitives as p
import jax.numpy as jnp

from taxpr import introspect
from taxpr_jupyter._text.short import aval_text

_EFFECTS = {
    "AccumEffect": "adds to a Ref",
    "DebugEffect": "debug print or callback, in any order",
    "IOEffect": "input and output, in any order",
    "InternalMutableArrayEffect": "makes a Ref",
    "OrderedDebugEffect": "debug print or callback, in order",
    "OrderedIOEffect": "input and output, in order",
    "ReadEffect": "reads a Ref",
    "WriteEffect": "writes a Ref",
}
_NO_EFFECTS = {"NamedAxisEffect"}  # of collectives, which only talk to other devices


@dataclass(frozen=True, slots=True)
class Trait:
    """Something special about an equation or value.

    Attributes:
        mark: The class of its node: "batched", "donated", "effect", "precision" or "sharded".
        sign: The text on the label.
        words: The text in the tooltip.
    """

    mark: str
    sign: str
    words: str


def traits(eqn: introspect.JaxprEqn) -> Iterator[Trait]:
    """The traits of an equation."""
    # The name stack begins anew in a nested jaxpr, so a vmap around it is not seen there.
    if "vmap" in introspect.transformations_of(eqn):
        yield Trait("batched", "vmap", "batched by vmap")
    if change := precision_change(eqn):
        yield Trait("precision", "→".join(change), f"changes precision: {' to '.join(change)}")
    if effects := _effects(eqn):
        yield Trait("effect", "effect", f"effect: {'; '.join(effects)}")
    if specs := _specs(eqn):
        # The label has the types. These do not say it on one device, or if an axis is left to XLA.
        asked, aval = eqn.params.get("sharding"), eqn.outvars[0].aval
        is_told = not spec_text(asked) or introspect.division_of(aval, asked)
        yield Trait("sharded", "" if is_told else specs[0], f"sharded {', '.join(specs)}")
    if donated := [str(k) for k in range(len(eqn.invars)) if _donates(eqn, k)]:
        word = "operand" if len(donated) == 1 else "operands"
        yield Trait("donated", "donates", f"takes the memory of {word} {', '.join(donated)}")


def traits_of_operand(eqn: introspect.JaxprEqn, k: int) -> Iterator[Trait]:
    """The traits that an operand has because an equation with nested jaxprs takes it."""
    if _donates(eqn, k):
        yield Trait("donated", "donated", f"donated: {eqn.primitive.name} may reuse its memory")
    for param in ("in_shardings", "in_specs"):
        shardings: Any = eqn.params.get(param)
        spec = spec_text(shardings[k]) if _reaches(shardings, k) else ""
        if spec:
            yield Trait("sharded", spec, f"sharded {spec}")


def traits_of_value(aval: Any) -> Iterator[Trait]:
    """The traits that follow from the type of an input."""
    if spec := spec_text(getattr(aval, "sharding", None)):
        yield Trait("sharded", "", f"sharded {spec}")  # the label has its type, which says it


def spec_text(sharding: Any) -> str:
    """`P('x', None)` of a sharding or a spec; "" if nothing is split, or nothing is known."""
    spec = getattr(sharding, "spec", sharding)
    if not isinstance(spec, jax.sharding.PartitionSpec):
        return ""
    # From JAX 0.10, a spec with reduced or unreduced axes cannot be iterated.
    entries = spec.partitions if hasattr(spec, "partitions") else tuple(spec)
    words = {word: sorted(getattr(spec, word, ())) for word in ("reduced", "unreduced")}
    said = [f"{word}={{{', '.join(map(repr, names))}}}" for word, names in words.items() if names]
    split = said or any(entry is not None for entry in entries)
    return f"P({', '.join([*map(repr, entries), *said])})" if split else ""


def precision_change(eqn: introspect.JaxprEqn) -> tuple[str, str] | None:
    """The types before and after a conversion that changes precision, such as `f32` and `bf16`.

    None for all other equations, also for conversions from or to integers.
    """
    if eqn.primitive is not p.convert_element_type_p:
        return None
    avals: list[Any] = [eqn.invars[0].aval, eqn.outvars[0].aval]
    if not all(jnp.issubdtype(aval.dtype, jnp.inexact) for aval in avals):
        return None
    old, new = (aval_text(aval).partition("[")[0] for aval in avals)
    return (old, new) if old != new else None


def _effects(eqn: introspect.JaxprEqn) -> list[str]:
    kinds = {type(effect) for effect in eqn.effects}
    names = {kind.__name__ for kind in kinds if not kind.__module__.startswith("taxpr.")}
    return sorted(_EFFECTS.get(name, name) for name in names - _NO_EFFECTS)


def _specs(eqn: introspect.JaxprEqn) -> Sequence[str]:
    """The shardings of an equation's results, or the one that the equation asks for."""
    if asked := spec_text(eqn.params.get("sharding")):
        return [asked]
    found = (spec_text(getattr(var.aval, "sharding", None)) for var in eqn.outvars)
    return list(dict.fromkeys(text for text in found if text))


def _donates(eqn: introspect.JaxprEqn, k: int) -> bool:
    donated: Any = eqn.params.get("donated_invars")
    return _reaches(donated, k) and bool(donated[k])


def _reaches(values: Any, k: int) -> bool:
    return isinstance(values, tuple) and k < len(values)
