"""`uncurry`: make a pure function of a function that uses states."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.static import marked
from taxpr._compat import Array, ArrayLike, Aval, PyTree
from taxpr._errors import StateError, a_type, name_of, refuse_no_function
from taxpr._primitives.access import Access
from taxpr._primitives.state import State
from taxpr._states.stateful import Stateful, names_of, stateful


@dataclasses.dataclass(frozen=True, eq=False)
class Uses:
    """How a function uses one state.

    Attributes:
        state: The `State`.
        written: Whether it is written, or only read.
        reads: The source lines that read it, in the trace that found the state.
        writes: The source lines that write it.
    """

    state: State[Any]
    written: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Uncurried:
    """A pure function ``(states, *args, **kwargs) -> (out, states)``; see `uncurry`.

    It is traced once for each structure, shapes and dtypes of its arguments, as by `jax.jit`.

    Args:
        fun: The function.
        args: Example positional arguments.
        kwargs: Example keyword arguments.
        tag_writes: Whether to tag each array that is written to a state, with the params ``name``
            (``total``, ``norm['mean']``), ``state`` (``norm``) and ``op="write"``. `record` sees
            the value of each iteration at such a tag.

    Attributes:
        uses: How the function uses each state, by the name of the state.

    Example:
        >>> from taxpr import State, uncurry
        >>> total = State(0.0, name="total")
        >>> def add(x):
        ...     total.value += x
        >>> pure, states = uncurry(add, 1.0)
        >>> pure.uses["total"].written
        True
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
        *,
        tag_writes: bool = False,
    ):
        self.__name__ = name_of(fun)
        self._fn = fun
        self._tag_writes = tag_writes
        first, states = stateful(fun, args, kwargs, tag_writes=tag_writes)
        _refuse_objects(self.__name__, first)
        names = names_of(states)
        self.uses = {
            name: _uses(state, first.accesses) for name, state in zip(names, states, strict=True)
        }
        self._done: dict[Hashable, Stateful] = {}
        initial = [leaf for state in states for leaf in jax.tree.leaves(state.stored)]
        self._remember(_key(initial, args, kwargs), first)

    @property
    def _states(self) -> list[State[Any]]:
        return [uses.state for uses in self.uses.values()]

    def __repr__(self) -> str:
        shown = [f"{name} ({'written' if u.written else 'read'})" for name, u in self.uses.items()]
        return f"<pure {self.__name__}(states, ...); states: {', '.join(shown) or 'none'}>"

    def __call__(self, states: Mapping[str, PyTree], /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the function on state values, without changing the states themselves.

        Raises:
            StateError: If the values do not match the states of `uncurry`, or have other types; or
                if the function uses a further state with these arguments.
        """
        leaves = self._leaves(states)
        key = _key(leaves, args, kwargs)
        done = self._done.get(key)
        if done is None:
            done = self._trace(leaves, args, kwargs)
            self._remember(key, done)
        flat = [*leaves, *done.program.flat(args, kwargs)]
        outs = done(flat)
        n_out = done.program.out_tree.num_leaves
        out = done.program.result(outs[:n_out])
        return out, self._as_dict(outs[n_out:])

    def write(self, states: Mapping[str, PyTree]) -> None:
        """Set the states themselves to these values, such as a call returned.

        The states hold these arrays without a copy, so do not donate them afterwards.

        Raises:
            StateError: If the values do not match the function's states.
        """
        given = self._as_dict(self._leaves(states))
        for name, value in given.items():
            if self.uses[name].written:
                self.uses[name].state.value = value

    def _trace(
        self, leaves: Sequence[ArrayLike], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> Stateful:
        rest = iter(leaves)
        avals = {state: [jax.typeof(next(rest)) for _ in state.avals] for state in self._states}
        done, states = stateful(
            self._fn, args, kwargs, known=self._states, avals=avals, tag_writes=self._tag_writes
        )
        if more := states[len(self.uses) :]:
            access = next(one for one in done.accesses if one.state is more[0])
            raise StateError(
                f"{self.__name__}: these arguments lead to the {access}, but the arguments given "
                f"to uncurry only used {', '.join(self.uses) or 'no state'}. Give uncurry "
                "arguments that make the function use all of its states."
            )
        return done

    def _remember(self, key: Hashable, done: Stateful) -> None:
        # A jaxpr that closes over tracers is useless outside of their trace.
        if not any(map(_compat.is_tracer, _compat.consts_of(done.program.jaxpr))):
            self._done[key] = done

    def _as_dict(self, leaves: Sequence[ArrayLike]) -> dict[str, PyTree]:
        rest = iter(leaves)
        return {
            name: jax.tree.unflatten(uses.state.tree, [next(rest) for _ in uses.state.avals])
            for name, uses in self.uses.items()
        }

    def _leaves(self, states: Mapping[str, PyTree]) -> list[Array]:
        """The flat values of the states, checked and converted."""
        if not isinstance(states, Mapping):
            raise StateError(
                f"{self.__name__}: the first argument is {a_type(states)}. It is a dict "
                f"with the values of the states by name, {_listed(self.uses)}, as uncurry "
                "returned it."
            )
        for what, names in (
            ("lack", sorted(set(self.uses) - set(states))),
            ("have no use for", sorted(set(states) - set(self.uses), key=str)),
        ):
            if names:
                raise StateError(
                    f"{self.__name__}: the states {what} {_listed(names)}. Give the dict that "
                    f"uncurry or a call returned, with a value for each of {_listed(self.uses)}."
                )
        out: list[Array] = []
        for name, uses in self.uses.items():
            out += uses.state.fitted(states[name], f"{self.__name__}: the value given for {name!r}")
        return out


def _refuse_objects(name: str, done: Stateful) -> None:
    """Raise if a function changes objects of a library: nothing would hand the change back."""
    program = done.program
    if changed := program.states_after(program.out_avals):
        raise StateError(
            f"uncurry: {name} changes {_listed(changed)}, which no taxpr.State holds but an object "
            "of a library, so the change would be lost. Give the object to another function of "
            "taxpr, such as inject or watch, or let the function return the new values."
        )


def _key(leaves: Sequence[ArrayLike], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Any:
    """The cache key of a traced function: argument structure, types, and JAX's settings."""
    flat, tree = jax.tree.flatten(marked((args, kwargs)))
    return tree, tuple(map(_aval, [*leaves, *flat])), _compat.trace_key()


def _aval(x: ArrayLike) -> Aval | None:
    if isinstance(x, jax.ShapeDtypeStruct):
        return _compat.ShapedArray(x.shape, x.dtype, weak_type=x.weak_type)
    try:
        return jax.typeof(x)
    except TypeError:
        return None  # not an array: JAX raises when it traces the function


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _uses(state: State[Any], accesses: Sequence[Access]) -> Uses:
    def lines(op: str) -> tuple[str, ...]:
        own = [str(one.source) for one in accesses if one.state is state and one.op == op]
        return tuple(dict.fromkeys(own))

    writes = any(one.state is state and one.op == "write" for one in accesses)
    return Uses(state, writes, lines("read"), lines("write"))


def uncurry(
    fun: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> tuple[Uncurried, dict[str, Any]]:
    """Make a pure function of a function that uses states.

    The function may use any `State`, also inside `jax.jit`, `jax.lax.scan`, `jax.lax.while_loop`
    and its condition, `jax.lax.cond`, `jax.checkpoint`, `jax.custom_jvp` and so on. Reads and
    writes happen in the order of execution. `uncurry` only traces: it runs nothing and leaves the
    states as they are.

    Transform the pure function as you like: ``jax.jit(pure)``, ``jax.grad(pure, argnums=1,
    has_aux=True)``, ``jax.vmap(pure, in_axes=(None, 0))``, or as a step of `jax.lax.scan`. Inside
    ``fun``, `jax.grad` and `jax.vmap` may be used as long as no value that they transform is
    written to a state. A use whose result could be wrong raises an error that says what to wrap
    instead.

    Host callbacks and threads that the function starts see a `State` as a plain Python object with
    its own value. Pass them the value as an argument.

    Args:
        fun: A function of PyTrees of arrays, as for `jax.jit`. Close over static arguments.
        *args: Example arguments, or `jax.ShapeDtypeStruct` of them.
        **kwargs: As for ``args``.

    Returns:
        ``(pure, states)``.

        ``pure(states, *args, **kwargs) -> (out, states)`` takes arguments of any shapes, as
        `jax.jit` does. ``pure.uses`` says which states are read and written, and
        ``pure.write(states)`` sets the states themselves.

        ``states`` is a dict of the current values by name; a state without a name is ``state0``,
        ``state1``, … in the order of use. The values are the arrays that the states hold, not
        copies. If you donate them, as by ``jax.jit(pure, donate_argnums=0)``, reading
        ``state.value`` is an error until ``pure.write`` has set it. Call `uncurry` outside of
        `jax.jit`: inside, ``states`` would be constants of the compiled function.

    Raises:
        StateError: If the result of a use of a state could be wrong; or if the function changes an
            object of a library that is not among its states.
        RefusedError: If a state is used in an equation that cannot be injected. Later, if a
            derivative goes through a state into or out of a function with a derivative rule, such
            as a `jax.custom_vjp`. In forward mode the latter is NaN.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import State, uncurry
        >>> total = State(0.0, name="total")
        >>> def running_sum(x):
        ...     total.value += x
        ...     return total.value
        >>> xs = jnp.asarray([1.0, 2.0, 3.0])
        >>> pure, states = uncurry(lambda xs: jax.lax.map(running_sum, xs), xs)
        >>> sums, states = jax.jit(pure)(states, xs)
        >>> print(sums, states["total"])
        [1. 3. 6.] 6.0
    """
    refuse_no_function("uncurry", fun)
    pure = Uncurried(fun, args, kwargs)
    return pure, {name: uses.state.current() for name, uses in pure.uses.items()}
