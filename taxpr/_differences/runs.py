"""The two runs that are compared."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Generator
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._calls.static import is_traced
from taxpr._compat import Array, PyTree
from taxpr._differences.choices import choices
from taxpr._differences.named_after import named_after
from taxpr._differences.precision import precisions
from taxpr._editing.edited import edits_of
from taxpr._errors import ArgumentError, name_of
from taxpr._hops.silent import silent
from taxpr._hops.table import is_loop, nested_jaxprs
from taxpr._jaxprs.trees import named_leaves
from taxpr._keeping.wanted import EVERY_VARIABLE
from taxpr._keeping.watch import watching
from taxpr._programs.program import Injected, Program
from taxpr._programs.trace import trace
from taxpr._recordings.part import Part
from taxpr._sites.criteria import Selector
from taxpr._sites.walk import iter_eqns
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp as _jnp

OP_BY_OP = "op by op"


@dataclasses.dataclass(frozen=True)
class Way:
    """How one of the runs is done.

    Attributes:
        name: Its name.
        target: A function, or a `Program`.
        dtype: The type of all floats; None leaves them unchanged.
        device: The device; None means the default.
        op_by_op: Whether each equation is compiled and run by itself; a loop or a branch counts as
            one.
    """

    name: str
    target: Any
    dtype: Any = None
    device: Any = None
    op_by_op: bool = False


def way_of(a: Any, b: Any) -> Way:
    """The second run, of a function ``a``.

    Raises:
        ArgumentError: If ``b`` says no way to run something.
    """
    if isinstance(b, Program) or (callable(b) and not isinstance(b, type)):
        how = f" with {', '.join(edits)} edited" if (edits := edits_of(b)) else ""
        return Way(name_of(b) + (how or " injected" * isinstance(b, Injected)), b)
    if isinstance(b, str) and b == OP_BY_OP:
        return Way(OP_BY_OP, a, op_by_op=True)
    if isinstance(b, jax.Device):
        return Way(str(b), a, device=b)
    dtype: Any = None
    with contextlib.suppress(TypeError):
        dtype = _jnp.dtype(b)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        raise ArgumentError(
            f"first_difference: {b!r} is no way to run something. Give a function or a Program, "
            '"op by op", a dtype such as "bfloat16", or a device; without it two inputs.'
        )
    if isinstance(a, Program):
        raise ArgumentError(
            f"first_difference: a Program has its types, and cannot run in {dtype}: give the "
            "function that it was traced of."
        )
    return Way(dtype.name, a, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class Record:
    """The values and results that a run kept.

    Attributes:
        parts: Values, with the names of variables that are known.
        out: The results, by their names.
        notes: How it ran, in sentences.
    """

    parts: list[Part]
    out: dict[str, Array]
    notes: tuple[str, ...]

    def arrays(self) -> list[Any]:
        """All of them."""
        return [*(one.kept.value for one in self.parts), *self.out.values()]


class Run:
    """A run that is prepared: its program is traced."""

    def __init__(self, way: Way, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._way = way
        with self._settings():
            if way.dtype is not None:
                args, kwargs = _all_cast((args, kwargs), way.dtype)
            args, kwargs = self._placed(args, kwargs)
            self.program: Program = (
                named_after(way.target)
                if isinstance(way.target, Program)
                else trace(way.target, names=True)(*args, **kwargs)
            )
        self._args, self._kwargs = args, kwargs
        self._precise, self.results = precisions(self.program.jaxpr)

    @functools.cached_property
    def again(self) -> Run | None:
        """The same without what it prints; None where it has other effects, or other types."""
        quiet = silent(self.program.jaxpr)
        if self._way.dtype is not None or _compat.open_jaxpr(quiet).effects:
            return None
        run = copy.copy(self)
        run.program = dataclasses.replace(self.program, jaxpr=quiet)
        return run

    def _placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._way.device is None:
            return args, kwargs
        return _jax.device_put((args, kwargs), self._way.device)

    def precision(self, part: Part) -> Any:
        """The coarsest type that a value was computed in; its own if it holds no floats."""
        dtype = part.kept.dtype
        inexact = jnp.issubdtype(dtype, jnp.inexact)
        return self._precise.get(part.address, dtype) if inexact else dtype

    @functools.cached_property
    def choices(self) -> dict[str, str]:
        """The values that choose the branches, see `choices`."""
        return choices(self.program.jaxpr)

    def record(
        self, where: Selector, memory: float | None, given: tuple[Any, Any] | None = None
    ) -> Record:
        """Run it, and keep values.

        Args:
            where: As for `watch`; with all variables what chooses branches, too.
            memory: As for `watch`.
            given: Other arguments, by position and by name.
        """
        args, kwargs = (self._args, self._kwargs) if given is None else self._placed(*given)
        if isinstance(self.program, Injected):
            args = (self.program.ctx, *args)
        # The program was traced before, so that only what runs is run op by op.
        op_by_op = jax.disable_jit() if self._way.op_by_op else contextlib.nullcontext()
        if where == EVERY_VARIABLE:
            where = [where, *map(Address, dict.fromkeys(self.choices.values()))]
        with self._settings(), op_by_op:
            record = watching(lambda *args, **kwargs: self.program, where, "host", memory)
            rec = record(*args, **kwargs)
        if not rec.complete:
            raise KeyboardInterrupt
        names: dict[str, str] = {}
        for one in self.program.variables():
            names.setdefault(one.address, one.short)
        parts = [dataclasses.replace(p, name=names.get(p.name, p.name)) for p in rec.parts]
        out = rec.out[0] if isinstance(self.program, Injected) else rec.out
        leaves = [*named_leaves("out", out), *named_leaves("", rec.states)]
        named = {name: jnp.asarray(leaf) for name, leaf in leaves if is_traced(leaf)}
        return Record(parts, named, (*rec.notes, *self._compiled()))

    def _compiled(self) -> list[str]:
        """A note that names what ran compiled although all was to run op by op."""
        if not self._way.op_by_op:
            return []
        whole: list[Address] = []
        for address, eqn in iter_eqns(self.program.jaxpr):
            outermost = not any(address.startswith(f"{one}/") for one in whole)
            # JAX compiles these as one, even where jit is disabled.
            if outermost and (is_loop(eqn) or any(one.conditional for one in nested_jaxprs(eqn))):
                whole.append(address)
        shown = ", ".join(whole[:8]) + (f" and {len(whole) - 8} more" if len(whole) > 8 else "")
        return [f"Loops and branches ran compiled, each as one: {shown}."] if whole else []

    @contextlib.contextmanager
    def _settings(self) -> Generator[None, None, None]:
        with contextlib.ExitStack() as stack:
            if self._way.dtype is not None and self._way.dtype.itemsize == 8:
                stack.enter_context(_compat.enable_x64())
            if self._way.device is not None:
                stack.enter_context(_jax.default_device(self._way.device))
            yield


def _all_cast(given: PyTree, dtype: Any) -> Any:
    """All arrays of floats in another type."""
    floats = [
        x.dtype
        for x in jax.tree.leaves(given)
        if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
    ]
    if all(one == dtype for one in floats):
        found = (
            f"all arrays of floats are {dtype}" if floats else "no argument is an array of floats"
        )
        raise ArgumentError(
            f"first_difference: nothing was cast to {dtype}: {found}. Give arrays of another "
            "type as arguments, such as jnp.float32(1.0) for a Python scalar; closed-over "
            "arrays keep their type."
        )
    return _compat.map_leaves(lambda x: _cast(x, dtype), given)


def _cast(x: Any, dtype: Any) -> Any:
    if not hasattr(x, "dtype"):
        return x  # a number of Python takes the type of what it meets
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.asarray(x, dtype) if is_float else x
