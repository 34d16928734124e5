"""The type of an entry (`Hop`), and of the objects that its rule works with (`Thread`).

The table is in `taxpr._hops.table`, the entries are in `taxpr._hops.entries`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from taxpr._address import Address
from taxpr._compat import Array, ClosedJaxpr, JaxprEqn, PyTree
from taxpr._hops.nested import Change, Nested

T = TypeVar("T")


class Emission(NamedTuple):
    """The value of one collected tag, as a result of a jaxpr.

    Attributes:
        value: The leaves of the value. Scans around the tag stack them on leading axes.
        fired: None if the tag fires on every run; else the number of firings, int32, with the
            leading axes of scans.
        mesh: The mesh axes that are leading axes of the value, as the keys of a dict, so that they
            are part of the tree structure and not leaves; None outside of a shard_map.
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
        read_only: The indices in ``unchanged`` that do not change inside an equation either, as the
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
        """Whether all handlers in the equation leave their values unchanged."""
        ...

    @property
    def seen(self) -> frozenset[int]:
        """The indices of leaves of the whole context that no value depends on."""
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
        inject: The rule that threads a context through an equation; None if there is no rule.
        refusal: Why there is no rule; else None.
        loops: Whether it is a loop. Each iteration runs its jaxprs, all but those with
            `Nested.once`, in their order; so all have the same `Nested.trips`, and the last one
            ends the iteration. ``inject`` must stack what each run emits on a leading axis,
            ``trips`` long, as `jax.lax.scan` does. If ``trips`` is None it combines them by
            `later`, beginning with `before_loop`, as in a while loop.
        own_derivative: Whether the primitive's derivative differs from the derivative of
            ``inject``'s operations. If True, taxpr keeps it, at the injected results, or raises an
            error that names the primitive; with ``custom_rules="drop"`` JAX differentiates the
            operations of ``inject``. If False, it always does. None, the default, is True if the
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
