"""The primitives that read and write a state.

Using a `taxpr.State` during tracing leaves one of these equations. `taxpr.uncurry` replaces them by
the values of the states; they cannot run or compile.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
from jax.interpreters import ad
from jax.tree_util import treedef_is_leaf

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Aval, Dims, Effects, PyTree, Tangent, TreeDef
from taxpr._errors import StateError
from taxpr._primitives.access import WRAP, WRAP_GRAD, WRAP_VMAP, Access, placed
from taxpr._primitives.handed_out import StateValue
from taxpr._primitives.uncurrying import here


class _Primitive(_compat.ManyResults):
    """A primitive that checks its surroundings whenever it is bound.

    A jaxpr may be traced in one place, as by `jax.closure_convert`, and evaluated in another.
    """

    def bind(self, *args: ArrayLike, access: Access, **params: Any) -> list[Array]:
        return super().bind(*args, access=placed(access), **params)


read_p = _Primitive("state_read")
write_p = _Primitive("state_write")

# Params of both: `access`; of a read also `avals`, a tuple. A write takes the new leaves.


def is_access(eqn: _compat.JaxprEqn) -> bool:
    """Whether an equation reads or writes a state."""
    return eqn.primitive is read_p or eqn.primitive is write_p


def access_of(eqn: _compat.JaxprEqn) -> Access:
    """The `Access` of an equation that reads or writes a state."""
    return eqn.params["access"]


def bind_read(state: object, tree: TreeDef, avals: Sequence[Aval]) -> PyTree:
    """Read a state during tracing."""
    avals = tuple(here.avals[-1].get(state, avals) if here.avals else avals)
    access = Access(state, "read", tree, _compat.source_here())
    # The mesh axes here may have other types than where the state was created.
    leaves = map(_compat.moved_here, read_p.bind(access=access, avals=avals))
    value = jax.tree.unflatten(tree, leaves)
    # Remember the value to detect in-place changes. A single array cannot change, and JAX's leak
    # checker would report a remembered tracer.
    if here.handed and not (treedef_is_leaf(tree) or jax.config.jax_check_tracer_leaks):
        here.handed[-1].append((access, StateValue(value)))
    return value


def bind_write(state: object, tree: TreeDef, value: PyTree, leaves: Sequence[Array]) -> None:
    """Write a state during tracing. ``leaves`` are the converted leaves of ``value``."""
    write_p.bind(*leaves, access=Access(state, "write", tree, _compat.source_here()))
    for access, handed in here.handed[-1] if here.handed else ():
        if access.state is state:
            handed.written(value)


def _leaked(*_: object, access: Access, **__: object) -> NoReturn:
    raise StateError(
        f"{access}: it is run or compiled by itself, outside of uncurry, so the state has no "
        f"value to read or set. {WRAP}."
    )


def _differentiated(
    primals: Sequence[Array], tangents: Sequence[Tangent], *, access: Access
) -> tuple[list[Array], list[Tangent]]:
    if all(isinstance(tangent, ad.Zero) for tangent in tangents):
        return write_p.bind(*primals, access=access), []
    _refuse_derivative(access=access)


def _refuse_derivative(*_: object, access: Access) -> NoReturn:
    raise StateError(
        f"{access}: jax.grad or the like differentiates the value, and a derivative does not go "
        f"through a state. {WRAP_GRAD}. Or write jax.lax.stop_gradient(value), if no gradient is "
        "meant to go that way."
    )


def _batched(args: Sequence[Array], dims: Dims, *, access: Access) -> NoReturn:
    del args, dims
    raise StateError(
        f"{access}: the value has a batch axis of jax.vmap, and the state has not. {WRAP_VMAP}. "
        "Or write a value without that axis, such as a mean by jax.lax.pmean over the axis_name "
        "of the vmap."
    )


def _read_avals(*, access: Access, avals: Sequence[Aval]) -> tuple[list[Aval], Effects]:
    del access
    return list(avals), {_compat.tag_effect}


def _written_avals(*avals: Aval, access: Access) -> tuple[list[Aval], Effects]:
    del avals, access
    return [], {_compat.tag_effect}


_compat.define(read_p, impl=_leaked, forwards=_leaked, effectful_types=_read_avals)
_compat.define(
    write_p,
    impl=_leaked,
    forwards=_leaked,
    effectful_types=_written_avals,
    jvp=_differentiated,
    jet=_refuse_derivative,
    batch=_batched,
)
