"""The arrays that a while loop fills part by part."""

from collections.abc import Mapping
from typing import Any

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._closed.loops import call_of, makers_of, parts_of, result_at
from taxpr_jupyter._text import short

_TOLD = 2  # the largest ones


def kept_in(eqn: introspect.JaxprEqn) -> list[str]:
    """The largest arrays that a while loop fills part by part: `22 × f32[16,2]`."""
    if (loop := parts_of(eqn)) is None:
        return []
    jaxpr = loop.body.jaxpr
    made = makers_of(jaxpr)
    found: dict[str, int] = {}
    for j, i in loop.body.back:
        aval: Any = jaxpr.invars[i].aval
        if not getattr(aval, "shape", ()):
            continue
        root, axes = _filled(jaxpr.outvars[j], made)
        if root is jaxpr.invars[i] and len(axes) == 1 and (axis := min(axes)) >= 0:
            text = f"{aval.shape[axis]} × {_without(aval, axis)}"
            found[text] = max(found.get(text, 0), introspect.n_bytes(aval))
    return sorted(found, key=found.__getitem__, reverse=True)[:_TOLD]


def _filled(atom: introspect.Atom, made: Mapping[Any, Any]) -> tuple[Any, frozenset[int]]:
    """The value that an array is but for parts written into it, and along which axes those are."""
    axes: frozenset[int] = frozenset()
    while not introspect.is_literal(atom) and (eqn := made.get(atom)) is not None:
        if eqn.primitive in (p.dynamic_update_slice_p, p.scatter_p):
            axes |= _written(eqn)
            atom = eqn.invars[0]
        elif eqn.primitive is p.copy_p:
            atom = eqn.invars[0]
        elif eqn.primitive is p.select_n_p:
            cases = [_filled(case, made) for case in eqn.invars[1:]]
            if any(root is not cases[0][0] for root, _ in cases):
                break
            atom, axes = cases[0][0], axes.union(*(more for _, more in cases))
        elif (call := call_of(eqn)) is not None:
            inner = call.jaxpr
            root, more = _filled(
                inner.outvars[call.results.index(result_at(eqn, atom))], makers_of(inner)
            )
            at = [i for i, var in enumerate(inner.invars) if var is root]
            if not at or (operand := call.operands[at[0]]) is None:
                break
            atom, axes = eqn.invars[operand], axes | more
        else:
            break
    return atom, axes


def _written(eqn: introspect.JaxprEqn) -> frozenset[int]:
    """The axes of an array along which an equation writes one place; -1 where it writes more."""
    given: Any = eqn.invars[0].aval
    if eqn.primitive is p.dynamic_update_slice_p:
        new: Any = eqn.invars[1].aval
        sizes = list(new.shape)
    else:
        numbers: Any = eqn.params["dimension_numbers"]
        new = eqn.invars[2].aval
        if new.ndim > len(numbers.update_window_dims) + len(numbers.operand_batching_dims):
            return frozenset({-1})
        window = iter(new.shape[k] for k in numbers.update_window_dims)
        own = set(numbers.inserted_window_dims)
        batched = set(numbers.operand_batching_dims)
        sizes = [
            1 if k in own else size if k in batched else next(window)
            for k, size in enumerate(given.shape)
        ]
    parts = [(k, sizes[k]) for k, size in enumerate(given.shape) if sizes[k] != size]
    return frozenset(k if size == 1 else -1 for k, size in parts)


def _without(aval: Any, axis: int) -> str:
    """A type without one axis."""
    shape = [str(size) for k, size in enumerate(aval.shape) if k != axis]
    return f"{short.aval_text(aval).partition('[')[0]}[{','.join(shape)}]"
