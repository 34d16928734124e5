"""`find_nan`: where the first value comes from that is not finite."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines, number
from taxpr._compat import Array, JaxprEqn, PyTree
from taxpr._errors import refuse_no_function
from taxpr._places import place_text
from taxpr._programs.functions import called_as, trace
from taxpr._programs.program import Program
from taxpr._questions.nonfinite import KINDS, NAN, Bits, Nonfinite, Origin, kinds, takes
from taxpr._recordings.run import Kept, Ran, reduced, run
from taxpr._recordings.summary import Reduction, each_of, summary
from taxpr._recordings.wanted import Wanted, every_value
from taxpr._sites.values import Value
from taxpr._source.statements import statements_of

np: Any = numpy  # which leaves types of arrays unknown

_BITS = Reduction(kinds, (), takes)
_MOST = 8  # origins and examples that are told


@dataclasses.dataclass(frozen=True)
class NanRow:
    """A value that is not finite, while all that it was computed from is; a row of `NanFound`.

    Attributes:
        what: ``"NaN"``, ``"+inf"``, ``"-inf"``, or several of these.
        variable: The variable that held it; the address where there is none.
        line: The line of the source, such as ``"model.py:12"``.
        code: The expression.
        iteration: For each loop around it the iteration from 0, outermost first.
        branch: The branches that were taken to it.
        device: For each mesh axis along which it differs the place of the device.
        examples: Of an axis of `jax.vmap` the examples.
        elements: How many of its elements, and the index of the first.
        backward: Whether it is computed in a backward pass.
        inputs: The operands with their ranges.
        address: Its address.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> [row] = taxpr.find_nan(lambda x: jnp.log(x))(jnp.zeros(2)).rows
        >>> row.what, row.elements, row.inputs
        ('-inf', '2 of 2 elements, the first at (0,)', ('x: 0',))
    """

    what: str
    variable: str
    line: str
    code: str
    iteration: tuple[int, ...]
    branch: str
    device: str
    examples: tuple[int, ...]
    elements: str
    backward: bool
    inputs: tuple[str, ...]
    address: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NanFound(Answer):
    """What `find_nan` found: the first row is the first in the order of execution.

    Attributes:
        out: The result of the function.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = 1 / x
        ...     return y
        >>> print(taxpr.find_nan(f)(jnp.ones(2)))
        find_nan of f: all results are finite
    """

    out: Any = None

    def __str__(self) -> str:
        return "\n".join([self.headline, *map(_told, self.rows), *self.notes])

    def chart(self) -> Chart | None:
        """How many elements of each are not finite."""
        if not self.rows:
            return None
        shares = [int(row.elements.split()[0]) for row in self.rows]
        return Lines({"elements": np.array(shares)}, xlabel="origins in order")


def find_nan(f: Any, *, memory: int | None = None) -> Callable[..., NanFound]:
    """Find the first value that is not finite, of those that a result has its NaN from.

    It runs the function once, compiled, with all of its values as further results, through jit,
    loops, branches, `jax.vmap`, custom rules, shard_map, and the backward pass of a gradient. The
    place is an equation whose result is not finite though its operands are. Infinities of
    constants and arguments, as those of a mask, are none, but a NaN that is made of them is one.
    What is not finite and reaches no result, as what `jax.numpy.where` does not select, is a note.

    Args:
        f: A function of PyTrees of arrays; or a `Program`.
        memory: As for `watch`. With too little it runs twice.

    Returns:
        A function of the arguments of ``f`` that returns a `NanFound`, which is false if there is
        none. Its rows are all such places, in the order of execution: a `NanRow` each.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(xs):
        ...     def step(c, x):
        ...         rest = c - x
        ...         root = jnp.sqrt(rest)
        ...         return root, root * 2
        ...     return jax.lax.scan(step, 10.0, xs)
        >>> found = taxpr.find_nan(f)(jnp.array([1.0, 2.0, 3.0, 0.0]))
        >>> row = found.rows[0]
        >>> print(row.what, row.variable, row.iteration, row.inputs)
        NaN root (2,) ('rest: -2',)
        >>> bool(taxpr.find_nan(f)(jnp.zeros(4)))
        False
    """
    if isinstance(f, Program):
        return _finding(lambda *args, **kwargs: f, memory)
    refuse_no_function("find_nan", f)
    return called_as(f)(_finding(trace(f, names=True), memory))


def _finding(program_of: Callable[..., Program], memory: int | None) -> Callable[..., NanFound]:
    def found(*args: PyTree, **kwargs: PyTree) -> NanFound:
        program = program_of(*args, **kwargs)
        return _Finding(program, program.flat(args, kwargs), memory).answer()

    return found


class _Finding:
    """One run, and what is said of it."""

    def __init__(self, program: Program, flat: Sequence[Array], memory: int | None) -> None:
        self._program, self._flat, self._memory = program, flat, memory
        self._wanted: dict[str, Wanted] = {}
        every, self._skipped = every_value(program)
        for one in every:
            if takes(_dtype(one.value)):
                self._wanted[one.value.address] = one

    def answer(self) -> NanFound:
        """Run, and look."""
        reads = {one.read.address: one.read for one in self._wanted.values()}
        ran = run(self._program, self._flat, list(reads.values()), "auto", self._memory, _BITS)
        tables = reduced(ran, _BITS)
        bits = {
            address: Bits(ran.kept[one.read.address].axes, tables[one.read.address])
            for address, one in self._wanted.items()
        }
        found = Nonfinite(self._program.jaxpr, bits)
        origins = [one for one in found.origins if one.address in found.marked]
        hidden = [one for one in found.origins if one.address not in found.marked]
        ran = self._with_values(ran, origins[:_MOST])
        rows = [self._row(one, ran.kept) for one in origins[:_MOST]]
        notes = [f"Not read: {one}." for one in self._skipped] + list(ran.notes)
        if hidden:
            names = ", ".join(dict.fromkeys(self._short(one.address) for one in hidden[:3]))
            notes.append(
                f"{len(hidden)} place{'s' * (len(hidden) > 1)} made values that are not finite and "
                f"that no result has: {names}{' …' if len(hidden) > 3 else ''}."
            )
        name = self._program.name
        many = f"; {len(origins)} places" if len(origins) > 1 else ""
        what = (
            f"{rows[0].what} in {self._short(rows[0].address)}{many}"
            if rows
            else "all results are finite"
        )
        if not rows and self._has_nonfinite(ran.out):
            rows = [_of_result(k, x) for k, x in enumerate(ran.out) if np.isnan(_floats(x)).any()]
            what = "no place found for a NaN in the results"
            if not rows:
                what = "only infinities of constants and arguments in the results"
        out = self._program.result(ran.out)
        return NanFound(f"find_nan of {name}: {what}", rows, tuple(notes), out=out)

    def _has_nonfinite(self, out: Sequence[Any]) -> bool:
        return any(not np.isfinite(_floats(x)).all() for x in out)

    def _with_values(self, ran: Ran, origins: Sequence[Origin]) -> Ran:
        """The values of origins and of their operands; of another run if they were not kept."""
        needed = {one.address for one in origins}
        needed |= {address for one in origins for address, _ in one.operands if address}
        reads = {
            self._wanted[address].read.address: self._wanted[address].read
            for address in needed & self._wanted.keys()
        }
        if all(ran.kept[address].value is not None for address in reads):
            return ran
        more = run(self._program, self._flat, list(reads.values()), "auto", self._memory)
        return dataclasses.replace(ran, kept={**ran.kept, **more.kept})

    def _row(self, origin: Origin, kept: Mapping[str, Kept]) -> NanRow:
        one = self._wanted[origin.address]
        value = one.value
        loops = [name for name in origin.index if not name.startswith("mesh ")]
        mapped = self._mapped(origin)
        elements, examples = _elements(kept[one.read.address], origin, mapped)
        return NanRow(
            what=" and ".join(name for bit, name in KINDS.items() if origin.bits & bit),
            variable=self._name(origin.address),
            line=self._line(one),
            code=_code(value),
            iteration=tuple(origin.index[name] for name in loops),
            branch=", ".join(
                s.nested.title for s in value.steps if s.nested.conditional and not s.is_loop
            ),
            device=", ".join(
                f"{name.removeprefix('mesh ')}={at}"
                for name, at in origin.index.items()
                if name.startswith("mesh ")
            ),
            examples=examples,
            elements=elements,
            backward=value.eqn is not None and _compat.is_transposed(value.eqn),
            inputs=tuple(self._input(*given, origin, kept) for given in origin.operands),
            address=origin.address,
        )

    def _name(self, address: str) -> str:
        one = self._wanted.get(address)
        if one is None:
            return address
        at = Address(one.read.address)
        if one.variable is None and at.kind == "in" and not at.home:
            return self._program.in_names[at.number]
        return one.variable.text if one.variable else address

    def _short(self, address: str) -> str:
        one = self._wanted[address]
        line, name = self._line(one), self._name(address)
        name = f"`{_code(one.value)}`" if name == address and _code(one.value) else name
        return f"{name} ({line})" if line else name

    def _line(self, one: Wanted) -> str:
        if one.variable is not None:
            return one.variable.place
        source = next(filter(None, map(_compat.source_of, _makers(one.value))), None)
        return place_text(source.file, source.line) if source else ""

    def _mapped(self, origin: Origin) -> tuple[int, ...]:
        """The axes of `jax.vmap` of a value, or of an operand of the same shape."""
        own = self._wanted[origin.address]
        for address in (origin.address, *(address for address, _ in origin.operands)):
            one = self._wanted.get(address or "")
            same = one is not None and _shape(one.value) == _shape(own.value)
            if one is not None and same and one.variable and one.variable.mapped:
                return one.variable.mapped
        return ()

    def _input(
        self, address: str | None, literal: Any, origin: Origin, kept: Mapping[str, Kept]
    ) -> str:
        if address is None:
            return number(literal)
        name = self._name(address)
        if address not in self._wanted:
            return f"{name}: not of floats"
        return f"{name}: {_range(kept[self._wanted[address].read.address], origin.index)}"


def _makers(value: Value) -> list[JaxprEqn]:
    """The equation that makes a value, and those around it, innermost first."""
    around = [step.eqn for step in reversed(value.steps)]
    return [value.eqn, *around] if value.eqn else around


def _code(value: Value) -> str:
    """The expression that made a value, in the user's words; empty if it is not known."""
    for eqn in _makers(value):
        for statement in statements_of(eqn):
            if statement.text:
                return statement.text
    return ""


def _of_result(number: int, x: Any) -> NanRow:
    """What is said of a NaN in a result of which no place is known, as of a literal."""
    kept = Kept((), x.shape, x.dtype, x)
    address, name = f"out{number}", f"result {number}"
    elements = _elements(kept, Origin(address, None, {}, NAN), ())[0]
    return NanRow("NaN", name, "", "", (), "", "", (), elements, False, (), address)


def _told(row: NanRow) -> str:
    where = [f"in {row.line}" if row.line else "", f"`{row.code}`" if row.code else ""]
    where += [f"iteration {', '.join(map(str, row.iteration))}" if row.iteration else ""]
    where += [row.branch and f"in {row.branch}", row.device and f"on the device {row.device}"]
    where += [f"examples {', '.join(map(str, row.examples))}" if row.examples else ""]
    where += ["in the backward pass" if row.backward else "", f"({row.address})"]
    text = f"{row.what} in {row.variable}: {row.elements}, {', '.join(filter(None, where))}"
    return "\n".join([text, *(f"    from {one}" for one in row.inputs)])


def _at(kept: Kept, index: Mapping[str, int]) -> Any:
    """A value, or its summary, in an iteration and on a device."""
    value = np.asarray(kept.table if kept.value is None else kept.value)
    places = [
        min(index.get(name, 0), n - 1) for name, n in zip(kept.axes, value.shape, strict=False)
    ]
    return value[tuple(places)]


def _elements(kept: Kept, origin: Origin, mapped: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """How many elements are what the origin is, such as NaN, and the examples that they are of."""
    value = _at(kept, origin.index)
    if kept.value is None:
        size = math.prod(kept.shape)
        stats = each_of(value, size)
        shares = zip(KINDS, (stats.nan, stats.posinf, stats.neginf), strict=True)
        share = sum(share for bit, share in shares if origin.bits & bit)
        return f"{round(share * size)} of {size} elements", ()
    places = np.argwhere(kinds(value, value.ndim, np) & origin.bits)
    text = f"{len(places)} of {value.size} elements"
    if value.ndim and len(places):
        text += f", the first at {tuple(places[0].tolist())}"
    examples = sorted({int(one[mapped[-1]]) for one in places}) if mapped and len(places) else []
    return text, tuple(examples[:_MOST])


def _range(kept: Kept, index: Mapping[str, int]) -> str:
    """The range of a value, and what is not finite in it."""
    row = _at(kept, index)
    row = row if kept.value is None else summary(row, 0, np)
    stats = each_of(row, math.prod(kept.shape))
    words = [number(stats.min)] if stats.min <= stats.max else []
    if stats.min < stats.max:
        words = [f"{number(stats.min)} … {number(stats.max)}"]
    shares = {"NaN": stats.nan, "+inf": stats.posinf, "-inf": stats.neginf}
    words += [name for name, share in shares.items() if share]
    return ", ".join(words) or "empty"


def _floats(value: Any) -> Any:
    if _compat.is_extended(value.dtype):
        return np.zeros(())
    value = np.asarray(value)
    return np.abs(value) if value.dtype.kind == "c" else value.astype(np.float64)


def _dtype(value: Value) -> Any:
    aval: Any = value.aval
    return aval.dtype


def _shape(value: Value) -> tuple[int, ...]:
    aval: Any = value.aval
    return aval.shape
