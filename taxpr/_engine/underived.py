"""Refuse derivatives of values that were observed inside an equation that keeps its rule."""

import functools
from collections.abc import Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Atom, ClosedJaxpr, Jaxpr, JaxprEqn, StoredJaxpr, Var
from taxpr._engine.donation import donates
from taxpr._engine.handler import Handler
from taxpr._engine.thread import ThreadedJaxpr
from taxpr._hops.interpreter import Forwards
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Options
from taxpr._hops.table import has_rules, nested_jaxprs
from taxpr._jaxprs.derived import inexact
from taxpr._jaxprs.splice import Splice
from taxpr._primitives.guard import underived
from taxpr._sites.site import Site, around, described


def without_derivatives(
    threaded: ThreadedJaxpr, chosen: Sequence[tuple[Site, Handler]], options: Options
) -> ClosedJaxpr:
    """The threaded jaxpr, with an error for derivatives of values observed in a kept rule.

    The rule returns these values without tangents. The check is at the end of the program and not
    at the rule: branches and loops around the rule turn symbolic zero cotangents into arrays of
    zeros, so at the rule an unused derivative would look like a used one.
    """
    jaxpr = threaded.jaxpr
    inner = _compat.open_jaxpr(jaxpr)
    ctx, _, emits = threaded.unpack(range(len(jaxpr.out_avals)))
    can_have_one = set(inexact(jaxpr.out_avals))
    refused: dict[int, str] = {}
    for site, handler in chosen:
        text = _refusal(site, handler, options)
        seen = [ctx[k] for k in handler.seen if k not in options.unchanged]
        handed_out = emits[site.address].value if handler.emits else ()
        results = can_have_one.difference(refused).intersection(jax.tree.leaves((seen, handed_out)))
        if text:
            refused |= dict.fromkeys(results, text)
    if not refused:
        return jaxpr
    variables, of = [*inner.constvars, *inner.invars], depends(jaxpr)
    sources = {k: [var for bit, var in enumerate(variables) if of[k] >> bit & 1] for k in refused}
    return with_refusals(jaxpr, {k: (sources[k], text) for k, text in refused.items()})


def _template(x: Array) -> Array:
    return underived(x, [x], "")


# The inputs and constants with respect to which a derivative is refused, and the message.
Refused = tuple[Sequence[Atom], str]


def with_refusals(jaxpr: ClosedJaxpr, refused: Mapping[int, Refused]) -> ClosedJaxpr:
    """A closed jaxpr that raises when some results, given by index, are differentiated."""
    inner = _compat.open_jaxpr(jaxpr)
    splice = Splice(inner, _compat.consts_of(jaxpr))

    [template] = _compat.open_jaxpr(_compat.make_jaxpr(_template)(0.0)).eqns

    def marked(x: Atom, sources: Sequence[Atom], text: str) -> Atom:
        out = _compat.fresh_var(x.aval)
        mine = [sources[k] for k in inexact([source.aval for source in sources])]
        splice.keep([template.replace(invars=[x, *mine], outvars=[out], params={"message": text})])
        return out

    if donates(jaxpr):
        # A donated buffer is gone at the end of the program, so mark a number computed before.
        [zero] = splice.inline(_compat.make_jaxpr(lambda: jnp.float32(0))(), [])
        refused = {k: ([marked(zero, *one)], one[1]) for k, one in refused.items()}
    splice.keep(inner.eqns)
    outvars = splice.read(inner.outvars)
    for k, (sources, text) in refused.items():
        outvars[k] = marked(outvars[k], sources, text)
    return splice.finish(inner.invars, outvars)


def _refusal(site: Site, handler: Handler, options: Options) -> str | None:
    """The error message, if an equation with a kept rule is around the site."""
    rules = [(address, step.eqn) for address, step in around(site.steps) if has_rules(step.eqn)]
    if not rules or options.custom_rules == "drop":
        return None
    address, eqn = rules[0]
    taken_of = "collect: a derivative is taken of the value of", "value"
    if not handler.emits:
        taken_of = "inject: a derivative is taken of the ctx of an injector that looks at", "ctx"
    what, word = taken_of
    return (
        f"{what} the {site}, which is inside {described(address, eqn)}. The rule for derivatives "
        f"of {eqn.primitive.name} is kept, and says nothing of the {word}. Give "
        'custom_rules="drop" to differentiate the function itself, or end the derivative of the '
        f"{word} with jax.lax.stop_gradient."
    )


# A set of inputs, as an int with one bit for each: a program has many variables.
Bits = int


def depends(jaxpr: StoredJaxpr) -> list[Bits]:
    """For each result, the inputs that it may have a derivative with respect to.

    Bit k means input k; constants come before arguments. Nothing flows through integers, Booleans
    and PRNG keys, so not through a branch index or a loop predicate either.
    """
    return _MayDerive().of(jaxpr)


class _MayDerive(Forwards[Bits]):
    nothing = 0

    def __init__(self) -> None:
        super().__init__()
        # By id, with the jaxpr, so that its id stays unique.
        self._of: dict[int, tuple[Jaxpr, list[Bits]]] = {}

    def of(self, jaxpr: StoredJaxpr) -> list[Bits]:
        inner = _compat.open_jaxpr(jaxpr)
        if id(inner) not in self._of:
            inputs = len(inner.constvars) + len(inner.invars)
            self._of[id(inner)] = inner, self.run(inner, [1 << k for k in range(inputs)])
        return self._of[id(inner)][1]

    def join(self, each: Iterable[Bits]) -> Bits:
        return functools.reduce(int.__or__, each, 0)

    def held(self, var: Var, of: Bits, address: Address | None) -> Bits:
        aval = getattr(var.aval, "inner_aval", var.aval)  # of a Ref, the aval of its value
        return of if jnp.issubdtype(getattr(aval, "dtype", bool), jnp.inexact) else 0

    def entered(self, eqn: JaxprEqn, operands: Sequence[Bits]) -> Sequence[Nested]:
        if not (nested := nested_jaxprs(eqn)):
            return ()
        refs = any(_compat.is_ref(atom.aval) for atom in eqn.invars)
        return () if refs or has_rules(eqn) or not _is_told(nested, operands) else nested

    def through(
        self, stored: StoredJaxpr, given: Sequence[Bits], home: Address | None
    ) -> list[Bits]:
        """Each jaxpr is followed once, however often it is called, and with whatever."""
        first = len(_compat.open_jaxpr(stored).constvars)
        return [
            self.join(bits for k, bits in enumerate(given, first) if value >> k & 1)
            for value in self.of(stored)
        ]


def _is_told(nested: Sequence[Nested], operands: Sequence[Bits]) -> bool:
    """Whether the entry tells the way of all operands, through all iterations."""
    fed = {k for one in nested for k in one.operands}
    loops = any(one.trips != 1 and not one.back and "x" not in one.in_roles for one in nested)
    whole = all(k in fed for k, bits in enumerate(operands) if bits)
    return whole and None not in fed and not (loops and not any(one.back for one in nested))
