"""What `collect` or a state takes out of a custom rule that is kept has no derivative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval as pe

from taxpr import _compat
from taxpr._engine.donation import donates
from taxpr._engine.thread import ThreadedJaxpr
from taxpr._hops.protocol import Options
from taxpr._hops.table import has_rules
from taxpr._jaxprs.splice import Splice
from taxpr._primitives.guard import underived
from taxpr._sites.site import Site


def without_derivatives(threaded: ThreadedJaxpr, sites: Sequence[Site], options: Options) -> Any:
    """The threaded jaxpr, in which a derivative of a value from a kept rule is refused.

    The rule hands the value out without a tangent. That it is not known is said at the end of the
    program and not in the rule: branches and loops around the rule make numbers of the zeros that
    flow back to values of which nobody asked the derivative.
    """
    jaxpr = threaded.jaxpr
    texts = {site.address: text for site in sites if (text := _refusal(site, options))}
    if not texts:
        return jaxpr
    inner = _compat.open_jaxpr(jaxpr)
    emits = threaded.unpack(range(len(inner.outvars)))[2]
    refused: dict[int, Refused] = {}
    for address, text in texts.items():
        results = jax.tree.leaves(emits[address].value)
        sources = _sources(jaxpr, results)
        refused |= dict.fromkeys(results, (sources, text))
    return with_refusals(jaxpr, refused)


# The inputs and constants with respect to which a derivative is refused, and the text of the error.
Refused = tuple[Sequence[Any], str]


def with_refusals(jaxpr: Any, refused: Mapping[int, Refused]) -> Any:
    """A closed jaxpr in which derivatives of some results, by index, are refused."""
    inner = _compat.open_jaxpr(jaxpr)
    splice = Splice(inner, _compat.consts_of(jaxpr))

    def inlined(x: Any, sources: Sequence[Any], text: str) -> Any:
        def run(x: Any, *sources: Any) -> Any:
            return underived(x, sources, text)

        atoms = [x, *sources]
        [out] = splice.inline(jax.make_jaxpr(run)(*(atom.aval for atom in atoms)), atoms)
        return out

    if donates(jaxpr):
        # What a jit has donated is not there at the end, but a number that comes from it is.
        [zero] = splice.inline(jax.make_jaxpr(lambda: jnp.float32(0))(), [])
        refused = {k: ([inlined(zero, *one)], one[1]) for k, one in refused.items()}
    splice.keep(inner.eqns)
    outvars = splice.read(inner.outvars)
    for k, (sources, text) in refused.items():
        outvars[k] = inlined(outvars[k], sources, text)
    return splice.finish(inner.invars, outvars)


def _refusal(site: Site, options: Options) -> str | None:
    """The text of the error, where a rule that is kept is around a site."""
    around = zip(site.chain, site.steps, strict=True)
    rules = [(address, step.eqn) for address, step in around if has_rules(step.eqn)]
    if not rules or options.custom_rules == "drop":
        return None
    address, eqn = rules[0]
    source = _compat.source_of(eqn)
    return (
        f"collect: a derivative is taken of the value of the {site}, which is inside {address}"
        + (f" ({source})" if source else "")
        + f". The rule for derivatives of {eqn.primitive.name} is kept, and says nothing of "
        'the value. Collect with custom_rules="drop" to differentiate the function itself, or end '
        "the derivative of the value with jax.lax.stop_gradient."
    )


def _sources(jaxpr: Any, results: Sequence[int]) -> list[Any]:
    """The inputs and constants that some results depend on."""
    inner = _compat.open_jaxpr(jaxpr)
    opened = _compat.open_jaxpr(_compat.hoisted(jaxpr)[0])
    wanted = [k in results for k in range(len(opened.outvars))]
    _, used = pe.dce_jaxpr(opened, wanted, False)
    variables = [*inner.constvars, *inner.invars]
    return [var for var, one in zip(variables, used, strict=True) if one]
