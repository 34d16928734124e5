"""`register_hop`: entries from other libraries, checked when registered and whenever used."""

# What others give is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import Array, Aval, JaxprEqn
from taxpr._errors import ArgumentError, a_type, name_of
from taxpr._hops.check_emits import check_emits
from taxpr._hops.nested import Nested
from taxpr._hops.own_derivative import keep_derivative
from taxpr._hops.protocol import Hop, Made, Thread, Threaded
from taxpr._hops.rebuild import shown, types_of, wrong_entry
from taxpr._hops.table import bring, has_rules, nested_jaxprs
from taxpr._hops.traced import TracedHop


def register_hop(primitive: _compat.Kind, hop: Hop) -> None:
    """Teach taxpr a higher-order primitive: one whose equations hold jaxprs.

    `Hop.nested` finds the jaxprs, so taxpr can walk and draw them and find tags in them.
    `Hop.inject` rewrites the equation, to inject, collect, count, plant and differentiate at these
    tags. A library registers its primitive once, right after creating it. Without an entry, taxpr
    walks and draws the jaxprs that it finds in the params, and `inject` refuses the primitive.

    taxpr checks what the entry returns each time. Registering again replaces an entry, except
    taxpr's own entries for primitives of JAX.

    Args:
        primitive: A primitive, such as `jax.extend.core.Primitive` makes.
        hop: Its entry.

    Raises:
        ArgumentError: If one of them is something else, if the entry has both ``inject`` and
            ``refusal`` or neither, or if taxpr has its own entry for the primitive.

    Example:
        >>> import jax, jax.extend.core as jex, taxpr
        >>> from taxpr.hops import called
        >>> labelled_p = jex.Primitive("labelled")  # runs its jaxpr once
        >>> labelled_p.multiple_results = True
        >>> _ = labelled_p.def_abstract_eval(lambda *avals, jaxpr: jaxpr.out_avals)
        >>> _ = labelled_p.def_impl(lambda *args, jaxpr: jex.jaxpr_as_fun(jaxpr)(*args))
        >>> def nested(eqn):
        ...     return [called(eqn, "jaxpr", label="body")]
        >>> def inject(eqn, ctx, operands, thread):
        ...     return thread("body")(ctx, operands)
        >>> taxpr.register_hop(labelled_p, taxpr.hops.Hop(nested=nested, inject=inject))
        >>> def f(x):
        ...     jaxpr = jax.make_jaxpr(lambda x: taxpr.tag(x * 2, name="y") + 1)(x)
        ...     return labelled_p.bind(x, jaxpr=jaxpr)[0]
        >>> program = taxpr.trace(f)(3.0)
        >>> [site.address for site in program.tags()]
        ['0:labelled/body/t0']
        >>> float(program.plant({"y": 10.0})(3.0))
        11.0
    """
    if not _compat.is_kind(primitive):
        raise ArgumentError(
            f"register_hop: {primitive!r} is {a_type(primitive)}. An entry is for a "
            'primitive, such as jax.extend.core.Primitive("name") makes.'
        )
    name = name_of(primitive)
    if not isinstance(hop, Hop):
        raise ArgumentError(
            f"register_hop: the entry of {name} is {a_type(hop)}, not a taxpr.hops.Hop."
        )
    if (hop.inject is None) == (hop.refusal is None):
        raise ArgumentError(
            f"register_hop: the entry of {name} has "
            + ("both an inject and" if hop.inject else "neither an inject nor")
            + " a refusal. Say how a context goes through the primitive, or why it cannot."
        )
    checked = dataclasses.replace(
        hop,
        nested=functools.partial(_nested, hop),
        inject=hop.inject and functools.partial(_injected, hop),
    )
    if not bring(primitive, checked):
        raise ArgumentError(f"register_hop: {name} has an entry of taxpr's own, which stays.")


# ---- checks of `Hop.nested` --------------------------------------------------

_ROLES = {
    "inputs": ("const", "carry", "x", "ref", "arg"),
    "results": ("carry", "y", "out", "predicate"),
}


def _nested(hop: Hop, eqn: JaxprEqn) -> tuple[Nested, ...]:
    given = hop.nested(eqn)
    if isinstance(given, Nested) or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise wrong_entry(eqn, f"nested gave a {kind}, not a list of taxpr.hops.Nested")
    found = tuple(given)
    for one in found:
        for wrong in _misfits(hop, eqn, one):
            raise wrong_entry(eqn, f"nested gave {getattr(one, 'label', one)!r}, {wrong}")
    if hop.loops and hop.inject:
        _check_iteration(eqn, [one for one in found if not (one.once or one.idle or one.refusal)])
    labels = [one.label for one in found]
    if len({*labels}) < len(labels):
        raise wrong_entry(eqn, f"nested gave the labels {', '.join(labels)}, two the same")
    return found


def _check_iteration(eqn: JaxprEqn, run: Sequence[Nested]) -> None:
    """Check the jaxprs of each iteration of a loop: the last one counts iterations."""
    trips = ", ".join(f"{one.label!r} with trips={one.trips}" for one in run)
    if len({one.trips for one in run}) > 1:
        raise wrong_entry(
            eqn,
            f"nested gave {trips}, and each iteration of a loop runs all of its jaxprs: give "
            "once=True to those that run once, before or after all iterations",
        )
    for one in run[:-1]:
        if one.back and not run[-1].back:
            raise wrong_entry(
                eqn,
                f"nested gave {run[-1].label!r} last, and {one.label!r} makes the input of the "
                "next iteration (back): give the jaxprs of a loop in the order of execution, "
                "the one that ends an iteration last",
            )


def _misfits(hop: Hop, eqn: JaxprEqn, one: Nested) -> Iterator[str]:
    """The faults of one result of ``nested``; each check assumes that earlier checks passed."""
    if not isinstance(one, Nested):
        yield "which is no Nested"
    if not isinstance(one.label, str) or not one.label or "/" in one.label:
        yield "and a label is a part of an address: some text without a slash"
    if not _compat.is_jaxpr(one.stored):
        yield f"and `stored` is {a_type(one.stored)}, not a jaxpr"
    if one.param is not None and not _leads_to(eqn, one):
        yield f"and {one.param} does not lead to `stored`, from the params of the equation"
    for ends, roles, own, what, of in (
        (one.operands, one.in_roles, one.jaxpr.invars, "inputs", eqn.invars),
        (one.results, one.out_roles, one.jaxpr.outvars, "results", eqn.outvars),
    ):
        if not len(ends) == len(roles) == len(own):
            yield (
                f"and its jaxpr has {len(own)} {what}, but {len(ends)} indices and {len(roles)} "
                "roles were given"
            )
        if any(k is not None and not 0 <= k < len(of) for k in ends):
            yield f"and the equation has no {what} {list(ends)}: it has {len(of)}"
        known = _ROLES[what]
        for role in roles:
            if role not in known:
                yield f"and {what} have the role {role!r}, not one of {', '.join(map(repr, known))}"
    n_out, n_in = len(one.jaxpr.outvars), len(one.jaxpr.invars)
    if any(not (0 <= out < n_out and 0 <= into < n_in) for out, into in one.back):
        yield f"and back={one.back} names results and inputs that its jaxpr does not have"
    for out, into in one.back:
        roles, of = (one.out_roles[out], one.in_roles[into]), (one.jaxpr.outvars, one.jaxpr.invars)
        avals = [_compat.aval_of(atoms[k]) for atoms, k in zip(of, (out, into), strict=True)]
        types = [aval.str_short() for aval in avals]
        if not {*roles} <= {"carry", "arg", "out"}:
            yield f"and back={one.back} leads from a {roles[0]} to a {roles[1]}, not to a carry"
        if types_of(avals[:1]) != types_of(avals[1:]):
            yield f"and back={one.back} leads from {types[0]} to {types[1]}"
    for k, role in enumerate(one.out_roles):
        if role == "carry" and k not in dict(one.back):
            yield f"and back={one.back} does not say where the carry of result {k} goes"
    if one.once and (one.trips != 1 or one.back):
        yield f"and it runs once=True, but with trips={one.trips} and back={one.back}"
    if hop.inject and not (hop.loops or one.trips == 1 or one.idle or one.refusal):
        yield f"and it runs trips={one.trips} times, but the entry has no loops=True"


def _leads_to(eqn: JaxprEqn, one: Nested) -> bool:
    here: Any = eqn.params
    try:
        for key in one.param or ():
            here = here[key]
    except (LookupError, TypeError):
        return False
    return here is one.stored


# ---- checks of `Hop.inject` --------------------------------------------------


_AS_IF_OWN = (
    " (taxpr keeps it as {name} is in jax.interpreters.ad.primitive_jvps. If JAX is to "
    "differentiate the operations of the rule instead, give own_derivative=False.)"
)


def _injected(
    hop: Hop, eqn: JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Call the rule, check what it returns, and keep a derivative of its own."""
    by_itself = hop.rules is not None or isinstance(hop.inject, TracedHop)
    if by_itself or thread.options.custom_rules == "drop" or not has_rules(eqn):
        return _checked(hop, eqn, ctx, operands, thread)
    n_ctx = len(ctx)

    def run(*flat: Array) -> Made:
        new, outs, emits = _checked(hop, eqn, list(flat[:n_ctx]), list(flat[n_ctx:]), thread)
        return outs, new, emits

    avals = [jax.typeof(x) for x in (*ctx, *operands)]
    jaxpr, shapes = _compat.make_jaxpr_and_shapes(run)(*avals)
    tree = jax.tree.structure(shapes)

    def unpack(flat: Sequence[Array]) -> Made:
        outs, new, emits = jax.tree.unflatten(tree, flat)
        return new, outs, emits

    hint = _AS_IF_OWN.format(name=eqn.primitive.name) if hop.own_derivative is None else ""
    whole = _compat.hoisted(jaxpr)
    return keep_derivative(eqn, ctx, operands, thread, whole, unpack, hint=hint)


def _checked(
    hop: Hop, eqn: JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Call the rule, check its results, and restore the weak types of the original results."""
    assert hop.inject is not None, "else it is refused before"
    returned = hop.inject(eqn, list(ctx), list(operands), thread)
    if not (isinstance(returned, (tuple, list)) and len(returned) == 3):
        raise wrong_entry(eqn, f"inject returned {a_type(returned)}, not (ctx, results, emits)")
    now, results, emits = returned
    new_ctx = _of_types(eqn, "ctx", now, [jax.typeof(x) for x in ctx])
    new_results = _of_types(eqn, "results", results, [_compat.aval_of(var) for var in eqn.outvars])
    for one in nested_jaxprs(eqn):
        threaded = thread(one.label)
        if threaded.touched:
            _check_ctx(eqn, one, threaded, ctx, now)
            check_emits(hop, eqn, one, threaded.emitted(), emits)
    return new_ctx, new_results, emits


def _check_ctx(
    eqn: JaxprEqn, one: Nested, threaded: Threaded, ctx: Sequence[Array], now: Sequence[Array]
) -> None:
    inner = _compat.open_jaxpr(threaded.jaxpr)
    new, _, _ = threaded.unpack(inner.outvars)
    changes = [a is not b for a, b in zip(inner.invars, new, strict=False)]
    same = [a is b for a, b in zip(ctx, now, strict=True)]
    if any(map(all, zip(changes, same, strict=True))) and not (one.conditional or one.trips == 0):
        raise wrong_entry(
            eqn,
            f"inject returned the ctx that it was given, and {one.label!r} changes it: return the "
            f"ctx that the last call of thread({one.label!r}) gave",
        )


def _of_types(
    eqn: JaxprEqn, what: str, values: Sequence[Array], avals: Sequence[Aval]
) -> list[Array]:
    found = [jax.typeof(x) for x in values]
    if types_of(found) != types_of(avals):
        raise wrong_entry(
            eqn, f"inject returned {what} {shown(found)}, and expected {shown(avals)}"
        )
    return [
        _compat.with_weak_type(x, getattr(aval, "weak_type", False))
        for x, aval in zip(values, avals, strict=True)
    ]
