"""Structural hashing: number equations and jaxprs, so that equal ones get equal numbers.

The idea is hash consing: a dictionary maps each structure, built from the numbers of its parts, to
a number. Invariants: within one `Keys`, equal numbers mean equal structure, without collisions;
variable letters, source lines and the trace do not matter.

Each equation is read once and reduced to a form, which ignores where its operands come from. Large
programs have few different forms, so all further work is done once for each form.
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._analysis.param_keys import (
    HashedHeld,
    HashedParam,
    ValueKeys,
    filled,
    holds_jaxpr,
)
from taxpr_jupyter._text.short import literal_text

# Params that say where a slice is in an array, not how large it is. A slice's transpose is a pad.
_WHERE = {
    (p.slice_p, "start_indices"),
    (p.slice_p, "limit_indices"),
    (p.pad_p, "padding_config"),
}


_by_name = operator.itemgetter(0)


class EqnKeys(NamedTuple):
    """Three numbers of an equation, from strict to loose. They ignore where operands come from.

    Attributes:
        own: Primitive, params, literals, types, and the content of its jaxprs.
        loose: The same without types and without the content of its jaxprs.
        kind: Only the primitive; for a jit also the name.
    """

    own: int
    loose: int
    kind: int


@dataclasses.dataclass(eq=False, slots=True)
class _Form:
    """The form of an equation: everything except where its operands come from.

    Attributes:
        eqn: The first equation of this form.
        operands: The number of each operand's type, or of a literal (`Keys.literal`).
        results: The number of each result's type.
        params: The names and keys of the params, sorted; also of jaxprs hidden in them.
        effects: The kinds of effects.
        keys: The result of `Keys.eqn`, once it is known.
        alike: The result of `Keys.alike`, once it is known.
        unnamed: The result of `Keys.unnamed`, once it is known.
    """

    eqn: introspect.JaxprEqn
    operands: tuple[int, ...]
    results: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]
    effects: tuple[str, ...]
    keys: EqnKeys | None = None
    alike: int | None = None
    unnamed: int | None = None


class Keys(ValueKeys):
    """Assigns the numbers. Use one object for all programs that are compared."""

    def __init__(self) -> None:
        super().__init__()
        self._eqns: introspect.ByIdentity[_Form] = introspect.ByIdentity()
        self._forms: dict[Any, _Form] = {}
        # By the id of a jaxpr: its number, and those that it shares with jaxprs that are alike, or
        # that have other names.
        self._own: dict[int, int] = {}
        self._alike: dict[int, int] = {}
        self._unnamed: dict[int, int] = {}

    def eqn(self, eqn: introspect.JaxprEqn) -> EqnKeys:
        """The numbers of an equation."""
        form = self._eqns.of(eqn, self._read)
        if form.keys is None:
            form.keys = self._of_form(form)
        return form.keys

    def alike(self, eqn: introspect.JaxprEqn) -> int:
        """The number shared by equations that compute the same way, such as in equal layers.

        They have the same primitive, types, literals, params and nested jaxprs. Functions among the
        params do not count, nor does which slice of an array is taken: each layer takes its own
        slice of stacked weights.
        """
        form = self._eqns.of(eqn, self._read)
        if form.alike is None:
            params = tuple(
                (name, filled(key, self._alike_jaxpr, functions=False))
                for name, key in form.params
                if (eqn.primitive, name) not in _WHERE
            )
            parts = form.operands, form.results, params, form.effects
            form.alike = self.number(("alike", eqn.primitive, *parts))
        return form.alike

    def unnamed(self, eqn: introspect.JaxprEqn) -> int:
        """As ``own`` of `eqn`, but without the names of functions, here and in its jaxprs."""
        form = self._eqns.of(eqn, self._read)
        if form.unnamed is None:
            form.unnamed = self.eqn(eqn).own
            if any(holds_jaxpr(key) for _, key in form.params):
                params = tuple(
                    (name, filled(key, self._unnamed_jaxpr, functions=True))
                    for name, key in form.params
                    if name != "name"
                )
                parts = form.operands, form.results, params, form.effects
                form.unnamed = self.number(("unnamed", eqn.primitive, *parts))
        return form.unnamed

    def jaxpr(self, jaxpr: Any) -> int:
        """The number of a jaxpr, open or closed, with the values of its constants."""
        return self._own_jaxpr(self._object(jaxpr))

    # --- inside -----------------------------------------------------------------------------------

    def _read(self, eqn: introspect.JaxprEqn) -> _Form:
        operands = tuple(
            [self.literal(a) if introspect.is_literal(a) else self.aval(a.aval) for a in eqn.invars]
        )
        results = self.types(eqn.outvars)
        params = [(name, self.param(value)) for name, value in eqn.params.items()]
        if not all(type(key) is HashedParam for _, key in params):  # a plain param hides no jaxpr
            params += [
                (nested.label, HashedHeld(self._object(nested.stored)))
                for nested in introspect.nested_jaxprs(eqn)
                if nested.param is None
            ]
        effects = sorted(type(effect).__name__ for effect in eqn.effects) if eqn.effects else ()
        parts = operands, results, tuple(sorted(params, key=_by_name)), tuple(effects)
        form = self._forms.get((eqn.primitive, *parts))
        if form is None:
            form = self._forms[eqn.primitive, *parts] = _Form(eqn, *parts)
        return form

    def _of_form(self, form: _Form) -> EqnKeys:
        eqn = form.eqn
        deep = tuple(param for param in form.params if holds_jaxpr(param[1]))
        flat = tuple(param for param in form.params if not holds_jaxpr(param[1]))
        # Without the types of literals, which may follow from another operand.
        values = tuple(
            (k, literal_text(a)) for k, a in enumerate(eqn.invars) if introspect.is_literal(a)
        )
        name = eqn.params.get("name") if deep else None
        kind = self.number(("kind", eqn.primitive, name if isinstance(name, str) else None))
        loose = self.number(("loose", kind, flat, values))
        inside = filled(deep, self._own_jaxpr, functions=True)
        own = self.number(("own", loose, form.operands, form.results, inside, form.effects))
        return EqnKeys(own, loose, kind)

    def _own_jaxpr(self, number: int) -> int:
        if number not in self._own:
            own = self._of_jaxpr(self._objects[number], lambda eqn: self.eqn(eqn).own)
            self._own[number] = own
        return self._own[number]

    def _unnamed_jaxpr(self, number: int) -> int:
        if number not in self._unnamed:
            self._unnamed[number] = self._of_jaxpr(self._objects[number], self.unnamed)
        return self._unnamed[number]

    def _alike_jaxpr(self, number: int) -> int:
        if number not in self._alike:
            graph = DefUse(introspect.open_jaxpr(self._objects[number]))
            eqns = tuple((self.alike(eqn), graph.sources(eqn.invars)) for eqn in graph.eqns)
            outs = graph.sources(graph.jaxpr.outvars)
            self._alike[number] = self.number(("alike", eqns, outs))
        return self._alike[number]

    def _of_jaxpr(self, jaxpr: Any, of: Callable[[Any], int]) -> int:
        inner, consts = introspect.open_jaxpr(jaxpr), getattr(jaxpr, "consts", None) or ()
        graph = DefUse(inner)
        parts: list[Any] = [
            self.types((*inner.constvars, *inner.invars)),
            len(inner.invars),
            tuple(map(self.value, consts)),
        ]
        parts += [(of(eqn), graph.sources(eqn.invars)) for eqn in inner.eqns]
        literals = [self.literal(a) for a in inner.outvars if introspect.is_literal(a)]
        parts += [graph.sources(inner.outvars), tuple(literals)]
        return self.number(("jaxpr", tuple(parts)))
