"""The cotangents of the values of a function: what flows back to each when it is differentiated."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, ClosedJaxpr
from taxpr._engine.memo import made_of
from taxpr._errors import ArgumentError
from taxpr._keeping.wanted import Wanted
from taxpr._primitives.cotangent import hidden
from taxpr._programs.edit import tag_values
from taxpr._programs.program import Program
from taxpr._sites.criteria import is_list
from taxpr._sites.values import Value, value_at
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp
from taxpr._variables.table import Variables

_SCALAR = (
    "watch(loss, grads=True) and flow(loss) differentiate the result of {name}, which is to be a "
    "scalar of floats, or a tuple that begins with one; it is {found}. {fix}"
)
_GIVE = "Give the loss itself, not its gradient."
_NAME = "Name the result to differentiate, as in watch(f, grads={of!r}) and flow(f, of={of!r})."
_NO_SCALAR = "{name} has no result {of!r} that is a scalar of floats. There is {found}."


def with_gradient(
    program: Program, wanted: Sequence[Wanted], loss: int
) -> tuple[Program, list[Wanted]]:
    """The gradient of a program, and where in it the cotangents of values are.

    Args:
        program: The program.
        wanted: The values. A value without a cotangent, as an integer, has no place in the result.
        loss: Which output is differentiated, see `loss_of`.
    """
    marked = [one for one in wanted if _can_have_one(one.value)]
    addresses = tuple(dict.fromkeys(one.value.address for one in marked))
    avals = program.in_avals
    floats = [k for k, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.floating)]
    gradient = made_of(
        program.jaxpr,
        (),
        ("gradient", addresses, loss),
        lambda: _gradient(program, addresses, floats, loss),
    )
    names = tuple(f"gradient {program.in_names[k]}" for k in floats)
    tree = jax.tree.structure([0] * len(floats))
    derived = dataclasses.replace(
        program,
        jaxpr=gradient.jaxpr,
        out_tree=tree,
        out_names=names,
        named=None,
        arranged=None,
        after=None,
    )
    out: list[Wanted] = []
    for one in marked:
        at = gradient.named.cotangents_of(gradient.tokens[one.value.address])
        value = value_at(gradient.jaxpr, at[0]) if len(at) == 1 else None
        if value is None or value.refusal:
            continue
        more: dict[str, Any] = {"value": value, "read": value, "cotangent": True}
        more["of"] = one.value.address
        out.append(dataclasses.replace(one, name=f"∂ {one.name}", **more))
    return derived, out


@dataclasses.dataclass(frozen=True, eq=False)
class _Gradient:
    """The gradient of a program, with the tokens of values by their addresses."""

    named: Variables
    tokens: dict[Address, _compat.Token]

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.named.jaxpr


def _gradient(
    program: Program, addresses: Sequence[Address], floats: Sequence[int], loss_at: int
) -> _Gradient:
    tokens = {address: _compat.Token() for address in addresses}
    by_text: dict[str, _compat.Token] = {**tokens}
    jaxpr = program.jaxpr
    if addresses:
        values = [value_at(jaxpr, address) for address in addresses]
        jaxpr = tag_values(jaxpr, values, lambda at: hidden(by_text[at]), cotangents=True)
    run = _compat.jaxpr_as_fun(jaxpr)

    def gradient(*flat: Array) -> list[Array]:
        def loss(some: list[Array]) -> Array:
            given = list(flat)
            for k, x in zip(floats, some, strict=True):
                given[k] = x
            return run(*given)[loss_at]

        return _jax.grad(loss)([flat[k] for k in floats])

    return _Gradient(Variables(_compat.make_jaxpr(gradient)(*program.in_avals), True), tokens)


def _can_have_one(value: Value) -> bool:
    aval: Any = value.aval
    replaceable = all(step.nested.replaceable for step in value.steps)
    return replaceable and jnp.issubdtype(aval.dtype, jnp.inexact)


def loss_of(program: Program, of: str | bool) -> int:
    """Which output is differentiated: the one of this name, or the first one if it is True.

    Raises:
        ArgumentError: If that is no scalar of floats.
    """
    scalars = {
        name: k
        for k, (name, aval) in enumerate(zip(program.out_names, program.out_avals, strict=True))
        if _is_scalar(aval)
    }
    if isinstance(of, str):
        if of not in scalars:
            found = ", ".join(scalars) or "none"
            raise ArgumentError(_NO_SCALAR.format(name=program.name, of=of, found=found))
        return scalars[of]
    first: Any = program.result(program.out_avals)
    if is_list(first) and first:
        first = first[0]
    if not _is_scalar(first):
        types = [aval.str_short() for aval in program.out_avals[:3]]
        fix = _NAME.format(of=next(iter(scalars))) if scalars else _GIVE
        found = ", ".join(types) or "nothing"
        raise ArgumentError(_SCALAR.format(name=program.name, found=found, fix=fix))
    return 0


def _is_scalar(aval: Any) -> bool:
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    return shape == () and jnp.issubdtype(dtype, jnp.floating)
