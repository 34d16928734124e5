"""Trace a function that uses states, and thread the states through its jaxpr.

States are a context, and reads and writes are sites with handlers, so the engine of `inject` does
the work. `uncurry` and `make_jaxpr` build on this module.
"""

import contextlib
import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Atom, Aval, ClosedJaxpr, J, JaxprEqn, PyTree, StoredJaxpr, Var
from taxpr._engine.handler import Handled, Handler, Rewired
from taxpr._engine.thread import thread
from taxpr._engine.underived import with_refusals
from taxpr._errors import RefusedError, refuse_function
from taxpr._hops.protocol import Options
from taxpr._hops.table import has_rules, nested_jaxprs, replace_nested
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.access import Access, refuse_conflicts
from taxpr._primitives.state import State
from taxpr._primitives.state_access import access_of, is_access
from taxpr._primitives.tag import tag
from taxpr._primitives.uncurrying import in_backward_rule, tracing
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._sites.site import Site, around, described
from taxpr._sites.walk import find_sites
from taxpr._states.lost import lost

Avals = Mapping[State[Any], Sequence[Aval]]


@dataclasses.dataclass(frozen=True, eq=False)
class Stateful:
    """A traced function and its pure jaxpr.

    Attributes:
        program: The traced program, which still has the accesses of the states.
        accesses: The accesses in program order.
        jaxpr: From ``[*state values, *args]`` to ``[*outs, *state values]``.
    """

    program: Program
    accesses: Sequence[Access]
    jaxpr: ClosedJaxpr

    def __call__(self, flat: Sequence[Array]) -> list[Array]:
        """Run the pure jaxpr."""
        run = self._compiled if _compat.brings_mesh(flat) else _compat.jaxpr_as_fun(self.jaxpr)
        return run(*flat)

    @functools.cached_property
    def _compiled(self) -> Callable[..., list[Array]]:
        return _compat.compiled_for_mesh(self.jaxpr)


def stateful(
    fun: Callable[..., Any],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    traced: Callable[..., Any] = trace,
    known: Sequence[State[Any]] = (),
    avals: Avals | None = None,
    tag_writes: bool = False,
) -> tuple[Stateful, list[State[Any]]]:
    """Trace a function and thread the states through it.

    Returns:
        The traced function, and its states: first those in ``known``, then the others in the order
        of their first use. With ``tag_writes`` every written array is tagged, see
        `taxpr.program.Uncurried`.
    """
    given = avals or {}

    # A new function object, so that JAX finds no trace of it in its caches.
    @called_as(fun)
    def afresh(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return fun(*args, **kwargs)

    with contextlib.suppress(TypeError, ValueError):  # some builtins have no signature
        afresh.__signature__ = inspect.signature(fun)  # pyright: ignore[reportFunctionMemberAccess]
    # Keep the context open: looking at a custom_jvp or custom_vjp traces its rule.
    with tracing(given):
        program = traced(afresh)(*args, **kwargs)
        sites = find_sites(program.jaxpr, of=is_access)
        accesses = [access_of(site.eqn) for site in sites]
        _refuse(program.jaxpr, sites, accesses)
        states = list(dict.fromkeys([*known, *(access.state for access in accesses)]))
        written = {access.state for access in accesses if access.op == "write"}
        places: dict[State[Any], tuple[int, ...]] = {}
        unchanged: list[int] = []
        types: list[Aval] = []
        for state in states:
            own = given.get(state, state.avals)
            places[state] = tuple(range(len(types), len(types) + len(own)))
            unchanged += [] if state in written else places[state]
            types += own
        handlers = {
            (state, op): Handler(_run, places[state], _rewire)
            for state in states
            for op in ("read", "write")
        }
        for state, name in zip(states, names_of(states), strict=True) if tag_writes else ():
            run = functools.partial(_run_tagged, name)
            handlers[state, "write"] = Handler(run, places[state])
        chosen = [
            (site, handlers[access.state, access.op])
            for site, access in zip(sites, accesses, strict=True)
        ]
        try:
            options = Options(
                unchanged=frozenset(unchanged), read_only=frozenset(unchanged), states=True
            )
            jaxpr = thread(program.jaxpr, chosen, types, options).jaxpr
            if kept := _written_in_rules(sites, accesses, places):
                marking = dataclasses.replace(options, marks_lost=True)
                with warnings.catch_warnings():  # the first call of thread gave them
                    warnings.simplefilter("ignore")
                    marked = thread(program.jaxpr, chosen, types, marking).jaxpr
                jaxpr = _without_lost(jaxpr, marked, kept)
        except RefusedError as error:
            steps = [step.eqn.primitive for site in sites for step in site.steps]
            if _compat.shard_map_p not in steps:
                raise
            raise RefusedError(
                f"{error} uncurry takes no shards=: call pure inside of the shard_map, with the "
                "states among its arguments."
            ) from error
    return Stateful(program, accesses, _with_barred_rules(jaxpr, {})), states


def _written_in_rules(
    sites: Sequence[Site], accesses: Sequence[Access], places: Mapping[State[Any], Sequence[int]]
) -> dict[int, tuple[Site, Address, JaxprEqn]]:
    """For each differentiable leaf that is written inside a function with a derivative rule.

    Returns:
        The first such write of each leaf, and the equation that has the rule.
    """
    found: dict[int, tuple[Site, Address, JaxprEqn]] = {}
    for site, access in zip(sites, accesses, strict=True):
        rules = [(address, one.eqn) for address, one in around(site.steps) if has_rules(one.eqn)]
        if access.op == "write" and rules:
            avals: list[Any] = [atom.aval for atom in site.eqn.invars]
            for k, aval in zip(places[access.state], avals, strict=True):
                if jnp.issubdtype(aval.dtype, jnp.inexact):
                    found.setdefault(k, (site, *rules[0]))
    return found


def _without_lost(
    jaxpr: ClosedJaxpr, marked: ClosedJaxpr, kept: Mapping[int, tuple[Site, Address, JaxprEqn]]
) -> ClosedJaxpr:
    """The jaxpr with errors for derivatives that a kept rule would lose."""
    inner = _compat.open_jaxpr(jaxpr)
    inputs = [*inner.constvars, *inner.invars]
    by_result: dict[int, dict[int, set[int]]] = {}
    for (j, i), leaves in lost(_compat.hoisted(marked)[0]).items():
        by_result.setdefault(j, {})[i] = leaves
    refused: dict[int, tuple[list[Var], str]] = {}
    for j, by_input in by_result.items():
        leaf = min(set[int]().union(*by_input.values()) & kept.keys(), default=min(kept))
        refused[j] = [inputs[i] for i in by_input], _lost_text(*kept[leaf])
    return with_refusals(jaxpr, refused) if refused else jaxpr


def _lost_text(site: Site, address: Address, eqn: JaxprEqn) -> str:
    return (
        f"uncurry: a differentiated value depends on the {site}, which is in "
        f"{described(address, eqn)}. Its derivative rule is kept, and does not cover the written "
        "value. Return the value from the function, with a derivative in its rule, and write it "
        "outside; or give jax.lax.stop_gradient(value), if no gradient is meant to go that way."
    )


def states_of(program: Any) -> list[State[Any]]:
    """The states that a traced program reads or writes, in the order of their first use.

    A program with states neither runs nor compiles. Make its function pure by `uncurry`.

    Args:
        program: A `Program`, or an open or closed jaxpr.

    Example:
        >>> from taxpr import State, states_of, trace
        >>> total = State(0.0, name="total")
        >>> states_of(trace(lambda x: x + total.value)(1.0))
        [State(float32[]=0.0, name='total')]
    """
    refuse_function("states_of", program)
    jaxpr = program.jaxpr if isinstance(program, Program) else program
    return list(dict.fromkeys(access_of(s.eqn).state for s in find_sites(jaxpr, of=is_access)))


def names_of(states: Sequence[State[Any]]) -> list[str]:
    """A unique name for each state: its own, with a number appended if it is taken."""
    taken = {state.name for state in states if state.name}
    names: list[str] = []
    unnamed = 0
    for state in states:
        name = state.name
        if name is None:
            while (name := f"state{unnamed}") in taken:
                unnamed += 1
            unnamed += 1
        elif name in names:
            number = 1
            while (name := f"{state.name}_{number}") in taken:
                number += 1
        taken.add(name)
        names.append(name)
    return names


def _with_barred_rules(stored: J, done: dict[int, Any]) -> J:
    """The jaxpr with custom_vjp backward rules that raise when they use a state.

    JAX runs a backward rule after the whole function, when the state has no definite value.
    """
    if id(stored) not in done:
        inner = _compat.open_jaxpr(stored)
        eqns = [_with_barred_rule(eqn, done) for eqn in inner.eqns]
        changed = any(new is not old for new, old in zip(eqns, inner.eqns, strict=True))
        # Keep the jaxpr alive, so that no other object gets its id.
        done[id(stored)] = _compat.rebuilt(stored, eqns=eqns) if changed else stored, stored
    return done[id(stored)][0]


def _with_barred_rule(eqn: JaxprEqn, done: dict[int, Any]) -> JaxprEqn:
    new: dict[str, StoredJaxpr] = {}
    for nested in nested_jaxprs(eqn):
        same = not nested.replaceable
        barred = nested.stored if same else _with_barred_rules(nested.stored, done)
        if barred is not nested.stored:
            new[nested.label] = barred
    if new:
        eqn = replace_nested(eqn, new)
    if eqn.primitive is _compat.custom_vjp_call_p:
        more = _compat.bwd_params(eqn.params, in_backward_rule)
        eqn = eqn.replace(params={**eqn.params, **more})
    return eqn


def _is_used(jaxpr: StoredJaxpr, site: Site) -> bool:
    """Whether anything but a write depends on the value read at a site."""
    inner = site.steps[-1].nested.jaxpr if site.steps else _compat.open_jaxpr(jaxpr)
    reached = set(site.eqn.outvars)
    for eqn in inner.eqns:
        if any(not _compat.is_literal(atom) and atom in reached for atom in eqn.invars):
            reached.update(eqn.outvars)  # a write has no outvars
    return any(not _compat.is_literal(atom) and atom in reached for atom in inner.outvars)


def _refuse(jaxpr: ClosedJaxpr, sites: Sequence[Site], accesses: Sequence[Access]) -> None:
    refuse_conflicts(accesses, lambda k: _is_used(jaxpr, sites[k]))
    for site in sites:
        if site.idle:
            raise RefusedError(
                f"uncurry: the {site} runs only in a derivative or a transpose, into which no "
                "state is threaded. Read the state before, and close over the value."
            )
        if site.recomputed:
            raise RefusedError(
                f"uncurry: the {site} is in a part of a backward pass that repeats the forward "
                "pass, and may happen twice. Wrap the function that is differentiated by "
                "uncurry, and not what calls it."
            )


def _run(address: str, eqn: JaxprEqn, now: list[Array], leaves: list[Array]) -> Handled:
    """The handler of an access: a write replaces the context leaves, a read returns them."""
    access = access_of(eqn)
    if access.op == "write":
        return leaves, [], None
    values: list[Array] = []
    for value, var in zip(now, eqn.outvars, strict=True):
        if more := sorted(_compat.varying(value) - _compat.varying(var.aval)):
            raise RefusedError(
                f"uncurry: {described(address, eqn)}: the value has come to differ between the "
                f"devices along {', '.join(more)}, but it was equal when the function was "
                "traced. Begin with a state that differs between devices."
            )
        value = _compat.pvary(value, sorted(_compat.varying(var.aval) - _compat.varying(value)))
        values.append(_compat.resharded(value, var.aval))
    return now, values, None


def _run_tagged(
    name: str, address: str, eqn: JaxprEqn, now: list[Array], leaves: list[Array]
) -> Handled:
    """The handler of a write with ``tag_writes``: it tags each written leaf."""
    del address, now
    named = named_leaves(name, access_of(eqn).state.stored)
    tagged = [
        tag(leaf, name=of_leaf, state=name, op="write")
        for leaf, (of_leaf, _) in zip(leaves, named, strict=True)
    ]
    return tagged, [], None


def _rewire(eqn: JaxprEqn, now: list[Atom], leaves: list[Atom]) -> Rewired | None:
    """Rewire an access without tracing `_run`; None if types differ from those traced."""
    if access_of(eqn).op == "write":
        return leaves, []
    same = all(a.aval == b.aval for a, b in zip(now, eqn.outvars, strict=True))
    return (now, now) if same else None
