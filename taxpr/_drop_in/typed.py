"""`TypedClosedJaxpr`: a jaxpr together with the PyTrees of its arguments and results."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, TypeVarTuple

import jax

from taxpr import _compat
from taxpr._answers.count_of import count_of
from taxpr._compat import ClosedJaxpr, PyTree
from taxpr._drop_in.partition import partition_out, values_of_tags
from taxpr._engine.inject import InjectorFn, ctx_aval, inject_jaxpr
from taxpr._errors import ArgumentError, a_type
from taxpr._hops.protocol import NO_OPTIONS
from taxpr._jaxprs.trees import named_leaves
from taxpr._programs.program import Program

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class TypedClosedJaxpr(Generic[*Ts, R]):
    """A closed jaxpr of a function of positional arguments, with their PyTrees.

    `trace` makes a `Program`, which can do more.

    Attributes:
        in_shape: The arguments, with a `jax.ShapeDtypeStruct` in place of each array. Static
            arguments keep their values.
        closed_jaxpr: The closed jaxpr of the arguments that are not static.
        out_shape: The result, with a `jax.ShapeDtypeStruct` in place of each array.
        static_argnums: The positions of the static arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import TypedClosedJaxpr, tag
        >>> def f(x, n):
        ...     return {"y": tag(x["a"] * n, name="y")}
        >>> typed = TypedClosedJaxpr.make(f, static_argnums=1)({"a": jnp.ones(2)}, 3)
        >>> typed.eval({"a": jnp.arange(2.0)}, 3)
        {'y': Array([0., 3.], dtype=float32)}
    """

    in_shape: PyTree
    closed_jaxpr: ClosedJaxpr
    out_shape: PyTree
    static_argnums: int | Iterable[int] = ()

    @staticmethod
    def make(
        fun: Callable[..., Any], static_argnums: int | Iterable[int] = ()
    ) -> Callable[..., AnyTyped]:
        """A function that takes the arguments of ``fun`` and traces it, without running it.

        Args:
            fun: A function of PyTrees of arrays.
            static_argnums: Positions of arguments that are Python values, not arrays.

        Raises:
            ArgumentError: If keyword arguments are given.
        """
        given = _as_tuple(static_argnums)

        def traced(*args: PyTree, **kwargs: PyTree) -> AnyTyped:
            if kwargs:
                raise ArgumentError(
                    f"TypedClosedJaxpr: the arguments {', '.join(kwargs)} are given by keyword, "
                    "and eval takes positional ones. Give them by position, or use trace()."
                )
            n = len(args)
            static = tuple(sorted({num % n for num in given if -n <= num < n}))
            with jax.disable_jit(False):
                jaxpr, out = _compat.make_jaxpr_and_shapes(fun, static_argnums=static)(*args)
            shapes = tuple(
                arg if num in static else jax.tree.map(_shape_of, arg)
                for num, arg in enumerate(args)
            )
            return TypedClosedJaxpr(shapes, jaxpr, out, static)

        return traced

    def eval(self, *args: *Ts) -> R:
        """Run the jaxpr.

        Args:
            *args: All arguments. Static ones must equal the arguments of the trace.

        Raises:
            ArgumentError: If the arguments do not fit.
        """
        return self._run(args)

    def _run(self, args: Sequence[PyTree]) -> PyTree:
        static = self._static
        if len(args) != len(self.in_shape):
            raise ArgumentError(
                "TypedClosedJaxpr: it takes "
                f"{count_of(len(self.in_shape), 'argument')} and was given {len(args)}."
            )
        for num in static:
            if args[num] != self.in_shape[num]:
                raise ArgumentError(
                    f"TypedClosedJaxpr: the argument {num} is static; it was traced as "
                    f"{self.in_shape[num]!r} and is now {args[num]!r}. Trace again."
                )
        dynamic = tuple(arg for num, arg in enumerate(args) if num not in static)
        return self._program(*dynamic)

    def map_inputs(
        self, map: Callable[..., tuple[*Ts]], static_argnums: int | Iterable[int] = ()
    ) -> Callable[..., AnyTyped]:
        """Change the arguments: compose the jaxpr with ``map`` before it.

        Args:
            map: A function from the new arguments to the tuple of all old arguments.
            static_argnums: Positions of the new arguments that are Python values.

        Returns:
            A function that takes the new arguments, as `make` returns it.
        """
        return TypedClosedJaxpr.make(lambda *args: self.eval(*map(*args)), static_argnums)

    def map_outputs(self, map: Callable[[R], Any]) -> AnyTyped:
        """Change the result: compose the jaxpr with ``map`` after it.

        Args:
            map: A function from the result to the new one, both PyTrees of arrays.
        """

        def mapped(*args: PyTree) -> PyTree:
            return map(self._run(args))

        return TypedClosedJaxpr.make(mapped, self._static)(*self.in_shape)

    def inject(self, injector: InjectorFn, ctx: PyTree) -> AnyTyped:
        """Inject at every tag; the result goes from ``(ctx, *args)`` to ``(out, ctx)``.

        Args:
            injector: ``(ctx, token, params) -> (token, ctx)``, see `taxpr.inject`.
            ctx: A PyTree of arrays and numbers, or of `jax.ShapeDtypeStruct`.
        """

        def shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
            return _shape_of(ctx_aval(leaf))

        shape = jax.tree.map(shape_of, ctx)
        return TypedClosedJaxpr(
            (shape, *self.in_shape),
            inject_jaxpr(self.closed_jaxpr, injector, ctx, None, NO_OPTIONS),
            (self.out_shape, shape),
            tuple(num + 1 for num in self._static),
        )

    @property
    def _static(self) -> tuple[int, ...]:
        return _as_tuple(self.static_argnums)

    @property
    def _program(self) -> Program:
        dynamic = tuple(x for num, x in enumerate(self.in_shape) if num not in self._static)
        return Program(
            jaxpr=self.closed_jaxpr,
            in_tree=jax.tree.structure((dynamic, {})),
            out_tree=jax.tree.structure(self.out_shape),
            in_names=tuple(name for name, _ in named_leaves("args", dynamic)),
            out_names=tuple(name for name, _ in named_leaves("out", self.out_shape)),
            name="TypedClosedJaxpr",
        )


# Where a signature says no more of it.
AnyTyped = TypedClosedJaxpr[*tuple[Any, ...], Any]


def _as_tuple(static_argnums: int | Iterable[int]) -> tuple[int, ...]:
    return (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)


def _shape_of(leaf: Any) -> jax.ShapeDtypeStruct:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    aval = leaf if isinstance(leaf, _compat.ShapedArray) else jax.typeof(leaf)
    weak = getattr(aval, "weak_type", False)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)


def tcj_transpose(
    tcj: TypedClosedJaxpr[*Ts, Any],
) -> tuple[TypedClosedJaxpr[*Ts, list[Any]], list[dict[str, Any]]]:
    """`transpose` of a `TypedClosedJaxpr`.

    Args:
        tcj: The jaxpr with the tags.

    Returns:
        A jaxpr that returns the list of the values of all tags, each in its own structure, and the
        list of the params of the tags.

    Raises:
        RefusedError: If a tag is in an equation that cannot be injected.

    Example:
        >>> from taxpr import TypedClosedJaxpr, tag, tcj_transpose
        >>> typed = TypedClosedJaxpr.make(lambda x: tag(x + 1, name="y") * 2)(1.0)
        >>> values, params = tcj_transpose(typed)
        >>> values.eval(3.0), params
        ([Array(4., dtype=float32, weak_type=True)], [{'name': 'y'}])
    """
    jaxpr, params, shapes = values_of_tags(tcj.closed_jaxpr)
    return dataclasses.replace(tcj, closed_jaxpr=jaxpr, out_shape=shapes), params


def tcj_partition_out(
    tcj: TypedClosedJaxpr[*Ts, Any], outvar_indices: Sequence[Sequence[int]]
) -> list[TypedClosedJaxpr[*Ts, Any]]:
    """`partition_out` of a `TypedClosedJaxpr`.

    Args:
        tcj: The jaxpr to split.
        outvar_indices: For each part the indices of its outputs among the leaves of the result.

    Returns:
        The parts. Each returns the structure of the whole, with None for leaves of other parts.

    Raises:
        ArgumentError: If there is no such output.

    Example:
        >>> from taxpr import TypedClosedJaxpr, tcj_partition_out
        >>> typed = TypedClosedJaxpr.make(lambda x: (x + 1, x * 2))(1.0)
        >>> first, second = tcj_partition_out(typed, [[0], [1]])
        >>> first.eval(3.0)
        (Array(4., dtype=float32, weak_type=True), None)
    """
    # Each part keeps the order of the whole, whatever order its indices have.
    if not isinstance(tcj, TypedClosedJaxpr):
        raise ArgumentError(f"tcj_partition_out: {tcj!r} is {a_type(tcj)}, not a TypedClosedJaxpr.")
    partition_out(tcj.closed_jaxpr, outvar_indices)  # which refuses what are no such lists
    groups = [sorted(set(group)) for group in outvar_indices]
    leaves, tree = jax.tree.flatten(tcj.out_shape)
    parts: list[TypedClosedJaxpr[*Ts, Any]] = []
    for group, jaxpr in zip(groups, partition_out(tcj.closed_jaxpr, groups), strict=True):
        own = [leaf if index in group else None for index, leaf in enumerate(leaves)]
        shape = jax.tree.unflatten(tree, own)
        parts.append(dataclasses.replace(tcj, closed_jaxpr=jaxpr, out_shape=shape))
    return parts
