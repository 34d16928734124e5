"""The rows of `find_nan`: the place where a non-finite value begins, in words."""

import dataclasses
import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.charts import number
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import alike, of_any_index
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._devices.fetched import fetched
from taxpr._hops.interpreter import Backwards
from taxpr._hops.nested import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._keeping.wanted import Wanted
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._questions.bits import KINDS, kinds
from taxpr._questions.lines import line_of, operand_text
from taxpr._questions.mapped import MappedVariables, mapped_axes
from taxpr._questions.nonfinite import Origin
from taxpr._recordings.part import KeptValue
from taxpr._recordings.summary import each_of, summary
from taxpr._sites.values import Value
from taxpr._untyped import np

_MOST = 8  # examples that are told


@dataclasses.dataclass(frozen=True)
class NanRow:
    """A non-finite value with finite operands; a row of `NanFound`.

    Attributes:
        what: ``"NaN"``, ``"+inf"``, ``"-inf"``, or several of these.
        variable: The variable that held it; else the address.
        line: The line of the source, such as ``"model.py:12"``: where the variable was bound.
        code: The statement in that line; after ``∂`` the differentiated statement.
        iteration: For each loop around it the iteration from 0, outermost first, when it begins.
        branch: The branches that were taken to it.
        device: The device that has the first such element: its place along each axis of the mesh
            that divides the value, such as ``"d=5"``; empty if all have the same.
        examples: The examples along the axes of `jax.vmap`.
        elements: How many of its elements in that iteration, and the index of the first.
        backward: Whether it is part of a backward pass; values that `jax.checkpoint` computes again
            are not.
        inputs: The operands with the smallest and the largest of their finite elements, and the
            kinds of the others; each by its variable, or else by its expression and address.
        address: Its address.
        made_by: The statement that made it, with its line, if that is another one, as in a helper.
        times: How often it begins, of how often the value is computed; with ``everywhere`` alone.
        became: Its effect on the results, if they do not simply have it; with ``everywhere``
            always.
        process: The number of the process that the device belongs to; None if there is only one.

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
    made_by: str = ""
    times: str = ""
    became: str = ""
    process: int | None = None


class Words:
    """The names and lines of a program's values, for rows.

    Args:
        program: The program.
        wanted: Its values, by their addresses.
    """

    def __init__(self, program: Program, wanted: Mapping[str, Wanted]) -> None:
        self._program, self._wanted = program, wanted
        variables = {one.address for one in program.variables()}
        self._derived = derived(program.jaxpr) - variables
        self._edits = {(one.file, one.line): one for one in program.variables() if one.edited}

    @functools.cached_property
    def mapped(self) -> dict[str, tuple[int, ...]]:
        """The axes that `jax.vmap` has put into values, by their addresses."""
        named = {
            address: one.variable.mapped for address, one in self._wanted.items() if one.variable
        }
        held = dict[str, frozenset[tuple[int, ...]]]()
        for one in self._program.variables():
            held[one.address] = held.get(one.address, frozenset()) | {one.mapped}
        return mapped_axes(self._program.jaxpr, MappedVariables(named, held))

    def row(
        self, origin: Origin, kept: Mapping[str, KeptValue], became: str, all_times: bool
    ) -> NanRow:
        """The row of an origin. Its value and its operands' were kept.

        Args:
            origin: The origin.
            kept: The values.
            became: Its effect on the results.
            all_times: Whether the row says how often it begins.
        """
        one = self._wanted[origin.address]
        value, line = one.value, line_of(one.value, one.variable, self._edits)
        is_derivative = line.code and origin.address in self._derived
        elements, examples, place = self._elements(kept[one.read.address], origin)
        device, process = kept[one.read.address].lies_on(origin.index, place)
        return NanRow(
            what=" and ".join(name for bit, name in KINDS.items() if origin.bits & bit),
            variable=self._name(origin.address),
            line=line.place,
            code=f"∂ {line.code}" if is_derivative else line.code,
            iteration=tuple(n for k, n in origin.index.items() if "mesh " not in k),
            branch=", ".join(
                s.nested.title for s in value.steps if s.nested.conditional and not s.is_loop
            ),
            device=device,
            process=process,
            examples=examples,
            elements=elements,
            backward=_is_backward(value),
            inputs=tuple(self._input(*given, origin, kept) for given in origin.operands),
            address=origin.address,
            made_by=line.made_by,
            times=_times(origin, kept[one.read.address]) if all_times else "",
            became=became,
        )

    def short(self, address: str) -> str:
        """A value with its line; without a variable its expression."""
        one = self._wanted[address]
        line, name = line_of(one.value, one.variable, self._edits), self._name(address)
        name = f"`{line.code}`" if name == address and line.code else name
        name = f"the derivative of {name}" if address in self._derived else name
        return f"{name} ({line.place})" if line.place else name

    def _name(self, address: str) -> str:
        one = self._wanted.get(address)
        if one is None:
            return address
        at = Address(one.read.address)
        if one.variable is None and at.is_argument:
            return self._program.in_names[at.number]
        return one.variable.text if one.variable else address

    def _elements(
        self, kept: KeptValue, origin: Origin
    ) -> tuple[str, tuple[int, ...], tuple[int, ...] | None]:
        """How many elements are of the origin's kind, their examples, and the first element.

        The first is an index of the whole kept array; None if it is not known.
        """
        if kept.value is None:
            size = math.prod(kept.shape)
            stats = each_of(_at(kept, origin.index), size)
            shares = zip(KINDS, (stats.nan, stats.posinf, stats.neginf), strict=True)
            share = sum(share for bit, share in shares if origin.bits & bit)
            return f"{round(share * size)} of {size} elements", (), None
        value = _at(kept, origin.index)
        found = np.broadcast_to(origin.elements, value.shape)
        places = np.argwhere(kinds(value, value.ndim, np) & found)
        mapped = self.mapped.get(origin.address, ())
        text = counted(places, value)
        examples = sorted({int(one[mapped[-1]]) for one in places}) if mapped else []
        first = (*_place(kept, origin.index), *map(int, places[0])) if len(places) else None
        return text, tuple(examples[:_MOST]), first

    def _input(
        self, address: str | None, literal: Any, origin: Origin, kept: Mapping[str, KeptValue]
    ) -> str:
        if address is None:
            return number(literal)
        name, one = self._name(address), self._wanted.get(address)
        if name == address and one is not None:
            text = operand_text(one.value, self._wanted[origin.address].value)
            name = f"`{text}` ({address})" if text else address
        if one is None or one.read.address not in kept or not _is_floats(one.value):
            return f"{name}: not of floats"
        return f"{name}: {_range(kept[one.read.address], origin.index)}"


def _is_backward(value: Value) -> bool:
    """Whether a backward pass makes a value: in a loop, only the loop's equation tells."""
    around = any(_compat.is_transposed(step.eqn) for step in value.steps)
    return (around or _compat.is_transposed(value.eqn)) and not _compat.is_recomputed(value.eqn)


def _times(origin: Origin, kept: KeptValue) -> str:
    """How often an origin begins; empty if its value is computed once."""
    found, of = origin.times
    if of == 1:
        return ""
    elements, of_all = origin.share
    are_known = kept.value is not None and math.prod(kept.shape) > 1
    return f"{found} of {of} times" + (f", {elements} of {of_all} elements" if are_known else "")


def counted(places: Any, value: Any) -> str:
    """How many places of a value, and the first."""
    text = f"{len(places)} of {value.size} elements"
    if value.ndim and len(places):
        text += f", the first at {tuple(places[0].tolist())}"
    return text


def in_layers(rows: Sequence[NanRow]) -> list[list[NanRow]]:
    """Group the rows of one statement, such as in each layer, if their effects are the same."""

    def said(row: NanRow) -> Hashable:
        where = of_any_index(row.variable), row.line, row.code, row.made_by
        # Without a line nothing says that an address is of the same statement.
        where = where if row.line else (row.address,)
        return *where, row.what, row.branch, row.backward, row.became

    return alike(rows, said)


def told(row: NanRow, more: Sequence[NanRow] = ()) -> str:
    """A row as text, with the other places where the same begins."""
    is_derivative = row.code.startswith("∂ ")
    where = [f"in {row.line}" if row.line else ""]
    where += [f"`{row.code}`" if row.code and not is_derivative else ""]
    where += [f"made by {row.made_by}" if row.made_by else ""]
    first = "first in " if row.times else ""
    where += [row.times]
    where += [f"{first}iteration {', '.join(map(str, row.iteration))}" if row.iteration else ""]
    where += [row.branch and f"in {row.branch}", _device(row)]
    where += [f"examples {', '.join(map(str, row.examples))}" if row.examples else ""]
    again = f", and {count_of(len(more), 'more such place')}" if more else ""
    where += ["in the backward pass" if row.backward else "", f"({row.address}{again})"]
    name = f"the derivative of `{row.code[2:]}`" if is_derivative else row.variable
    text = f"{row.what} in {name}: {row.elements}, {', '.join(filter(None, where))}"
    became = [f"    {row.became}"] if row.became else []
    return "\n".join([text, *(f"    operand {one}" for one in row.inputs), *became])


def _device(row: NanRow) -> str:
    of = "" if row.process is None else f" of process {row.process}"
    return f"on the device {row.device}{of}" if row.device else of.replace(" of", "in", 1)


def _at(kept: KeptValue, index: Mapping[str, int]) -> Any:
    """A value, or its summary, in an iteration and on a device."""
    value = kept.table if kept.value is None else fetched(kept.value)
    return value[_place(kept, index)]


def _place(kept: KeptValue, index: Mapping[str, int]) -> tuple[int, ...]:
    """An index of the leading axes of the kept array."""
    shape = np.shape(kept.table if kept.value is None else kept.value)
    return tuple(min(index.get(name, 0), n - 1) for name, n in zip(kept.axes, shape, strict=False))


def _range(kept: KeptValue, index: Mapping[str, int]) -> str:
    """The range of the finite elements of a value, and the kinds of the others."""
    row = _at(kept, index)
    row = row if kept.value is None else summary(row, 0, np)
    stats = each_of(row, math.prod(kept.shape))
    words = [number(stats.min)] if stats.min <= stats.max else []
    if stats.min < stats.max:
        words = [f"min {number(stats.min)}, max {number(stats.max)}"]
    shares = {"NaN": stats.nan, "+inf": stats.posinf, "-inf": stats.neginf}
    words += [name for name, share in shares.items() if share]
    return ", ".join(words) or "empty"


def _is_floats(value: Value) -> bool:
    aval: Any = value.aval
    return np.issubdtype(aval.dtype, np.inexact) or "float" in str(aval.dtype)


_PROGRAM = Address()


def derived(jaxpr: StoredJaxpr) -> set[str]:
    """The addresses of the values of a backward pass, and of values that serve it alone.

    In the forward pass of a square root, for example, one half divided by the root.
    """
    known = _Derived()
    known.run(jaxpr, [True] * len(_compat.open_jaxpr(jaxpr).outvars), _PROGRAM)
    return {address for address, one in known.found.items() if one}


class _PassesAround(NamedTuple):
    """Whether a jaxpr is within a backward pass, and within a function that is differentiated."""

    backward: bool = False
    differentiated: bool = False


class _Derived(Backwards[bool]):
    """Whether a value is for more than a derivative."""

    nothing = False
    unused = True  # what nobody uses is the function's own result, which its gradient drops

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}
        self._within = {_PROGRAM: _PassesAround()}

    def join(self, each: Sequence[bool]) -> bool:
        return any(each)

    def entered(self, eqn: JaxprEqn, here: Address) -> Sequence[Nested]:
        nested = nested_jaxprs(eqn)
        self._within.update((here / one.label, self._around(eqn, here)) for one in nested)
        return nested

    def _around(self, eqn: JaxprEqn, here: Address) -> _PassesAround:
        within, made_by = self._within[here.home], _compat.transformations_of(eqn)
        backward = within.backward or "transpose" in made_by
        again = _compat.is_recomputed(eqn)
        return _PassesAround(backward and not again, within.differentiated or "jvp" in made_by)

    def needed(
        self, eqn: JaxprEqn, outs: Sequence[bool], inside: Sequence[bool] | None, here: Address
    ) -> Sequence[bool]:
        backward, differentiated = self._around(eqn, here)
        needed = not backward and (not differentiated or any(outs))
        own = _compat.is_of_rule(eqn) if backward else is_tag(eqn)
        of_it = (backward or differentiated) and not own
        for k, one in enumerate(outs):
            self.found[here.value(k)] = of_it and (backward or not one)
        return [needed and one for one in inside or [True] * len(eqn.invars)]
