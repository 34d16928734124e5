"""`register_hop`: entries from other libraries, checked when registered and whenever used."""

# What others give is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import Array, Aval, JaxprEqn
from taxpr._errors import ArgumentError, name_of
from taxpr._hops.protocol import Emits, Hop, Inject, Made, Nested, Thread
from taxpr._hops.table import bring, nested_jaxprs


def register_hop(primitive: _compat.Kind, hop: Hop) -> None:
    """Teach taxpr a higher-order primitive: one whose equations hold jaxprs.

    `Hop.nested` tells taxpr where the jaxprs are, so that it can walk and draw them and find tags
    in them. `Hop.inject` tells it how to rewrite the equation, to inject, collect, count, plant
    and differentiate at these tags. A library registers its primitive once, where it creates it.
    Without an entry, taxpr walks and draws the jaxprs that it finds in the params, and `inject`
    refuses the primitive.

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
        >>> taxpr.register_hop(labelled_p, taxpr.Hop(nested=nested, inject=inject))
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
            f"register_hop: {primitive!r} is a {type(primitive).__name__}. An entry is for a "
            'primitive, such as jax.extend.core.Primitive("name") makes.'
        )
    name = name_of(primitive)
    if not isinstance(hop, Hop):
        raise ArgumentError(
            f"register_hop: the entry of {name} is a {type(hop).__name__}, not a taxpr.Hop."
        )
    if (hop.inject is None) == (hop.refusal is None):
        raise ArgumentError(
            f"register_hop: the entry of {name} has {'both' if hop.inject else 'neither'} an "
            "inject and a refusal. Say how a context goes through the primitive, or why it cannot."
        )
    checked = dataclasses.replace(
        hop,
        nested=functools.partial(_nested, hop.nested),
        inject=hop.inject and functools.partial(_injected, hop.inject),
    )
    if not bring(primitive, checked):
        raise ArgumentError(f"register_hop: {name} has an entry of taxpr's own, which stays.")


# ---- checks of `Hop.nested` --------------------------------------------------


def _nested(nested: Callable[[JaxprEqn], Sequence[Nested]], eqn: JaxprEqn) -> tuple[Nested, ...]:
    found = tuple(nested(eqn))
    for one in found:
        for wrong in _misfits(eqn, one):
            raise ArgumentError(_said(eqn, f"nested gave {getattr(one, 'label', one)!r}, {wrong}"))
    labels = [one.label for one in found]
    if len({*labels}) < len(labels):
        raise ArgumentError(_said(eqn, f"nested gave the labels {', '.join(labels)}, two the same"))
    return found


def _misfits(eqn: JaxprEqn, one: Nested) -> Iterator[str]:
    """The faults of one result of ``nested``; each check assumes that those before found none."""
    if not isinstance(one, Nested):
        yield "which is no Nested"
    if not one.label or "/" in one.label:
        yield "and a label is a part of an address: some text without a slash"
    if not _compat.is_jaxpr(one.stored):
        yield f"and what is stored is a {type(one.stored).__name__}, not a jaxpr"
    if one.param is not None and not _leads_to(eqn, one):
        yield f"and {one.param} does not lead to what is stored, from the params of the equation"
    for ends, roles, own, what, of in (
        (one.operands, one.in_roles, one.jaxpr.invars, "inputs", eqn.invars),
        (one.results, one.out_roles, one.jaxpr.outvars, "results", eqn.outvars),
    ):
        if not len(ends) == len(roles) == len(own):
            yield (
                f"and its jaxpr has {len(own)} {what}, for which there are {len(ends)} indices and "
                f"{len(roles)} roles"
            )
        if any(k is not None and not 0 <= k < len(of) for k in ends):
            yield f"and the equation has no {what} {list(ends)}: it has {len(of)}"
    n_out, n_in = len(one.jaxpr.outvars), len(one.jaxpr.invars)
    if any(not (0 <= out < n_out and 0 <= into < n_in) for out, into in one.back):
        yield f"and back={one.back} names results and inputs that its jaxpr does not have"


def _leads_to(eqn: JaxprEqn, one: Nested) -> bool:
    here: Any = eqn.params
    try:
        for key in one.param or ():
            here = here[key]
    except (LookupError, TypeError):
        return False
    return here is one.stored


# ---- checks of `Hop.inject` --------------------------------------------------


def _injected(
    inject: Inject, eqn: JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
) -> Made:
    """Call the rule, check its results, and restore the weak types of the original results."""
    returned = inject(eqn, list(ctx), list(operands), thread)
    if not (isinstance(returned, (tuple, list)) and len(returned) == 3):
        raise ArgumentError(
            _said(eqn, f"inject returned a {type(returned).__name__}, not (ctx, results, emits)")
        )
    now, results, emits = returned
    new_ctx = _of_types(eqn, "ctx", now, [jax.typeof(x) for x in ctx])
    new_results = _of_types(eqn, "results", results, [_compat.aval_of(var) for var in eqn.outvars])
    _check_emits(eqn, emits, thread)
    return new_ctx, new_results, emits


def _of_types(
    eqn: JaxprEqn, what: str, values: Sequence[Array], avals: Sequence[Aval]
) -> list[Array]:
    found = [jax.typeof(x) for x in values]
    if [(x.shape, x.dtype) for x in found] != [(aval.shape, aval.dtype) for aval in avals]:
        shown = ", ".join(x.str_short() for x in found) or "nothing"
        expected = ", ".join(aval.str_short() for aval in avals) or "nothing"
        raise ArgumentError(_said(eqn, f"inject returned {what} {shown}, and expected {expected}"))
    return [
        _compat.with_weak_type(x, getattr(aval, "weak_type", False))
        for x, aval in zip(values, avals, strict=True)
    ]


def _check_emits(eqn: JaxprEqn, emits: Emits, thread: Thread) -> None:
    expected = {key for one in nested_jaxprs(eqn) for key in thread(one.label).emitted()}
    found = emits if isinstance(emits, dict) else {}
    if lost := sorted(expected - found.keys()):
        raise ArgumentError(
            _said(
                eqn,
                f"inject lost what is collected at {', '.join(lost)}: return what each call of "
                "thread(label) hands out, all in one dict",
            )
        )


def _said(eqn: JaxprEqn, what: str) -> str:
    source = _compat.source_of(eqn)
    where = f", at {source}" if source else ""
    return f"register_hop: the entry of {eqn.primitive.name}{where}: {what}."
