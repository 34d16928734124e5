"""`trace`: a program of a function and the types of its arguments, without running it."""

import contextlib
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import jax

from taxpr import _compat
from taxpr._calls.bound import Statics, without_statics
from taxpr._calls.door import Door, door_of
from taxpr._calls.libraries import named_by_user, noticed, say_as_told
from taxpr._compat import PyTree
from taxpr._engine.dropped import warn_of_unused_names
from taxpr._errors import (
    ArgumentError,
    SelectorError,
    name_of,
    refuse_no_function,
)
from taxpr._given import refuse_unfit
from taxpr._jaxprs.trees import named_leaves
from taxpr._programs.arguments import arguments_of
from taxpr._programs.asked_names import asked_names
from taxpr._programs.closed import closed_over
from taxpr._programs.inputs import mesh_sharding
from taxpr._programs.program import Program
from taxpr._programs.static_arguments import asked_static, say_static, static_both_ways
from taxpr._programs.until import keep_until
from taxpr._variables.table import Variables, size
from taxpr._watching.frames import watching
from taxpr._watching.hidden import with_hidden
from taxpr._watching.mark import Untraced
from taxpr._watching.owned import files_in, with_own
from taxpr._where.meaning import may_be_variables, names_for
from taxpr._where.select import describes

# What JAX says where a function returned something else than arrays.
_NO_ARRAY = re.compile("returned a value of type .* not a valid JAX type")
_Wrapper = TypeVar("_Wrapper", bound=Callable[..., Any])
_R = TypeVar("_R")


def trace(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    names: bool | str | Collection[str | None] | None = False,
) -> Callable[..., Program]:
    """Trace a function into a `Program`, without running it.

    Args:
        fun: A function of PyTrees of arrays, as for `jax.jit`.
        static_argnums: Positions of arguments that are Python values, not arrays.
        static_argnames: Names of such arguments. As for `jax.jit`, a position also means the
            argument's name, and a name its position. Static arguments of a function that `jax.jit`
            returned are static here, too.
        names: Whether to note which variables of the source hold which values; see
            `Program.variables`. Tracing takes about a fifth longer. If JAX differentiates jitted
            functions and loops, equations whose results only a variable holds may stay. With None,
            the program is then traced again, and has only the names of the remaining values. With
            ``"cotangents"`` it also notes the cotangent of each value; see `taxpr.cotangent`. With
            the name of a library, ``"optax"``, or several, ``("brax", "cotangents")``, the
            library's functions count as yours: their variables and statements are known, too. With
            ``(None, "optax")`` no equations stay that only variables hold, as with None.

    Returns:
        A function that takes the arguments and returns the program. Arguments may also be
        of `jax.ShapeDtypeStruct`.

    Raises:
        ArgumentError: If ``names`` has no such module.

    Warns:
        UnusedNamesWarning: If no function of a library in ``names`` made an equation.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> program = trace(lambda x, *, n: x ** n, static_argnames="n")(2.0, n=3)
        >>> program.in_names, program(2.0)
        (('x',), Array(8., dtype=float32, weak_type=True))
    """
    refuse_no_function("trace", fun)
    noting = asked_names(names)
    own = noting.own
    nums, given = asked_static(fun, static_argnums, static_argnames)
    of_jit = _compat.static_arguments(fun)
    nums, given = (*nums, *of_jit[0]), (*given, *of_jit[1])
    fun = named_by_user(fun)
    nums, given = static_both_ways(fun, nums, given)

    def traced(*args: PyTree, **kwargs: PyTree) -> Program:
        # As in `jax.jit`, a static argument that is not given keeps its default.
        positions = tuple(num % len(args) for num in nums if -len(args) <= num < len(args))
        bound, some, words = without_statics(fun, args, kwargs, Statics(positions, given))
        dynamic = tuple(some)
        door = door_of(bound, dynamic, words, unseen=False)

        def program(jaxpr: Any, shapes: PyTree, named: Variables | None) -> Program:
            debug = _compat.open_jaxpr(jaxpr).debug_info
            leaves, in_tree = jax.tree.flatten(taken_of(door, dynamic, words))
            in_names = debug.arg_names or (None,) * in_tree.num_leaves
            out_names = tuple(name for name, _ in named_leaves("out", shapes))
            if door is not None and door.states is not None:
                in_names, out_names = door.named(in_names, shapes)
            return Program(
                jaxpr=jaxpr,
                in_tree=in_tree,
                out_tree=jax.tree.structure(shapes),
                in_names=tuple(name or f"arg{k}" for k, name in enumerate(in_names)),
                out_names=out_names,
                name=name_of(fun),
                arguments=arguments_of(fun, dynamic, words, given),
                named=named,
                closed=closed_over(fun, own),
                door=door,
                arranged=door and door.result,
                after=door and door.after,
                shardings=tuple(map(mesh_sharding, leaves)),
            )

        def until(jaxpr: Any) -> Program:
            named = Variables(jaxpr if own is None else with_own(jaxpr, own))
            return program(named.jaxpr, (), None if noting.variables is False else named)

        def failed(error: Exception) -> None:
            keep_until(error, until, own)
            say_static(error, fun, args, kwargs)

        noted: Untraced = {}

        def made(watched: bool) -> Any:
            # With jit disabled, JAX would unroll loops. A while loop that it cannot unroll would
            # leave the equations of its first iterations behind, with their tags.
            watches = watching(noting.cotangents, own) if watched else contextlib.nullcontext()
            with jax.disable_jit(False), watches as watch, _compat.rules_noted():
                run = _compat.make_jaxpr_and_shapes(door.fun if door else bound)
                taken, keywords = taken_of(door, dynamic, words)
                try:
                    jaxpr, shapes = _compat.traced_whole(lambda: run(*taken, **keywords), failed)
                except Exception as error:
                    say_as_told(error)
                    if inspect.isclass(fun) and "not a valid JAX type" in str(error):
                        raise ArgumentError(
                            f"trace: {name_of(fun)} is a class: its object is no array. Give an "
                            "object of it that can be called, or a method of one."
                        ) from error
                    raise
                if watch is not None:
                    noted.clear()
                    noted.update(watch.untraced)
                jaxpr = with_hidden(jaxpr) if watched else jaxpr
                return (jaxpr if own is None else with_own(jaxpr, own)), shapes

        def made_first() -> Any:
            """Trace the function unchanged, and again if it turns out to use a library's states."""
            nonlocal door
            if door is not None and door.states is not None:
                return made(noting.variables is not False)
            found, error, used = noticed(bound, lambda: made(noting.variables is not False))
            opened = door_of(bound, dynamic, words) if used else None
            if opened is not None and opened.states is not None:
                door = opened
                return made(noting.variables is not False)
            if error is not None:
                raise error
            return found

        jaxpr, shapes = None, None
        try:
            jaxpr, shapes = made_first()
        except TypeError as error:
            if door is not None or not _NO_ARRAY.search(str(error)):
                refuse_unfit(f"trace({name_of(fun)})", bound, dynamic, words, error)
                raise
            door = door_of(bound, dynamic, words, always=True, unseen=False)
        if jaxpr is None:
            jaxpr, shapes = made(noting.variables is not False)
        if own is not None and (unused := own.without(files_in(jaxpr))):
            warn_of_unused_names(unused, name_of(fun))
        asked = noting.variables
        named = None if asked is False else Variables(jaxpr, noting.cotangents, noted)
        jaxpr = named.jaxpr if named else jaxpr
        if asked is None and named and named.may_add():
            plain, shapes = made(False)
            if size(plain) != size(jaxpr):
                jaxpr, named = plain, named.of_plain(plain)
        return program(jaxpr, shapes, named)

    return _ToTrace(fun, traced)


def taken_of(door: Door | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments that are traced."""
    return (args, kwargs) if door is None else (door.first.args, dict(door.first.kwargs))


class Tracing:
    """Traces a function for selectors, with the names of its variables if these need them."""

    def __init__(self, fun: Callable[..., Any], *where: Any) -> None:
        self._where, self._names = where, names_for(*where)
        self._named = trace(fun, names=self._names or True)
        self._trace = trace(fun, names=self._names)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Program:
        program = self._trace(*args, **kwargs)
        if not self._names and may_be_variables(program, *self._where):
            # Tracing with names takes 1.15 times as long for a train step, and 2 to 4 times for a
            # Python loop (benchmarks/bench_names.py). A tag comes first whatever the variables are,
            # so these are noted only if a text is no tag, from then on from the start.
            self._names, self._trace = True, self._named
            program = self._named(*args, **kwargs)
        return program

    def ask(
        self, ask: Callable[[Program], _R], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> _R:
        """Return ``ask(program)``; an error also says what variables there are."""
        program = self(*args, **kwargs)
        try:
            return ask(program)
        except SelectorError:
            if self._names or not any(map(describes, self._where)):
                raise
        return ask(self._named(*args, **kwargs))


class _NotTracedError(ArgumentError, AttributeError):
    """A method of `Program` was used on the result of `trace(fun)`, before the arguments."""


class _ToTrace:
    """The result of `trace`: call it with the arguments to get a `Program`."""

    def __init__(self, fun: Callable[..., Any], run: Callable[..., Program]):
        called_as(fun)(self)
        self._name = name_of(fun)
        self._run = run

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Program:
        return self._run(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<trace({self._name}), to be called with arguments>"

    def __getattr__(self, name: str) -> Any:
        fields = {field.name for field in dataclasses.fields(Program)}
        if not name.startswith("_") and (name in fields or hasattr(Program, name)):
            raise _NotTracedError(
                f"trace: {self._name} has not been called, and there is no program yet. Give the "
                f"arguments first: trace({self._name})(*args).{name}"
            )
        raise AttributeError(f"{self!r} has no attribute {name!r}")


def called_as(fun: Callable[..., Any]) -> Callable[[_Wrapper], _Wrapper]:
    """A decorator like `functools.wraps`, but without the signature of ``fun``.

    The decorated function has other arguments or results than ``fun``.
    """

    def decorate(wrapper: _Wrapper) -> _Wrapper:
        del functools.wraps(fun)(wrapper).__wrapped__
        return wrapper

    return decorate
