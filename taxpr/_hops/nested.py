"""`Nested`: a jaxpr that an equation holds, with the operands and results it maps to."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr._compat import (
    Array,
    Jaxpr,
    JaxprEqn,
    StoredJaxpr,
    consts_of,
    is_jaxpr,
    open_jaxpr,
)
from taxpr._errors import ArgumentError

# Where an equation stores a jaxpr, from its params on.
ParamPath = tuple[str | int, ...]
# From a jaxpr to another one of the same type.
Change = Callable[[StoredJaxpr], StoredJaxpr]


@dataclasses.dataclass(frozen=True)
class Nested:
    """One jaxpr held by an equation.

    Attributes:
        label: Its part of an address, such as ``"body"``.
        title: Its name for people, such as ``"scan body"``.
        param: Where it is stored, as a path into ``eqn.params``; None if it is hidden there.
        stored: The jaxpr as stored, open or closed.
        operands: For each invar the index of the operand that feeds it, or None.
        in_roles: For each invar its role: ``"arg"`` of a call; in a loop ``"const"``, the same in
            each iteration, ``"carry"``, handed on by the iteration before, or ``"x"``, its own row
            of the operand; ``"ref"``.
        results: For each outvar the index of the result that it feeds, or None.
        out_roles: For each outvar its role: ``"out"`` of a call; in a loop ``"carry"``, or
            ``"y"``, a row of the result; ``"predicate"``, which decides what runs.
        back: Pairs (outvar, invar) that feed back into the next iteration.
        trips: How often it runs each time the equation runs, as pictures show; None when that is
            known only at run time. For a scan it may be a symbolic dimension of `jax.export`.
        once: In a loop, whether it runs once, before or after all iterations.
        reverse: Whether its iterations run from the last to the first.
        conditional: Whether it may be passed over.
        recomputed: Whether it repeats work of a forward pass in a backward pass.
        rule: Whether it is a rule of `jax.custom_jvp` or `jax.custom_vjp`, which runs in the
            place of the function itself when the program is differentiated.
        idle: Whether it never runs in this program, only in its derivative or transpose.
        facts: Short facts for people, such as ``{"reverse": True}``, which pictures show.
        refusal: Why `inject` refuses a tag in this jaxpr alone; None if it does not.
        rebuilt: For a hidden one, ``(eqn, jaxpr) -> eqn``: the equation with another jaxpr in its
            place; None if that is not possible.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import nested_jaxprs, trace
        >>> def step(c, x):
        ...     return c + x, c * 2
        >>> program = trace(lambda xs: jax.lax.scan(step, 0.0, xs))(jnp.ones(5))
        >>> [body] = nested_jaxprs(program.eqns[0])
        >>> body.label, body.in_roles, body.out_roles, body.trips
        ('body', ('carry', 'x'), ('carry', 'y'), 5)
    """

    label: str
    title: str
    param: ParamPath | None
    stored: StoredJaxpr
    operands: tuple[int | None, ...]
    in_roles: tuple[str, ...]
    results: tuple[int | None, ...]
    out_roles: tuple[str, ...]
    back: tuple[tuple[int, int], ...] = ()
    trips: int | None = 1
    once: bool = False
    reverse: bool = False
    conditional: bool = False
    recomputed: bool = False
    rule: bool = False
    idle: bool = False
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    refusal: str | None = None
    rebuilt: Callable[[JaxprEqn, StoredJaxpr], JaxprEqn] | None = None

    @property
    def replaceable(self) -> bool:
        """Whether another jaxpr can replace it, for example one with a tag."""
        return self.param is not None or self.rebuilt is not None

    @property
    def jaxpr(self) -> Jaxpr:
        """The open view: eqns, invars, outvars, constvars."""
        return open_jaxpr(self.stored)

    @property
    def consts(self) -> Sequence[Array]:
        """The values of the constvars."""
        return consts_of(self.stored)


def called(
    eqn: JaxprEqn, *param: str | int, label: str = "body", first_operand: int = 0, **more: Any
) -> Nested:
    """A nested jaxpr whose inputs are the operands of the equation, and outputs its results.

    Args:
        eqn: The equation.
        *param: The path to the jaxpr in ``eqn.params``.
        label: Its part of an address, and the argument of ``thread``.
        first_operand: The operand that feeds its first input; the others follow.
        **more: Other fields of `Nested`.

    Raises:
        ArgumentError: If there is no jaxpr at ``param``.

    Example:
        >>> import jax
        >>> from taxpr import trace
        >>> from taxpr.hops import called
        >>> [eqn] = trace(jax.jit(lambda x: x + 1))(1.0).eqns
        >>> called(eqn, "jaxpr").operands
        (0,)
    """
    stored: Any = eqn.params
    try:
        for key in param:
            stored = stored[key]
    except (LookupError, TypeError):
        stored = None
    if not is_jaxpr(stored):
        path = "".join(f"[{key!r}]" for key in param)
        raise ArgumentError(
            f"called: {eqn.primitive.name} has no jaxpr at eqn.params{path}. Its params are "
            f"{', '.join(eqn.params)}."
        )
    title = f"{eqn.primitive.name} {label}"
    return dataclasses.replace(
        plain(label, title, param, stored, first_operand=first_operand), **more
    )


def plain(
    label: str,
    title: str,
    param: ParamPath | None,
    stored: StoredJaxpr,
    *,
    first_operand: int | None = 0,
    role: str = "arg",
    **more: Any,
) -> Nested:
    """A nested jaxpr whose invars are the operands from ``first_operand`` on.

    With ``first_operand=None`` operands and results do not map one to one.
    """
    inner = open_jaxpr(stored)
    n_in, n_out = len(inner.invars), len(inner.outvars)
    mapped = first_operand is not None
    start = first_operand or 0
    return Nested(
        label=label,
        title=title,
        param=param,
        stored=stored,
        operands=tuple(range(start, start + n_in)) if mapped else (None,) * n_in,
        in_roles=(role,) * n_in,
        results=tuple(range(n_out)) if mapped else (None,) * n_out,
        out_roles=("out",) * n_out,
        **more,
    )
