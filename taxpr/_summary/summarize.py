"""`summary`: the cost of each of the user's functions, as a tree."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import size_text
from taxpr._calls.libraries import is_model
from taxpr._calls.model import is_held
from taxpr._compat import PyTree
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import program_of
from taxpr._costs.costs import Cost
from taxpr._costs.quantities import quantity
from taxpr._errors import ArgumentError, refuse_no_function, told_as
from taxpr._estimates.residuals import residuals, size_of
from taxpr._given import refuse_no_flag
from taxpr._memory.memory import memory
from taxpr._profile.profile import profile, time_text
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, taken_of
from taxpr._summary.call_tree import CallNode, CallTree
from taxpr._summary.summary_rows import Summary, SummaryRow
from taxpr._summary.used_parameters import used_parameters
from taxpr._transforms.question import question
from taxpr._untyped import jnp as _jnp

_ROOT = re.compile(r"\w+(\[\d+\])?")
_AT_MOST = "≤: of a cond, the branch with most operations counts."
_ENDLESS = "each: of a while loop with an unknown length, one iteration counts."
_UNKNOWN = "≥: the operations of {names} are not counted."
_MANY = 4  # names in a note
_MEASURED = (
    "{coverage:.0%} of the {wall} has a statement. A kernel of several functions counts for the "
    "one around them."
)


@question
def summary(
    fun: Any, *, parameters: str | Sequence[str] | None = None, measure: bool = False
) -> Callable[..., Summary]:
    """Show the cost of each function and statement of a program, as a tree of calls.

    The function is traced, and not run. The tree has your functions and the methods of your
    modules; a library's equations count for your statement that called it.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        parameters: The arguments that are parameters, by name, such as ``"model"``, or parts of
            them, such as ``"variables['params']"``. None means the states of the model if ``fun``
            is a model's method, else the first argument that is a model of a library, else the
            first argument. Arrays that are no floats do not count.
        measure: Whether to run it, too, for the time and the memory of each function; it is
            compiled twice for that.

    Returns:
        A function of the arguments of ``fun`` that returns a `Summary`, with a `SummaryRow` for
        each function and statement. Arguments may be `jax.ShapeDtypeStruct`, without ``measure``.

    Raises:
        ArgumentError: If there is no such argument.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def layer(x, w):
        ...     return jnp.tanh(x @ w), None
        >>> def loss(weights, x):
        ...     out, _ = jax.lax.scan(layer, x, weights)
        ...     return out.sum()
        >>> weights, x = jnp.ones((6, 16, 16)), jnp.ones((8, 16))
        >>> for row in taxpr.summary(loss)(weights, x).rows:
        ...     print(row.depth, row.name, row.iterations, row.parameters, row.flops)
        0 loss 1 1536 24703
        1 layer 6 1536 24576
        2 return jnp.tanh(x @ w), None 6 1536 24576
        1 return out.sum() 1 0 127
    """
    if not isinstance(fun, Program):
        refuse_no_function("summary", fun)
    refuse_no_flag("summary", measure=measure)

    def asked(*args: PyTree, **kwargs: PyTree) -> Summary:
        program = program_of(fun, args, kwargs)
        chosen = parameters
        if chosen is None:
            chosen = _model(program, *taken_of(program.door, args, kwargs))
        found = _NodeFacts(program, _parameters(program, chosen))
        with told_as("profile", "summary"):
            measured = _measured(program, found, args, kwargs) if measure else None
        return _answer(program, found, measured)

    return called_as(fun)(asked)


class _Parameters(NamedTuple):
    """The parameters of a program.

    Attributes:
        label: Their names.
        inputs: The numbers of inputs, each with the number of the parameter.
        consts: The numbers of parameters that the function closes over, by their `id`.
        avals: The types of the parameters.
    """

    label: str
    inputs: dict[int, int]
    consts: dict[int, int]
    avals: list[Any]

    def size(self, leaves: frozenset[int]) -> tuple[int, int]:
        """How many numbers some parameters have, and their bytes."""
        avals = [self.avals[k] for k in leaves]
        return sum(math.prod(one.shape) for one in avals), sum(map(size_of, avals))


def _model(program: Program, args: tuple[PyTree, ...], kwargs: PyTree) -> str | None:
    """The name of the first argument that is a library's model, or has one."""

    def is_one(x: Any) -> bool:
        return is_held(x) or is_model(x)

    start = 0
    for one in jax.tree.leaves((args, kwargs), is_leaf=is_one):
        end = start + len(jax.tree.leaves(one))
        if is_one(one) and any(map(_is_float, program.in_avals[start:end])):
            return _roots(program)[start]
        start = end
    return None


def _roots(program: Program) -> list[str]:
    """For each input the name of its argument, such as ``"params"``, or ``"args[0]"`` of `*args`.

    A leaf of a tuple and one of several arguments are named alike: the tree tells them apart.
    """
    found = list[str]()
    for group in program.in_tree.children():  # the arguments by position, and those by name
        for one in group.children():
            names = program.in_names[len(found) : len(found) + one.num_leaves]
            roots = [m[0] if (m := _ROOT.match(name)) else name for name in names]
            if len(set(roots)) > 1:
                roots = [root.partition("[")[0] for root in roots]
            found += roots
    return found


def _parameters(program: Program, asked: str | Sequence[str] | None) -> _Parameters:
    names = program.in_names
    roots = list(dict.fromkeys(_roots(program)))
    wanted = [asked] if isinstance(asked, str) else asked
    if wanted is not None and not _are_names(wanted):
        raise ArgumentError(
            f"summary: parameters={asked!r}: give the name of an argument, or a list of names."
        )
    for name in wanted or ():
        if not any(_is_part(one, name) for one in names):
            raise ArgumentError(
                f"summary: parameters={asked!r}: no argument is {name!r}, but "
                f"{', '.join(roots) or 'there are none'}. Name one, or a part of one."
            )
    if wanted is None:
        # Of a model that is a PyTree and called itself, the arrays are constants.
        is_array = names[:1] == (roots[0],) if roots else True
        floats = [one for one in program.consts if _is_float(one)]
        if is_array and floats:
            consts = {id(one): k for k, one in enumerate(floats)}
            return _Parameters("closed over", {}, consts, [jax.typeof(x) for x in floats])
        wanted = roots[:1]
    avals = program.in_avals
    chosen = [
        k
        for k, name in enumerate(names)
        if any(_is_part(name, one) for one in wanted) and _is_float(avals[k])
    ]
    inputs = {number: k for k, number in enumerate(chosen)}
    return _Parameters(", ".join(wanted), inputs, {}, [avals[k] for k in chosen])


def _are_names(given: Any) -> bool:
    names: Any = given
    return isinstance(given, list | tuple) and all(isinstance(x, str) for x in names)


def _is_part(name: str, whole: str) -> bool:
    return name == whole or name.startswith((f"{whole}.", f"{whole}["))


def _is_float(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return dtype is not None and _jnp.issubdtype(dtype, _jnp.inexact)


class _NodeFacts:
    """Facts about each node without a run.

    Attributes:
        tree: The functions.
        parameters: The parameters.
        leaves: The numbers of the parameters that a node uses itself.
        kept: The bytes that a gradient keeps of its own values.
    """

    def __init__(self, program: Program, parameters: _Parameters) -> None:
        self.tree = CallTree(program, Attributions(program))
        self.parameters = parameters
        self.leaves: dict[CallNode, frozenset[int]] = {}
        self.kept: dict[CallNode, int] = {}
        used = used_parameters(program.jaxpr, parameters.inputs, parameters.consts)
        for address, leaves in used.items():
            node = self.tree.node_at(address)
            self.leaves[node] = self.leaves.get(node, frozenset()) | leaves
        for one in residuals(program.jaxpr):
            node = self.tree.node_at(one.address)
            self.kept[node] = self.kept.get(node, 0) + one.bytes


class _Measured(NamedTuple):
    """The measurements.

    Attributes:
        seconds: The time of the kernels that belong to a node alone.
        at_peak: The bytes of its own values at the peak of the memory.
        wall: The seconds of one run.
        coverage: The share of these that has a statement.
        memory: The bytes that the call needs.
        notes: Notes for the answer.
    """

    seconds: dict[CallNode, float]
    at_peak: dict[CallNode, int]
    wall: float
    coverage: float
    memory: int
    notes: tuple[str, ...]


def _measured(
    program: Program, found: _NodeFacts, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> _Measured:
    timed, use = profile(program)(*args, **kwargs), memory(program)(*args, **kwargs)
    seconds: dict[CallNode, float] = {}
    for one in timed.kernels:
        if one.equations:
            node = _common([found.tree.node_at(Address(address)) for address in one.equations])
            seconds[node] = seconds.get(node, 0.0) + one.seconds
    at_peak: dict[CallNode, int] = {}
    for row in use.rows:
        if row.address:
            node = found.tree.node_at(Address(row.address))
            at_peak[node] = at_peak.get(node, 0) + row.bytes
    notes = _MEASURED.format(coverage=timed.coverage, wall=time_text(timed.wall)), *timed.notes
    return _Measured(seconds, at_peak, timed.wall, timed.coverage, use.total, notes)


def _common(nodes: Sequence[CallNode]) -> CallNode:
    """The innermost node that has all of some nodes."""
    first, *others = nodes
    sets = [set(one.around()) for one in others]
    return next(one for one in first.around() if all(one in around for around in sets))


def _answer(program: Program, found: _NodeFacts, measured: _Measured | None) -> Summary:
    rows = list(_rows(found, measured))
    whole = rows[0]
    rows = [dataclasses.replace(row, share=row.flops / max(whole.flops, 1)) for row in rows]
    label = found.parameters.label
    told = f"{quantity(whole.equations, '')} equations, {quantity(whole.flops, 'FLOP')}"
    count, size = found.parameters.size(frozenset(range(len(found.parameters.avals))))
    if count:
        told += f", {quantity(count, '')} parameters ({label}, {size_text(size)})"
    if whole.kept:
        told += f", {size_text(whole.kept)} kept for the backward pass"
    if measured:
        told += f", {time_text(measured.wall)}, {size_text(measured.memory)} of memory"
    answer = Summary(
        f"summary of {program.name}: {told}",
        rows,
        flops=whole.flops,
        parameters=count,
        parameter_bytes=size,
        kept=whole.kept,
        wall=measured and measured.wall,
        coverage=measured and measured.coverage,
        memory=measured and measured.memory,
    )
    return dataclasses.replace(answer, notes=tuple(_notes(answer, measured)))


def _notes(answer: Summary, measured: _Measured | None) -> Iterator[str]:
    if hidden := answer.hidden:
        yield f"… and {count_of(hidden, 'more row')} in .rows, which take less"
    [whole, *_] = answer.rows
    if any(row.at_most for row in answer.rows):
        yield _AT_MOST
    if whole.endless:
        yield _ENDLESS
    if whole.unknown:
        more = len(whole.unknown) - _MANY
        names = ", ".join(whole.unknown[:_MANY]) + (f" and {more} more" if more > 0 else "")
        yield _UNKNOWN.format(names=names)
    yield from measured.notes if measured else ()


def _rows(found: _NodeFacts, measured: _Measured | None) -> Iterator[SummaryRow]:
    """The rows, each before those in it."""

    def of(node: CallNode, depth: int) -> Iterator[SummaryRow]:
        every = list(node.below())
        own = [one for each in every for one in each.own]
        if not own and depth:  # what holds others, such as a loop
            return
        # Of a branch that does not count for what is around it, its own numbers.
        counted = [one for one in own if one.counted] or own
        cost = Cost.total(one.cost for one in counted)
        leaves = frozenset[int]().union(*(found.leaves.get(one, frozenset()) for one in every))
        numbers, size = found.parameters.size(leaves)
        addresses = [address for one in every for address in one.addresses]
        seconds = at_peak = None
        if measured:
            seconds = sum(measured.seconds.get(one, 0.0) for one in every)
            at_peak = sum(measured.at_peak.get(one, 0) for one in every)
        yield SummaryRow(
            node.name,
            depth,
            node.calls,
            node.iterations,
            numbers,
            size,
            node.shape,
            len(addresses),
            cost.flops,
            0.0,
            sum(one.cost.flops for one in counted if one.backward),
            cost.transcendentals,
            cost.bytes,
            sum(found.kept.get(one, 0) for one in every),
            cost.at_most
            or any(one.chooses for one in every)
            or not all(one.counted for one in own),
            any(one.endless for one in own),
            tuple(sorted(cost.unknown)),
            seconds,
            at_peak,
            node.variable,
            node.line,
            node.code,
            next(iter(addresses), Address()),
            tuple(addresses),
        )
        for child in node.children.values():
            yield from of(child, depth + 1)

    return of(found.tree.root, 0)
