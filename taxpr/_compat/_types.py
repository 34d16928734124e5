"""Names for the parts of programs, for signatures.

Classes are JAX's own. If it does not declare their attributes, or versions have other classes, the
attributes that taxpr reads are declared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import jax
import jax.core
import numpy as np

from taxpr._compat._private import private

if TYPE_CHECKING:
    from jax._src import core as _core
    from jax._src import effects as _effects
else:
    _core, _effects = private("core"), private("effects")

# `jax.extend.core` has these, too, but from 0.10 importing it imports Pallas.
Jaxpr = _core.Jaxpr
JaxprEqn = _core.JaxprEqn
Primitive = _core.Primitive
Var = _core.Var
DropVar = _core.DropVar
Literal = _core.Literal
# An operand of an equation, or a result of a jaxpr.
Atom = Var | Literal

Effect = _effects.Effect
Effects = AbstractSet[Effect]

# The params of an equation, by name; each primitive has others.
Params = dict[str, Any]

# What a function computes with: an array, a tracer, a Ref; among consts also an array of NumPy.
Array = jax.Array
# What JAX takes for an array: one, one of NumPy, or a number.
ArrayLike = jax.typing.ArrayLike
# The user's own: containers in each other, with leaves that nobody here looks at.
PyTree = Any
TreeDef = jax.tree_util.PyTreeDef

Mesh = jax.sharding.Mesh | jax.sharding.AbstractMesh
Sharding = jax.sharding.NamedSharding
# Of NumPy, or one of JAX's own without arithmetic, such as that of PRNG keys.
DType = np.dtype[Any]

AbstractValue = jax.core.AbstractValue


if TYPE_CHECKING:
    from typing_extensions import TypeIs

    class ShapedArray(jax.core.ShapedArray):
        """The type of an array. JAX declares no types for its attributes."""

        shape: tuple[int, ...]
        dtype: DType
        weak_type: bool
        sharding: Sharding

        def __new__(
            cls, shape: tuple[int, ...], dtype: DType, weak_type: bool = False
        ) -> ShapedArray: ...
        @property
        def ndim(self) -> int: ...
        def update(
            self, shape: Any = None, dtype: Any = None, weak_type: Any = None, **others: Any
        ) -> ShapedArray: ...
        def to_tangent_aval(self) -> ShapedArray: ...
        def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str: ...

else:
    ShapedArray = jax.core.ShapedArray

# The type of a value where that is an array. Those of Refs and tokens are other classes of JAX.
Aval = ShapedArray
# What has a type, or is one.
Typed = Array | AbstractValue


class ClosedJaxpr(Protocol):
    """A jaxpr with the values of its constvars.

    Up to 0.10 a class of its own; from 0.11 every `Jaxpr` is closed.
    """

    @property
    def jaxpr(self) -> Jaxpr: ...
    @property
    def eqns(self) -> list[JaxprEqn]: ...
    @property
    def consts(self) -> Sequence[Any]: ...
    @property
    def in_avals(self) -> Sequence[Any]:
        """Each is an `Aval` if it is an array's, which JAX does not say."""
        ...

    @property
    def out_avals(self) -> Sequence[Any]:
        """As ``in_avals``."""
        ...


# A jaxpr as an equation holds it, open or closed: `open_jaxpr` and `consts_of` read both.
StoredJaxpr = Jaxpr | ClosedJaxpr
# The same class in and out.
J = TypeVar("J", bound=StoredJaxpr)


def is_tuple(thing: object) -> TypeIs[tuple[Any, ...]]:
    """Whether it is a tuple, of whatever. After `isinstance` nothing is known of its items."""
    return isinstance(thing, tuple)


def is_sequence(thing: object) -> TypeIs[tuple[Any, ...] | list[Any]]:
    """Whether it is a tuple or a list; see `is_tuple`."""
    return isinstance(thing, (tuple, list))
