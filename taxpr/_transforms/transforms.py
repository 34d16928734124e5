"""Transformations of functions, programs and jaxprs: the result has the argument's kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import PyTree
from taxpr._editing.changer import Changer
from taxpr._engine.inject import Predicate, inject_jaxpr, options_of
from taxpr._errors import ArgumentError, a_type, name_of, once_each, refuse_no_function, unfit
from taxpr._given import NOT_GIVEN
from taxpr._hops.protocol import Shards
from taxpr._injectors.as_injector import as_injector
from taxpr._injectors.injector import Injector
from taxpr._injectors.kind import InjectorKind
from taxpr._programs.injecting import check_ctx
from taxpr._programs.program import Injected, Program
from taxpr._programs.static_arguments import has_statics, with_statics
from taxpr._programs.trace import Tracing, called_as
from taxpr._sites.criteria import Selector
from taxpr._sites.skipped import Skipped
from taxpr._transforms.edited_first import EditedFirst, edited_first
from taxpr._watching.frames import changers, unwatched
from taxpr._where.meaning import is_mapping


def inject(
    fun: Any,
    injector: Any,
    ctx: PyTree = NOT_GIVEN,
    predicate: Predicate | None = None,
    *,
    where: Selector = None,
    custom_rules: str = "keep",
    shards: Shards = None,
) -> Any:
    """Run injectors at the tags of a function or jaxpr, with a context threaded through it.

    The context goes through the program in the order of execution, and through every nested jaxpr:
    the iterations of a scan or a while loop (and its condition), the branch that is taken, jit and
    remat. An injector at a tag under `jax.vmap` sees the whole batch, including batch elements of a
    while loop that have ended. In a function that contains `jax.grad`, the derivative stays the
    original function's. For the gradient of the injected function, inject first: ``jax.grad(lambda
    *args: injected(ctx, *args)[0])``. If a ready injector without a state is at a *variable* whose
    value is differentiated, `edit` does it when that means the same: then the derivative is the
    changed function's. Else a warning says how. A gradient with `jax.checkpoint` has its tags
    twice, forward and recomputed; see `Site.recomputed`.

    The result is of the same kind as the argument:

    ================  ==============================================================
    a function        a function ``(ctx, *args) -> (out, ctx)``, injected at each call, so
                      outside of `jax.jit` its loops are also compiled at each call. It
                      composes with `jax.jit`, `jax.grad`, `jax.vmap` and the like. It takes
                      the static arguments of a jitted function; close over others.
                      ``.init(*args)`` is the initial context,
                      ``.report(ctx, *args)`` a report of a final one, and
                      ``.skipped(*args)`` the places that ``where`` skips. Inside
                      `jax.shard_map` a trace has other addresses, so call these inside,
                      too.
    a `Program`       ``program.inject(injector, ctx, where=where)``
    a closed jaxpr    a closed jaxpr from ``[*ctx, *args]`` to ``[*outs, *ctx]``, with
                      ``predicate`` in place of ``where``
    ================  ==============================================================

    Args:
        fun: A function of PyTrees of arrays, a `Program`, or a closed jaxpr, as from
            `jax.make_jaxpr`.
        injector: A function ``(ctx, token, params) -> (token, ctx)``, called while tracing. It
            may read and change both, and must keep structure, shapes and dtypes of both. Except
            for a jaxpr it may also be an `Injector`, or a list or mapping; see `Program.inject`.
        ctx: The context of an injector function: a PyTree of arrays, or for a jaxpr also of
            `jax.ShapeDtypeStruct`. Weak types become strong. A jaxpr needs it. For a function it
            is only the result of ``.init``, and calls may pass another one.
        predicate: For a jaxpr: ``(params, aval_tree) -> bool`` chooses the tags; None
            chooses all.
        where: For a function or a `Program`: a selector, see `find_tags`, or `each` of one, for
            some iterations; None means all tags. A value that has no tag gets one.
        custom_rules: What to do with `jax.custom_jvp` and `jax.custom_vjp` around a tag. ``"keep"``
            injects into their rules as into the functions, also at tags that only a jvp or forward
            rule has, and uses them for derivatives. The context has no derivative there: its
            tangent is zero, and differentiating with respect to it raises. ``"drop"``
            differentiates the injected function itself.
        shards: How to merge the contexts of the devices in a `jax.shard_map` if they differ.
            ``"psum"`` adds up the changes of all devices, ``"pmax"`` takes the greatest,
            ``"stack"`` puts them on a new leading axis for each mesh axis along which they differ,
            and a function ``(ctx, axis_names) -> ctx`` is called inside the shard_map for each
            such leaf. None refuses such a context. Leaves that are equal on all devices stay as
            they are, such as a count of firings outside of data-dependent loops and branches; so
            do the parameter values of an `Injector`.

    Raises:
        ArgumentError: If the arguments do not fit the kind of ``fun``.
        SelectorError: If there is nothing to select, except in a jaxpr.
        InjectorError: If the injector changes the structure, shapes or dtypes of token or ctx.
        RefusedError: If a chosen tag is in an equation that cannot be injected.

    Warns:
        StaleDerivativeWarning: If a value changes whose derivative was taken before.
        SharedValueWarning: If a changed variable shares its value with the caller of its function.
        DroppedRuleWarning: If an equation around a tag loses a rule of its own.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import inject, scale, tag
        >>> def f(xs):
        ...     return jax.lax.scan(lambda c, x: (tag(c + x, name="c"), None), 0.0, xs)[0]
        >>> def double_and_count(n, token, params):
        ...     return 2 * token, n + 1
        >>> xs = jnp.ones(3)
        >>> jax.jit(inject(f, double_and_count))(0, xs)
        (Array(14., dtype=float32), Array(3, dtype=int32))
        >>> halved = inject(f, scale(0.5), where="c")
        >>> halved(halved.init(xs), xs)[0]
        Array(0.875, dtype=float32)
        >>> jaxpr = inject(jax.make_jaxpr(f)(xs), double_and_count, 0)
        >>> jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, jnp.int32(0), xs)
        [Array(14., dtype=float32), Array(3, dtype=int32)]
    """
    if _compat.is_jaxpr(fun):
        if where is not None or isinstance(injector, (Injector, Mapping, Sequence)):
            raise ArgumentError(
                "inject: for a jaxpr, the injector is a function and predicate= chooses the "
                "tags. Selectors, ready injectors and mappings are for functions and programs."
            )
        if ctx is NOT_GIVEN:
            raise ArgumentError(
                "inject: a jaxpr needs the ctx, for its trees, shapes and dtypes: "
                "inject(closed_jaxpr, injector, ctx)."
            )
        return inject_jaxpr(fun, injector, ctx, predicate, options_of(custom_rules, shards))
    if isinstance(fun, (Injector, InjectorKind)):
        raise ArgumentError(
            f"inject: {fun!r} is an injector, and the function comes first: inject(fun, {fun!r})."
        )
    if predicate is not None:
        raise ArgumentError("inject: predicate= is for jaxprs; here where= chooses the tags.")
    if isinstance(fun, Program):
        return fun.inject(injector, ctx, where=where, custom_rules=custom_rules, shards=shards)
    if not callable(fun):
        raise ArgumentError(
            f"inject: {fun!r} is {a_type(fun)}, not a function, a Program or a closed jaxpr."
        )
    options_of(custom_rules, shards)
    for one in injector.values() if is_mapping(injector) else [injector]:
        as_injector(one)
    more = {"where": where, "custom_rules": custom_rules, "shards": shards}
    return _injected_function(fun, injector, ctx, more)


def _injected_function(
    fun: Any, injector: Any, ctx: PyTree, more: dict[str, Any]
) -> Callable[..., Any]:
    if has_statics(fun):

        def of(bound: dict[str, Any]) -> Any:
            return _injected_function(bound["f"], injector, ctx, more)

        fixed = called_as(fun)(with_statics(of, {"f": fun}, before=1))
        for name, before in (("init", 0), ("report", 1), ("skipped", 0)):

            def method(bound: dict[str, Any], name: str = name) -> Any:
                return getattr(of(bound), name)

            vars(fixed)[name] = with_statics(method, {"f": fun}, before=before)
        return fixed
    own = isinstance(injector, (Injector, Mapping, Sequence))  # has a context of its own
    tracing = Tracing(fun, more["where"], [*injector] if is_mapping(injector) else None)
    said: set[str] = set()  # init, report and each call inject anew

    @called_as(fun)
    def injected(now: PyTree = NOT_GIVEN, *args: PyTree, **kwargs: PyTree) -> PyTree:
        _check_call(fun, args, kwargs)
        changed = at(ctx if own else now, args, kwargs, now if own else None)
        given = [] if now is NOT_GIVEN else [now]
        check_ctx(name_of(fun), given, changed.ctx, _CALL, _edited_around())
        return changed(now, *args, **kwargs)

    def at(
        ctx: PyTree, args: tuple[PyTree, ...], kwargs: dict[str, PyTree], now: PyTree = None
    ) -> Injected | EditedFirst:
        # Marks of a trace around it would move the addresses, which the context has.
        def injected(program: Program) -> Injected | EditedFirst:
            with once_each(said):
                first = ctx is NOT_GIVEN and edited_first(
                    fun, program, injector, more, now, (args, kwargs)
                )
                return first or program.inject(injector, ctx, **more)

        with unwatched():
            return tracing.ask(injected, args, kwargs)

    def init(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return at(ctx, args, kwargs).ctx

    def report(final: PyTree, *args: PyTree, **kwargs: PyTree) -> dict[str, Any]:
        return at(ctx if own else final, args, kwargs).report(final)

    def skipped(*args: PyTree, **kwargs: PyTree) -> tuple[Skipped, ...]:
        return at(ctx, args, kwargs).skipped

    own_methods = {"init": init, "report": report, "skipped": skipped}
    vars(injected).update(own_methods)
    return injected


def _check_call(fun: Any, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> None:
    """Raise if arguments do not fit a function, as when the context was left out."""
    if wrong := unfit(fun, *args, **kwargs):
        raise ArgumentError(
            f"inject: {name_of(fun)}: {wrong[1]}. The injected function takes the context first: "
            f"{_CALL}."
        )


_CALL = "injected(injected.init(*args), *args)"


def _edited_around() -> str:
    """Why a context made without an edit does not fit the edited program."""
    around = [one for one in changers() if isinstance(one, Changer)]
    if not around:
        return ""
    edits = ", ".join(repr(edit) for one in around for edit in one.edits.edits)
    return (
        f" The edit of {edits} goes around this call, and gives the program other addresses. Make "
        "the context with it, too: taxpr.edit(injected.init, where, change)(*args)."
    )


def collect(
    fun: Any,
    where: Selector = None,
    *,
    max_steps: int | None = None,
    stack: bool = False,
    custom_rules: str = "keep",
) -> Callable[..., Any]:
    """Make a function also return the values of tags: ``(*args) -> (out, {name: value})``.

    Args:
        fun: A function of PyTrees of arrays, traced at each call; or a `Program`, for
            which this is `Program.collect` and returns a `Program`.
        where: A selector; this and the rest as for `Program.collect`.
        max_steps: How many iterations of while loops are kept; None keeps the last one.
        stack: Whether tags may have one name; their values are stacked.
        custom_rules: As for `inject`.

    Returns:
        A function that composes with `jax.jit`, `jax.grad`, `jax.vmap`, `jax.eval_shape` and
        the like. It takes the static arguments of a jitted function. Its ``.skipped(*args)``
        has the places that ``where`` skips, as `Program.skipped`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import collect, tag
        >>> def f(x):
        ...     return tag(x * x, name="square") + 1
        >>> jax.vmap(collect(f, "square"))(jnp.arange(3.0))
        (Array([1., 2., 5.], dtype=float32), {'square': Array([0., 1., 4.], dtype=float32)})
        >>> jax.eval_shape(collect(f), 2.0)[1]
        {'square': ShapeDtypeStruct(shape=(), dtype=float32)}
    """
    more: dict[str, Any] = {"max_steps": max_steps, "stack": stack, "custom_rules": custom_rules}
    if isinstance(fun, Program):
        return fun.collect(where, **more)
    refuse_no_function("collect", fun)
    if has_statics(fun):

        def of(bound: dict[str, Any]) -> Any:
            return collect(bound["f"], where, **more)

        fixed = called_as(fun)(with_statics(of, {"f": fun}))
        vars(fixed)["skipped"] = with_statics(lambda bound: of(bound).skipped, {"f": fun})
        return fixed
    tracing = Tracing(fun, where)

    @called_as(fun)
    def collected(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return at(args, kwargs)(*args, **kwargs)

    def at(args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Program:
        return tracing.ask(lambda program: program.collect(where, **more), args, kwargs)

    def skipped(*args: PyTree, **kwargs: PyTree) -> tuple[Skipped, ...]:
        return at(args, kwargs).skipped

    vars(collected)["skipped"] = skipped
    return collected
