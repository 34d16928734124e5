"""The types of an entry (`Hop`, `Nested`), and of the objects that its rule works with (`Thread`).

The table is in `taxpr._hops.table`, the entries are in `taxpr._hops.entries`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from taxpr._address import Address
from taxpr._compat import (
    Array,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    PyTree,
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

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Nested:
    """One jaxpr held by an equation.

    Attributes:
        label: Its part of an address, such as ``"body"``.
        title: Its name for people, such as ``"scan body"``.
        param: Where it is stored, as a path into ``eqn.params``; None where it is
            hidden there.
        stored: The jaxpr as stored, open or closed.
        operands: For each invar the index of the operand that feeds it, or None.
        in_roles: For each invar its role: ``"arg"`` of a call; in a loop ``"const"``, the same in
            each iteration, ``"carry"``, what the one before handed on, or ``"x"``, its own row
            of the operand; ``"ref"``.
        results: For each outvar the index of the result that it feeds, or None.
        out_roles: For each outvar its role: ``"out"`` of a call; in a loop ``"carry"``, or
            ``"y"``, a row of the result; ``"predicate"``, which decides what runs.
        back: Pairs (outvar, invar) that feed back into the next iteration.
        trips: How often it runs each time the equation runs, as pictures show; None when that
            is known only at run time. Of a scan it may be a symbolic dimension of `jax.export`.
        once: Of a loop, whether it runs once, before or after all iterations.
        reverse: Whether its iterations run from the last to the first.
        conditional: Whether it may be passed over.
        recomputed: Whether it repeats work of a forward pass in a backward pass.
        rule: Whether it is a rule of `jax.custom_jvp` or `jax.custom_vjp`, which runs in the
            place of the function itself when the program is differentiated.
        idle: Whether it never runs in this program, only in one that a derivative or a
            transpose makes of it.
        facts: Short facts for people, such as ``{"reverse": True}``, which pictures show.
        refusal: Why `inject` refuses a tag in this one, where it does not refuse all of
            the equation; None where it does not.
        rebuilt: Of a hidden one ``(eqn, jaxpr) -> eqn``: the equation with another jaxpr in its
            place; None where that cannot be.

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


class Emission(NamedTuple):
    """The value of one collected tag, as a result of a jaxpr.

    Attributes:
        value: The leaves of the token. Scans around the tag stack them on leading axes.
        fired: None if the tag fires on every run; else the number of firings, int32, with the
            leading axes of scans.
        mesh: The mesh axes for which the value has a leading axis, as the keys of a dict, so that
            they are part of the tree structure and not leaves; None outside of a shard_map.
    """

    value: list[PyTree]
    fired: Array | None
    mesh: dict[str, None] | None = None


Emits = dict[str, Emission]
# The result of an equation with a context threaded: the new context, its results, emissions.
Made = tuple[list[Array], list[Array], Emits]

Shards = str | Callable[[PyTree, tuple[str, ...]], PyTree] | None


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `inject`, `collect` and `uncurry` that rules need.

    Attributes:
        custom_rules: ``"keep"`` or ``"drop"``, for `jax.custom_jvp` and `jax.custom_vjp`.
        shards: How to merge the contexts of the devices in a shard_map: ``"psum"``, ``"pmax"``,
            ``"stack"`` or ``(ctx, axis_names) -> ctx``; None refuses.
        no_sums: The indices of context leaves that ``"psum"`` and ``"pmax"`` cannot merge, with the
            name of their injector.
        unchanged: The indices of context leaves that leave every equation as they entered it.
        read_only: Those of ``unchanged`` that do not change inside an equation either, as the
            counter of a loop does.
        states: Whether the context consists of states, so that messages speak of states.
        marks_lost: Whether to mark derivatives that a kept rule loses. Such a program is only
            analysed and not run; see `taxpr._states.lost`.
        only_run: Whether nobody differentiates the result, so that every rule may be dropped.
    """

    custom_rules: str = "keep"
    shards: Shards = None
    no_sums: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])
    unchanged: frozenset[int] = frozenset()
    read_only: frozenset[int] = frozenset()
    states: bool = False
    marks_lost: bool = False
    only_run: bool = False


NO_OPTIONS = Options()


class Threaded(Protocol):
    """A nested jaxpr with the context threaded through it.

    Attributes:
        jaxpr: Closed, from ``[*ctx, *args]`` to ``[*outs, *ctx, *emitted leaves]``.
        hoisted: ``jaxpr`` with its consts as leading arguments, and these consts.
        touched: Whether it holds a selected tag; if not, the context passes by.
        address: Its address, such as ``"3:scan/body"``, for messages.

    Its emissions are keyed by label and address, such as ``"body/t0"``.
    """

    jaxpr: ClosedJaxpr
    hoisted: tuple[ClosedJaxpr, list[Array]]
    touched: bool
    address: Address

    def __call__(self, ctx: Sequence[Array], args: Sequence[Array]) -> Made:
        """Evaluate: ``(ctx, outs, emits)``."""
        ...

    def unpack(self, flat: Sequence[T]) -> tuple[list[T], list[T], Emits]:
        """Split the results of ``jaxpr`` into ``(ctx, outs, emits)``."""
        ...

    def emitted(self) -> Emits:
        """The emissions as avals."""
        ...


class Beside(NamedTuple):
    """The function of an equation, to run next to the rule that replaces it, for observers.

    Attributes:
        function: The function with its observers, and without effects of its own.
        ctx: The positions of the leaves of the equation's context that it computes.
    """

    function: Threaded
    ctx: Sequence[int]


class Thread(Protocol):
    """Threads the context through a nested jaxpr of the equation at hand."""

    @property
    def place(self) -> str:
        """The equation at hand, its line and its address, for messages."""
        ...

    @property
    def options(self) -> Options:
        """The options of the caller."""
        ...

    @property
    def used(self) -> tuple[int, ...]:
        """The indices of the equation's context leaves in the whole context."""
        ...

    @property
    def observes(self) -> bool:
        """Whether all handlers in the equation leave their tokens unchanged."""
        ...

    @property
    def seen(self) -> frozenset[int]:
        """The indices of leaves of the whole context on which no token depends."""
        ...

    def selected(self, label: str | None = None) -> list[str]:
        """The selected tags in the nested jaxpr of a label, or in all, for messages."""
        ...

    def rule(self, label: str, jaxpr: ClosedJaxpr) -> tuple[Threaded, Beside | None]:
        """Thread the context through a derivative rule; also returns the function to run beside it.

        Args:
            label: The label of the rule.
            jaxpr: The closed jaxpr of the rule, traced for the inputs that are differentiated. Its
                tags are identified by params and avals.
        """
        ...

    def __call__(self, label: str, *, ctx: Sequence[Array] | None = None) -> Threaded:
        """The nested jaxpr of a label with the context threaded through it.

        Args:
            label: The label.
            ctx: Values with the types of the context inside the jaxpr, if these differ from the
                types outside.
        """
        ...


class Inject(Protocol):
    """The rule of a primitive: rebuilds an equation with a context. It is called under a trace."""

    def __call__(
        self, eqn: JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
    ) -> Made:
        """Return ``(ctx, results, emits)``."""
        ...


@dataclasses.dataclass(frozen=True)
class Hop:
    """The entry of one higher-order primitive.

    Attributes:
        nested: The jaxprs of an equation.
        inject: The rule that threads a context through an equation; None if that is refused.
        refusal: Why it is refused; None if it is not.
        loops: Whether it is a loop. Each iteration runs its jaxprs, all but those with
            `Nested.once`, in their order; so all have the same `Nested.trips`, and the last one
            ends the iteration. ``inject`` must stack what each run emits on a leading axis,
            ``trips`` long, as `jax.lax.scan` does. If ``trips`` is None it combines them by
            `later`, beginning with `before_loop`, as in a while loop.
        own_derivative: Whether the primitive has a derivative other than that of what ``inject``
            runs. If True, taxpr keeps it, at the injected results, or refuses a derivative by
            name; with ``custom_rules="drop"`` the derivative is that of what ``inject`` runs. If
            False, it is always that of what ``inject`` runs. None, the default, is True if the
            primitive is in `jax.interpreters.ad.primitive_jvps`, else False.
        rules: The jaxprs of its derivative rules, which an equation holds as functions. With it,
            ``inject`` must keep the derivative itself.
        with_rules: ``(eqn, change) -> eqn`` with all jaxprs of its rules changed.
        drops: The param or rule that injection drops, in words; None if it keeps everything.

    Example:
        >>> from taxpr import Hop
        >>> from taxpr.hops import called
        >>> def inject(eqn, ctx, operands, thread):  # the jaxpr runs once
        ...     return thread("body")(ctx, operands)
        >>> entry = Hop(nested=lambda eqn: [called(eqn, "jaxpr")], inject=inject)
        >>> print(entry.loops, entry.own_derivative)
        False None
    """

    nested: Callable[[JaxprEqn], Sequence[Nested]]
    inject: Inject | None = None
    refusal: str | None = None
    loops: bool = False
    own_derivative: bool | None = None
    rules: Callable[[JaxprEqn], tuple[Nested, ...]] | None = None
    with_rules: Callable[[JaxprEqn, Change], JaxprEqn] | None = None
    drops: str | None = None


def called(
    eqn: JaxprEqn, *param: str | int, label: str = "body", first_operand: int = 0, **more: Any
) -> Nested:
    """A nested jaxpr whose inputs are the operands of the equation, and outputs its results.

    Args:
        eqn: The equation.
        *param: The path to the jaxpr in ``eqn.params``.
        label: Its part of an address, and what ``thread`` is called with.
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
