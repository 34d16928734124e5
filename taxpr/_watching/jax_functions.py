"""Keep JAX from tracing its own jitted functions for each edited function anew.

Traces of an edited function are kept apart by a key, and JAX's caches hold them as long as the
traced function. The functions of `jax.numpy` stay for ever, and no edit changes their results.
"""

import contextlib
import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from taxpr import _compat
from taxpr._watching.listener import now

_PLAIN: Any = (
    *(bool, int, float, complex, str, bytes, type, slice, enum.Enum, np.dtype, np.generic),
    *(np.ndarray, jax.Array, jax.sharding.Sharding, types.NoneType, types.EllipsisType),
)


class JaxFunctions:
    """Is told when JAX looks up the trace of a function; a `Listener`.

    Args:
        unchanged: A context that makes JAX look for the trace without an edit.
    """

    of_calls = False

    def __init__(self, unchanged: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._unchanged = unchanged
        self._entered: dict[int, contextlib.AbstractContextManager[None]] = {}

    def wants(self, code: types.CodeType) -> bool:
        """Whether it is the function that looks it up."""
        return code is _compat.code_of_lookups()

    def offsets(self, code: types.CodeType) -> frozenset[int]:
        """None are of interest."""
        return frozenset()

    def started(self, frame: types.FrameType) -> None:
        """JAX looks up a jitted function."""
        given = frame.f_locals
        if (
            self.wants(frame.f_code)
            and not now.in_jax
            and _is_from_jax(given["fun"])
            and _is_plain((given["args"], given["kwargs"]))
        ):
            self._entered[id(frame)] = unchanged = self._unchanged()
            unchanged.__enter__()

    def line(self, frame: types.FrameType, line: int) -> None:
        """Not of interest."""

    def instruction(self, frame: types.FrameType, offset: int) -> None:
        """Not of interest."""

    def called(self, function: object, first: Any) -> None:
        """Not of interest."""

    def yielded(self, frame: types.FrameType) -> None:
        """Not of interest."""

    def returned(self, frame: types.FrameType) -> None:
        """JAX has found or traced it."""
        if (entered := self._entered.pop(id(frame), None)) is not None:
            entered.__exit__(None, None, None)

    def raised(self, frame: types.FrameType) -> None:
        """Tracing has raised."""
        self.returned(frame)

    def said(self, frame: types.FrameType) -> Mapping[str, str]:
        """It changes nothing."""
        return {}


def _is_from_jax(fun: Any) -> bool:
    """Whether a function is JAX's own, and none that it made of another one."""
    return (
        isinstance(fun, types.FunctionType)
        and fun.__closure__ is None
        and _compat.is_jax_file(fun.__code__.co_filename)
    )


def _is_plain(given: Any) -> bool:
    """Whether arguments hold no function of the user and no object that has one."""
    leaves = jax.tree.leaves(given, is_leaf=lambda one: not isinstance(one, (tuple, list, dict)))
    return all(isinstance(leaf, _PLAIN) for leaf in leaves)
