"""Pure functions made of functions that use states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._errors import StateError, name_of, refuse_no_function
from taxpr._primitives.state import State
from taxpr._primitives.state_access import Access
from taxpr._states.stateful import Stateful, names_of, stateful


@dataclasses.dataclass(frozen=True, eq=False)
class Uses:
    """How a function uses one state.

    Attributes:
        state: The `State`.
        written: Whether it is written, or only read.
        reads: The lines that read it, of the trace in which it was found.
        writes: The lines that write it.
    """

    state: State
    written: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Uncurried:
    """A pure function ``(states, *args, **kwargs) -> (out, states)``; see `uncurry`.

    It is traced once for each tree, shapes and dtypes of its arguments, as by `jax.jit`.

    Args:
        fn: The function.
        args: Arguments with which it can be called.
        kwargs: As for ``args``.
        tag_writes: Whether each array that is written to a state is tagged, as it is written,
            with the params ``name`` (``total``, ``norm['mean']``), ``state`` (``norm``), and
            ``op="write"``: there `record` sees the value of each iteration.

    Attributes:
        uses: By the name of each state how the function uses it.

    Example:
        >>> from taxpr import State, uncurry
        >>> total = State(0.0, name="total")
        >>> def add(x):
        ...     total.value += x
        >>> pure, states = uncurry(add, 1.0)
        >>> pure.uses["total"].written
        True
    """

    def __init__(self, fn: Callable[..., Any], args: Any, kwargs: Any, *, tag_writes: bool = False):
        self.__name__ = name_of(fn)
        self._fn = fn
        self._tag_writes = tag_writes
        first, states = stateful(fn, args, kwargs, tag_writes=tag_writes)
        names = names_of(states)
        self.uses = {
            name: _uses(state, first.accesses) for name, state in zip(names, states, strict=True)
        }
        self._done: dict[Any, Stateful] = {}
        initial = [leaf for state in states for leaf in jax.tree.leaves(state.stored)]
        self._remember(_key(initial, args, kwargs), first)

    @property
    def _states(self) -> list[State]:
        return [uses.state for uses in self.uses.values()]

    def __repr__(self) -> str:
        shown = [f"{name} ({'written' if u.written else 'read'})" for name, u in self.uses.items()]
        return f"<pure {self.__name__}(states, ...); states: {', '.join(shown) or 'none'}>"

    def __call__(self, states: Mapping[str, Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run it.

        Raises:
            StateError: If the states are not those of `uncurry`, with their types; or if the
                function uses another state with these arguments.
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
        out = jax.tree.unflatten(done.program.out_tree, outs[:n_out])
        return out, self._as_dict(outs[n_out:])

    def write(self, states: Mapping[str, Any]) -> None:
        """Set the states themselves to these values, such as those that a call returned.

        They hold these very arrays then: to donate them takes them from the states, too.

        Raises:
            StateError: If the values are not those of its states.
        """
        given = self._as_dict(self._leaves(states))
        for name, value in given.items():
            if self.uses[name].written:
                self.uses[name].state.value = value

    def _trace(self, leaves: Sequence[Any], args: Any, kwargs: Any) -> Stateful:
        rest = iter(leaves)
        avals = {state: [jax.typeof(next(rest)) for _ in state.avals] for state in self._states}
        done, states = stateful(
            self._fn, args, kwargs, known=self._states, avals=avals, tag_writes=self._tag_writes
        )
        if more := states[len(self.uses) :]:
            access = next(one for one in done.accesses if one.state is more[0])
            raise StateError(
                f"{self.__name__}: with these arguments there is the {access}, and uncurry was "
                f"given others, with which only {', '.join(self.uses) or 'no state'} is used. "
                "Give uncurry arguments with which the function uses all of its states."
            )
        return done

    def _remember(self, key: Any, done: Stateful) -> None:
        # What closes over values of a trace is of no use in another one.
        if not any(map(_compat.is_tracer, _compat.consts_of(done.program.jaxpr))):
            self._done[key] = done

    def _as_dict(self, leaves: Sequence[Any]) -> dict[str, Any]:
        rest = iter(leaves)
        return {
            name: jax.tree.unflatten(uses.state.tree, [next(rest) for _ in uses.state.avals])
            for name, uses in self.uses.items()
        }

    def _leaves(self, states: Any) -> list[Any]:
        """The flat values of the states, checked and converted."""
        if not isinstance(states, Mapping):
            raise StateError(
                f"{self.__name__}: the first argument is a {type(states).__name__}. It is a dict "
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
        out: list[Any] = []
        for name, uses in self.uses.items():
            out += uses.state.fitted(states[name], f"{self.__name__}: the value given for {name!r}")
        return out


def _key(leaves: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """What says whether a function that was traced before serves."""
    flat, tree = jax.tree.flatten((args, kwargs))
    return tree, tuple(map(_aval, [*leaves, *flat])), _compat.trace_key()


def _aval(x: Any) -> Any:
    if isinstance(x, jax.ShapeDtypeStruct):
        return _compat.ShapedArray(x.shape, x.dtype, weak_type=x.weak_type)
    try:
        return jax.typeof(x)
    except TypeError:
        return None  # JAX says so when it traces the function


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"


def _uses(state: State, accesses: Sequence[Access]) -> Uses:
    def lines(op: str) -> tuple[str, ...]:
        own = [str(one.source) for one in accesses if one.state is state and one.op == op]
        return tuple(dict.fromkeys(own))

    writes = any(one.state is state and one.op == "write" for one in accesses)
    return Uses(state, writes, lines("read"), lines("write"))


def uncurry(
    fn: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> tuple[Uncurried, dict[str, Any]]:
    """Make a function that uses states a pure one.

    The function may use any `State` as it likes, also inside of `jax.jit`, `jax.lax.scan`,
    `jax.lax.while_loop` and its condition, `jax.lax.cond`, `jax.checkpoint`, `jax.custom_jvp`
    and so on: the states go through it in the order of execution. Nothing is run, and the states
    themselves stay as they are.

    What is pure is transformed as you like: ``jax.jit(pure)``, ``jax.grad(pure, argnums=1,
    has_aux=True)``, ``jax.vmap(pure, in_axes=(None, 0))``, a step of `jax.lax.scan`. Inside of
    what is uncurried, `jax.grad` and `jax.vmap` are fine where nothing that they transform goes
    into a state; what could come out wrong is refused, and the error says what to wrap instead.

    Host callbacks, and threads that the function starts, are not followed: there a `State` is the
    plain Python object with its own value. Give them the value as an argument.

    Args:
        fn: A function of PyTrees of arrays, as for `jax.jit`; static arguments are closed over.
        *args: Arguments with which it can be called, or `jax.ShapeDtypeStruct` of them.
        **kwargs: As for ``args``.

    Returns:
        ``(pure, states)``. ``pure(states, *args, **kwargs) -> (out, states)`` takes arguments of
        any shapes, as `jax.jit` does; ``pure.uses`` says what is read and what is written, and
        ``pure.write(states)`` sets the states themselves. ``states`` is a dict of their values
        now, by name; those without one are ``state0``, ``state1``, … in the order of their use.
        They are the arrays that the states hold, not copies, as after ``pure.write(states)`` the
        states hold those that were given: once they are donated, to ``jax.jit(pure,
        donate_argnums=0)``, to read ``state.value`` is an error until ``pure.write`` has set it.
        Inside of a function that `jax.jit` compiles they are constants of it, as any value of
        plain Python is: uncurry outside of it, and give it the states.

    Raises:
        StateError: If a state is used where that could come out wrong.
        RefusedError: If a state is used in an equation that cannot be injected; later, if a
            derivative goes through a state into or out of a function with a rule of its own for
            derivatives, such as one of `jax.custom_vjp`. In forward mode the latter is NaN.

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
    refuse_no_function("uncurry", fn)
    pure = Uncurried(fn, args, kwargs)
    return pure, {name: uses.state.current() for name, uses in pure.uses.items()}
