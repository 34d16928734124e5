"""Try a function with its Python loops as scans, if the iterations of a loop are alike."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.static import is_traced
from taxpr._compat import Jaxpr, JaxprEqn, PyTree
from taxpr._compile_time.loop_body import LoopBody, unlike
from taxpr._compile_time.parts import MadeBy
from taxpr._compile_time.unrolled import Unrolled, unrolled
from taxpr._editing.edited import edit
from taxpr._errors import ArgumentError, RefusedError, name_of, told_as
from taxpr._source.statements import statements_of
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp as _jnp
from taxpr._watching.mark import mark_p


def with_scans(fun: Any, where: Any, found: list[LoopBody]) -> Any:
    """A function that calls another one with its Python loops as scans.

    It is for a trial, as `rolled` is; also in gradients, as it is changed before a derivative is
    taken.

    Args:
        fun: The function.
        where: The other one, or its name, as `edit` takes it.
        found: Where to note the loops.

    Raises:
        ArgumentError: If ``where`` is no function.
        RefusedError: If it has no loop of Python whose iterations are alike; when it is called.
    """
    told = where if isinstance(where, str) else name_of(where)

    def wrap(one: Any) -> Any:
        if not callable(one):
            raise ArgumentError(
                f"what_if: scan={told!r} is a variable and no function. Give the name of the "
                "function that has the loop."
            )
        run = rolled(one, found)

        @functools.wraps(one, updated=())
        def run_or_refuse(*args: Any, **kwargs: Any) -> Any:
            with told_as("scan", "what_if: scan"):
                return run(*args, **kwargs)

        return run_or_refuse

    return edit(fun, where, wrap)


def scan_alone(loop: Unrolled) -> tuple[Callable[..., list[Any]], list[Any]]:
    """The scan in the place of a loop: a function of all that it reads, and their types.

    Raises:
        RefusedError: If the iterations are not alike.
    """
    if loop.iteration is None:
        raise unlike(loop, "they have other equations")
    body = LoopBody(loop.iteration.jaxpr, loop)
    types: dict[Any, Any] = {}

    def any_value(atom: Any) -> Any:
        if _compat.is_literal(atom):
            return atom.val
        aval = _compat.aval_of(atom)
        types[atom] = _jax.ShapeDtypeStruct(aval.shape, aval.dtype)
        return _jnp.zeros(aval.shape, aval.dtype)

    _jax.eval_shape(lambda: list(body.run(any_value).values()))

    def scan(*given: Any) -> list[Any]:
        known = dict(zip(types, given, strict=True))
        found = body.run(lambda atom: atom.val if _compat.is_literal(atom) else known[atom])
        return list(found.values())

    return scan, list(types.values())


def rolled(fun: Callable[..., Any], found: list[LoopBody]) -> Callable[..., Any]:
    """A function that computes the same with its Python loops as scans.

    It is for a trial: rules for derivatives are taken from the first iteration.

    Args:
        fun: A function.
        found: Where to note the loops.

    Raises:
        RefusedError: If it has no Python loop whose iterations are alike.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def deep(ws, x):
        ...     for w in ws:
        ...         x = jnp.sin(x * w)
        ...     return x
        >>> program = jax.make_jaxpr(rolled(deep, []))([1.0, 2.0, 3.0, 4.0], 0.5)
        >>> program.eqns[-1].primitive, program.eqns[-1].params["length"]
        (scan, 4)
    """

    def run(*args: PyTree, **kwargs: PyTree) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = [k for k, x in enumerate(leaves) if is_traced(x)]
        trees: list[Any] = []

        def flat(*given: Any) -> Any:
            every = list(leaves)
            for k, x in zip(places, given, strict=True):
                every[k] = x
            some, words = jax.tree.unflatten(tree, every)
            results, out = jax.tree.flatten(fun(*some, **words))
            trees.append(out)
            return results

        given = [leaves[k] for k in places]
        traced = _jax.make_jaxpr(flat)(*given)
        # The names of variables within are not needed for a trial.
        eqns = [eqn for eqn in _compat.open_jaxpr(traced).eqns if eqn.primitive is not mark_p]
        closed = _compat.rebuilt(traced, eqns=eqns)
        loops = _loops(_compat.open_jaxpr(closed), getattr(fun, "__name__", "the function"))
        found[:] = loops
        results = _evaluated(closed, loops, given)
        return jax.tree.unflatten(trees[-1], results)

    return run


def _loops(jaxpr: Jaxpr, name: str) -> list[LoopBody]:
    """The loops of a jaxpr whose iterations are alike, none within another."""
    loops = unrolled([MadeBy(eqn, statements_of(eqn), jaxpr) for eqn in jaxpr.eqns])
    kept: list[LoopBody] = []
    errors: list[RefusedError] = []
    for loop in sorted(loops, key=lambda one: one.within):
        try:
            body = LoopBody(jaxpr, loop)
        except RefusedError as error:
            errors.append(error)
            continue
        if all(body.last < one.first or one.last < body.first for one in kept):
            kept.append(body)
    if not kept:
        raise (
            errors[0]
            if errors
            else RefusedError(
                f"scan: {name} has no Python loop with four or more iterations that are alike. "
                "Give the function whose source has the loop."
            )
        )
    return kept


def _evaluated(closed: Any, loops: Sequence[LoopBody], given: Sequence[Any]) -> list[Any]:
    jaxpr = _compat.open_jaxpr(closed)
    known: dict[Any, Any] = dict(zip(jaxpr.invars, given, strict=True))
    known.update(zip(jaxpr.constvars, _compat.consts_of(closed), strict=True))

    pending: dict[Any, JaxprEqn] = {}  # equations that run if somebody reads their result

    def read(atom: Any) -> Any:
        if not _compat.is_literal(atom) and atom not in known:
            compute(pending[atom])
        return atom.val if _compat.is_literal(atom) else known[atom]

    def compute(eqn: JaxprEqn) -> None:
        made = _compat.bind(eqn.primitive, [read(x) for x in eqn.invars], eqn.params)
        known.update(zip(eqn.outvars, made, strict=True))

    begins = {one.first: one for one in loops}
    end = -1
    for k, eqn in enumerate(jaxpr.eqns):
        if k in begins:
            pending.update((x, eqn) for eqn in begins[k].before for x in eqn.outvars)
            known.update(begins[k].run(read))
            end = begins[k].last
        elif k > end:
            compute(eqn)
    return [read(x) for x in jaxpr.outvars]
