"""`compiles` and `why_compiled`: list traces and compiles, with their causes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from taxpr import _compat
from taxpr._answers.answer import Answer
from taxpr._answers.count_of import count_of
from taxpr._calls.libraries import users_name_of
from taxpr._compilations.as_called import called
from taxpr._compilations.recorder import FAILED, FIRST, Entry, Recorder
from taxpr._compilations.stale import Seen, StaleRow, changed_since, seen_by
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._given import refuse_no_flag, told_how

_P = ParamSpec("_P")
_R = TypeVar("_R")
_recorder = Recorder()
_IN_A_WITH = "Use it in a with: with taxpr.compiles() as log."


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Compiles(Answer):
    """The functions that JAX traced and compiled, and why.

    Attributes:
        stale: Variables that changed after a function was traced. It does not read them again: no
            compile, but maybe a wrong number.

    Example:
        >>> import jax, taxpr
        >>> with taxpr.compiles() as log:
        ...     for k in range(3):
        ...         _ = jax.jit(lambda x: x + k)(1.0)
        >>> [row.cause for row in log.compiles.rows]
        ['first call', 'new object: lambda', 'new object: lambda']
    """

    stale: Sequence[StaleRow] = ()

    _columns = "function", "cause", "argument", "before", "now", "stages", "seconds", "line"

    def _shown(self) -> list[dict[str, Any]]:
        return [{**row, "seconds": f"{row['seconds']:.2f}"} for row in super()._shown()]


class CompileLog:
    """A context that notes each trace and compile in its ``with``; `compiles` makes it.

    Attributes:
        compiles: A `Compiles`, with a row for each trace and compile until now.

    Example:
        >>> import taxpr
        >>> with taxpr.compiles() as log:
        ...     pass
        >>> log
        compiles: 0 compiles, 0 again, 0.00 s
    """

    def __init__(self, what: str, eager: bool = False) -> None:
        self._what, self._eager = what, eager
        self.entries: list[Entry] = []
        self._stale: dict[tuple[str, str], StaleRow] = {}
        self._before = len(_recorder.failed)  # what failed for others is not told here
        self._within = 0  # how many of its contexts are open, in recursion and threads
        self._unused = True

    @property
    def compiles(self) -> Compiles:
        """The traces and compiles until now."""
        if self._unused:
            raise ArgumentError(f"{self._what}: nothing was noted. {_IN_A_WITH}")
        return self.noted()

    def noted(self) -> Compiles:
        """The traces and compiles until now; empty before the first context."""
        with _recorder.lock:
            every = list(self.entries)
        shown = [one.row for one in every if self._eager or not one.eager or _again(one)]
        hidden = [one.row for one in every if one.row not in shown]
        failed = [one.row for one in every if one.failed]
        made = [row for row in shown if row not in failed]
        again = sum(row.cause not in (FIRST, FAILED) for row in made)
        spent = [sum(row.seconds for row in rows) for rows in (shown, hidden)]
        notes = [
            f"{row.function} does not see that {row.variable} has changed from {row.before} to "
            f"{row.now} since it was traced. Give it as an argument."
            for row in self._stale.values()
        ]
        if hidden:
            notes.append(
                f"JAX also compiled {count_of(len(hidden), 'operation')} outside of jit, in "
                f"{spent[1]:.2f} s: eager=True lists them."
            )
        notes += [
            f"{row.function} raised while it was traced, and was not compiled: {row.line}."
            for row in failed
        ]
        missed = dict.fromkeys(_recorder.failed[self._before :])
        notes += [f"No cause was found for {one}" for one in missed]
        headline = (
            f"{self._what}: {count_of(len(made), 'compile')}, {again} again, {spent[0]:.2f} s"
        )
        return Compiles(headline, shown, tuple(notes), stale=list(self._stale.values()))

    def look(self) -> None:
        """Look which variables have changed since functions were traced."""
        now: dict[int, Seen] = {}
        for one in list(self.entries):
            fun = one.known.fun()
            if one.seen is not None and fun is not None:
                held = now.get(id(fun)) or now.setdefault(id(fun), seen_by(fun))
                for row in changed_since(one.row.function, one.seen, held):
                    self._stale[row.function, row.variable] = row

    def __enter__(self) -> CompileLog:
        with _recorder.lock:
            _compat.hear(_recorder.hear)
            if not self._within:
                _recorder.logs.append(self.entries)
            self._within += 1
        self._unused = False
        return self

    def __exit__(self, *error: object) -> None:
        with _recorder.lock:
            self._within -= 1
            if not self._within:
                left = [one for one in _recorder.logs if one is not self.entries]
                _recorder.logs = left
                if not left:
                    _compat.hear_no_more(_recorder.hear)
        self.look()

    def __repr__(self) -> str:
        return _IN_A_WITH if self._unused else repr(self.compiles)

    def _repr_mimebundle_(self, **words: object) -> dict[str, str]:
        if self._unused:
            return {"text/plain": repr(self)}
        shown: Any = self.compiles
        return shown._repr_mimebundle_(**words)


def _again(entry: Entry) -> bool:
    return entry.row.cause != FIRST


@told_how(_IN_A_WITH)
def compiles(*, eager: bool = False) -> CompileLog:
    """Note what is traced and compiled within a ``with``, and why.

    Each row has the line of the call and its difference from earlier calls: an argument's shape,
    dtype, weak type, device or structure, a static value, a flag, or a new function given to
    `jax.jit`.

    Args:
        eager: Also list operations that run outside of `jax.jit`; JAX compiles each of them by
            itself. Operations that are compiled again are always listed.

    Returns:
        A `CompileLog`, to be used in a ``with``. Earlier compiles are not known, so the first call
        that it sees is a ``"first call"``.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> @jax.jit
        ... def double(x):
        ...     return x * 2
        >>> with taxpr.compiles() as log:
        ...     _ = double(1.0), double(2.0), double(3)
        >>> [(row.cause, row.argument) for row in log.compiles.rows]
        [('first call', ''), ('dtype', 'x')]
    """
    refuse_no_flag("compiles", eager=eager)
    return CompileLog("compiles", eager)


class WhyCompiled(Generic[_P, _R]):
    """A function that knows why it was compiled; `why_compiled` makes it.

    Attributes:
        compiles: A `Compiles`, with a row for each trace and compile in all calls.

    Example:
        >>> import jax, taxpr
        >>> double = taxpr.why_compiled(jax.jit(lambda x: x * 2))
        >>> double(1.0), [row.cause for row in double.compiles.rows]
        (Array(2., dtype=float32, weak_type=True), ['first call'])
    """

    def __init__(self, fun: Callable[_P, _R]) -> None:
        functools.update_wrapper(self, fun)
        self._call = fun
        self._log = CompileLog(users_name_of(fun))
        self._size = 0  # of what is compiled
        self._asked = False  # whether a call has returned

    @property
    def compiles(self) -> Compiles:
        """The traces and compiles of all calls, and why."""
        return self._log.noted()

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        jitted: Any = self._call if hasattr(self._call, "_cache_size") else None
        if jitted is not None and jitted._cache_size() < self._size:
            _recorder.drop(jitted.__wrapped__)
        fun, call = (None, None) if self._asked else called(self._call, args, kwargs)
        with self._log:
            try:
                out = self._call(*args, **kwargs)
            finally:
                self._size = 0 if jitted is None else jitted._cache_size()
        if fun is not None and not self._log.entries:
            _recorder.found(fun, call)
        self._asked = True
        return out


@told_how("Give it a function, and call what it returns: f = taxpr.why_compiled(f); f(*args).")
def why_compiled(fun: Callable[_P, _R]) -> WhyCompiled[_P, _R]:
    """Wrap a function so that it tells why it was traced and compiled.

    Args:
        fun: A function that `jax.jit` returned; or any function, for all that is jitted in it.

    Returns:
        A function of the same arguments and results. Its ``compiles`` is a `Compiles`: a row for
        each trace and compile, with the cause, the argument, its old and new value, and the fix. It
        also says which variables the function does not see changed.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> @jax.jit
        ... def loss(params, x):
        ...     return (params["w"] * x).sum()
        >>> loss = taxpr.why_compiled(loss)
        >>> for size in (4, 4, 3):
        ...     _ = loss({"w": 2.0}, jnp.ones(size))
        >>> row = loss.compiles.rows[1]
        >>> row.cause, row.argument, row.before, row.now
        ('shape', 'x', 'float32[4]', 'float32[3]')
    """
    refuse_no_function("why_compiled", fun)
    return WhyCompiled(fun)
