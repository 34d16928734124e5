"""The conversions between floats inside of closed equations."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.traits import precision_change
from taxpr_jupyter._closed.derivatives import target_of
from taxpr_jupyter._text import short

_ARRANGING = frozenset({p.broadcast_in_dim_p, p.reshape_p, p.squeeze_p, p.transpose_p, p.copy_p})


class Found(NamedTuple):
    """The conversions inside of a jaxpr, all nested ones included.

    Attributes:
        pairs: The types before and after each kind of conversion, in their order.
        computed: The variables that are computed in each type of floats, by pairs.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    computed: tuple[tuple[str, str], ...] = ()


class Casts:
    """Finds conversions, in each jaxpr once."""

    def __init__(self) -> None:
        self._known: introspect.ByIdentity[Found] = introspect.ByIdentity()

    def words(self, eqns: Iterable[introspect.JaxprEqn]) -> str:
        """`f32 ↔ bf16: total`: conversions in the nested jaxprs of some equations, or "".

        After those in both directions there are the variables that are computed in the second type.
        """
        found = _joined(self._inside(eqns))
        texts: list[str] = []
        done: set[tuple[str, str]] = set()
        for old, new in found.pairs:
            if (old, new) in done:
                continue
            back = (new, old) in found.pairs
            done |= {(old, new), (new, old)}
            names = [name for kind, name in found.computed if back and kind == new]
            text = f"{old} {'↔' if back else '→'} {new}"
            texts.append(f"{text}: {', '.join(names)}" if names else text)
        return "; ".join(texts)

    def _inside(self, eqns: Iterable[introspect.JaxprEqn]) -> Iterator[Found]:
        for eqn in eqns:
            for nested in introspect.nested_jaxprs(eqn):
                if not (nested.idle or nested.rule):
                    yield self._known.of(nested.jaxpr, self._of_jaxpr)

    def _of_jaxpr(self, jaxpr: Any) -> Found:
        pairs = dict.fromkeys(filter(None, map(precision_change, jaxpr.eqns)))
        kinds = {kind for pair in pairs for kind in pair}
        computed: dict[tuple[str, str], None] = {}
        for eqn in jaxpr.eqns if kinds else ():
            if eqn.primitive is p.convert_element_type_p or eqn.primitive in _ARRANGING:
                continue
            made = {short.type_of(var).partition("[")[0] for var in eqn.outvars} & kinds
            name = target_of(eqn) if made else ""
            computed |= {(kind, name): None for kind in made if name}
        return _joined([Found(tuple(pairs), tuple(computed)), *self._inside(jaxpr.eqns)])


def _joined(every: Iterable[Found]) -> Found:
    parts = [found for found in every if found.pairs]
    return Found(
        tuple(dict.fromkeys(pair for found in parts for pair in found.pairs)),
        tuple(dict.fromkeys(one for found in parts for one in found.computed)),
    )
