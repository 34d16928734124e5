"""`find_nan`: find the origin of a NaN or an infinity."""

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.count_of import count_of
from taxpr._answers.progress import stage
from taxpr._answers.tables import as_dict
from taxpr._calls.libraries import users_name_of
from taxpr._compat import Array, PyTree
from taxpr._devices.fetched import fetched, is_shared
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._given import refuse_no_flag
from taxpr._hops.silent import silent
from taxpr._keeping.passes import STATS_ONLY, reduced_by
from taxpr._keeping.run import Ran, device_of, reduced, run
from taxpr._keeping.wanted import Wanted, every_value
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._questions.bits import KINDS, NAN, Seen, deciders, kinds, takes
from taxpr._questions.nan_rows import NanRow, Words, counted, in_layers, told
from taxpr._questions.nonfinite import Nonfinite, Origin
from taxpr._questions.remade import Remade
from taxpr._recordings.summary import STATS, Reduction, has_stats
from taxpr._sites.skipped import merged
from taxpr._sites.values import Value, value_at
from taxpr._transforms.question import question
from taxpr._untyped import np


def _bits_of_all(bits: Any) -> Any:
    return np.bitwise_or.reduce(bits, -1)


_BITS = Reduction(kinds, (), has_stats, _bits_of_all)
_MADE_BY = {
    "Gradient of ": "grad",
    "Value and gradient of ": "value_and_grad",
    "Vectorized version of ": "vmap",
}
_MOST = 8  # origins that are told
_NO_DEVICE = (
    "The device of the first such element is not known for {names}: memory did not allow to keep "
    "the values. Give more by memory=."
)
_ENDED = "The run ended with an error: {error}. The rows end before it."


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NanFound(Answer):
    """The answer of `find_nan`: the first row is the first in the order of execution.

    Attributes:
        out: The result of the function; None if an error ended the run.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = 1 / x
        ...     return y
        >>> print(taxpr.find_nan(f)(jnp.ones(2)))
        find_nan of f: all results are finite
    """

    out: Any = None

    _columns = (*(field.name for field in dataclasses.fields(NanRow)), "places")

    def __str__(self) -> str:
        rows = (told(group[0], group[1:]) for group in in_layers(self.rows))
        return "\n".join([self.headline, *rows, *self.notes])

    def listed(self) -> list[Any]:
        """The rows, with one for the same statement of each layer."""
        return [
            {
                **as_dict(group[0]),
                "places": f"×{len(group)}" if len(group) > 1 else "",
                "addresses": [row.address for row in group],
            }
            for group in in_layers(self.rows)
        ]

    def chart(self) -> Chart | None:
        """How many elements of each are not finite."""
        if not self.rows:
            return None
        shares = [int(row.elements.split()[0]) for row in self.rows]
        return Lines({"elements": np.array(shares)}, xlabel="origins in order")


@question
def find_nan(
    fun: Any, *, everywhere: bool = False, memory: float | None = None
) -> Callable[..., NanFound]:
    """Find the first non-finite value that causes a NaN or inf in the result.

    It runs the function once, compiled, with all of its values as further results, through jit,
    loops, branches, `jax.vmap`, custom rules, shard_map, and the backward pass of a gradient. The
    place is an equation with finite operands and a non-finite result. Infinities in constants or
    arguments, such as a -inf mask, are not reported; a NaN computed from them is. If a test turns a
    NaN into an infinite result, as the guard of a sampler does, the NaN is found, too. A non-finite
    value that reaches no result, as one that `jax.numpy.where` does not select, is a note; with
    ``everywhere`` it is a row.

    Args:
        fun: A function of PyTrees of arrays; or a `Program`.
        everywhere: Whether to list each place where non-finite values begin, also places that reach
            no result, such as a proposal that a sampler rejects; with how often that happens, and
            its effect on the results.
        memory: As for `watch`. If it is too little, the first run keeps of each value only whether
            it is finite. If one is not, two more runs keep such values on the host: each is one
            pass on a CPU, else up to 8. The answer is the same; a note says if the host has no room
            either, so that no device is named.

    If a callback of the program raises an error, as solvers of lineax do for a non-finite solution,
    the rows are all places before it, and a note has the error.

    Returns:
        A function of the arguments of ``fun`` that returns a `NanFound`, which is false if there is
        no such place. It has a `NanRow` for each place, in the order of execution.

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
        >>> def climb(x, step):
        ...     proposed = jnp.log(x + step)
        ...     return jnp.where(proposed > x, proposed, x)
        >>> climbed = jax.vmap(climb, (None, 0))
        >>> [row] = taxpr.find_nan(climbed, everywhere=True)(1.0, jnp.array([3.0, -2.0, 5.0])).rows
        >>> print(row.variable, row.elements, "-", row.became)
        proposed 1 of 3 elements, the first at (1,) - rejected: a test saw it, and no result has it
    """
    refuse_no_flag("find_nan", everywhere=everywhere)
    if isinstance(fun, Program):
        return _finding(lambda *args, **kwargs: fun, memory, everywhere)
    refuse_no_function("find_nan", fun)
    traced, name = trace(fun, names=True), _transformed(fun)

    def program_of(*args: PyTree, **kwargs: PyTree) -> Program:
        return dataclasses.replace(traced(*args, **kwargs), name=name)

    return called_as(fun)(_finding(program_of, memory, everywhere))


def _transformed(f: Any) -> str:
    """The name of a function as the user wrote it, such as ``"grad(loss)"``.

    A transformation of JAX has the name of the function, and its own name in the docstring.
    """
    inner, doc = getattr(f, "__wrapped__", None), getattr(f, "__doc__", None) or ""
    if inner is None:
        return users_name_of(f)
    said = doc != getattr(inner, "__doc__", None) and (w for w in _MADE_BY if doc.startswith(w))
    by = next(said or iter(()), None)
    return f"{_MADE_BY[by]}({_transformed(inner)})" if by else _transformed(inner)


def _finding(
    program_of: Callable[..., Program], memory: float | None, everywhere: bool
) -> Callable[..., NanFound]:
    def found(*args: PyTree, **kwargs: PyTree) -> NanFound:
        program = program_of(*args, **kwargs)
        return _Finding(program, program.flat(args, kwargs), memory, everywhere).answer()

    return found


class _Finding:
    """One run, and the answer about it."""

    def __init__(
        self, program: Program, flat: Sequence[Array], memory: float | None, everywhere: bool
    ) -> None:
        self._program, self._flat, self._memory = program, flat, memory
        self._everywhere = everywhere
        self._wanted: dict[str, Wanted] = {}
        every, self._skipped = every_value(program)
        self._also = also = deciders(program.jaxpr)
        for one in every:
            if takes(_dtype(one.value)) or one.value.address in also:
                self._wanted[one.value.address] = one
        self._words = Words(program, self._wanted)
        # Elsewhere what NumPy makes would have to come from the device first.
        on_host = device_of(flat).platform == "cpu" and not any(map(is_shared, flat))
        self._remade = Remade(self._wanted, also if on_host else self._wanted)

    def answer(self) -> NanFound:
        """Run, and look."""
        ran = self._run(self._remade.handed, also=self._remade.others)
        ran = dataclasses.replace(
            ran, kept=self._remade.made(ran.kept, lambda more: self._run(more).kept)
        )
        stage("looking for the first value that is not finite")
        ran = self._exact(ran)
        error = ran.raised.error
        if error is not None:  # what ended the run is of nothing that a result has
            self._everywhere = True
        may_be = [x for x in ran.out if takes(jax.typeof(x).dtype)]
        is_bad = any(fetched(reduced_by(_BITS, [x], 0)[0]).any() for x in may_be)
        seen = self._seen(ran)
        found = Nonfinite(self._program.jaxpr, seen, is_bad or self._everywhere, ran.closed)
        origins = found.origins[:_MOST]
        if self._everywhere:
            origins = found.everywhere(self._words.mapped)
            origins = [one for one in origins if not self._gave_nothing(one.address, ran)]
        needed = {one.address for one in origins}
        needed |= {address for one in origins for address, _ in one.operands if address}
        stage(f"reading {count_of(len(needed), 'value')}")
        ran = self._with_stats(self._with_values(ran, needed), needed)
        rows = [
            self._words.row(
                one, ran.kept, "" if error else self._became(one, found), self._everywhere
            )
            for one in origins
        ]
        notes = [f"Not read: {one}." for one in merged(self._skipped, ran.skipped)]
        notes += list(ran.notes)
        notes += _unsure(found, ran) + self._handed_in(seen, origins)
        notes += self._on_no_device(rows, ran)
        notes += [] if self._everywhere else self._hidden(found)
        what = self._what(rows, found, error)
        notes += [] if error is None else [_ENDED.format(error=_said(error))]
        if not rows and is_bad and error is None:
            outs = enumerate(map(_floats, ran.out))
            rows = [_of_result(k, x) for k, x in outs if np.isnan(x).any()]
            what = "no place found for a NaN in the results"
            if not rows:
                what = "only infinities of constants and arguments in the results"
        out = None if error else self._program.result(ran.out)
        return NanFound(f"find_nan of {self._program.name}: {what}", rows, tuple(notes), out=out)

    def _run(
        self, values: Sequence[Value], reduction: Reduction = _BITS, also: Sequence[Value] = ()
    ) -> Ran:
        given = self._program, self._flat, values, "auto", self._memory, reduction
        return run(*given, also=also, past=True, quickly=True)

    def _exact(self, ran: Ran) -> Ran:
        """Add the elements of non-finite and of deciding values, if only bits were kept."""
        tables = reduced(ran, _BITS)
        if not any(map(np.any, tables.values())):
            return _without_note(ran)
        needed = {at for at, one in self._wanted.items() if self._matters(one, tables)}
        ran = self._with_values(ran, needed)
        if self._left(ran, needed):
            return ran
        return _without_note(ran)

    def _matters(self, one: Wanted, tables: Mapping[str, Any]) -> bool:
        return one.value.address in self._also or np.any(tables.get(one.read.address, 0))

    def _what(
        self, rows: Sequence[NanRow], found: Nonfinite, error: Exception | None = None
    ) -> str:
        if error is not None:
            what = "no value that is not finite"
            if rows:
                what = f"{rows[0].what} in {self._words.short(rows[0].address)}"
            return f"{what}; an error ended the run"
        if not rows:
            return "all values are finite" if self._everywhere else "all results are finite"
        many, reaching = len(rows), len(found.origins)
        what = f"{rows[0].what} in {self._words.short(rows[0].address)}"
        if self._everywhere:
            places = f"; {count_of(many, 'place')}, of them in the results: "
            return what + places + (str(reaching) if reaching else "none")
        return what + (f"; {reaching} places" if reaching > 1 else "")

    def _hidden(self, found: Nonfinite) -> list[str]:
        if not (hidden := found.hidden):
            return []
        names = ", ".join(dict.fromkeys(map(self._words.short, hidden[:3])))
        return [
            f"{len(hidden)} place{'s' * (len(hidden) > 1)} made values that are not finite and "
            f"that no result has: {names}{' …' if len(hidden) > 3 else ''}."
        ]

    def _became(self, origin: Origin, found: Nonfinite) -> str:
        """An origin's effect on the results, in words; empty if they simply have it."""
        if not origin.reached:
            return f"{'rejected: a test saw it, and ' * origin.tested}no result has it"
        times = ""
        if origin.reached < origin.times[0]:
            times = f", of {origin.reached} of {origin.times[0]} times"
        if found.decided and origin.bits & NAN and not found.results & NAN:
            [(address, bits), *more] = found.decided.items()
            kinds = " and ".join(name for one, name in KINDS.items() if bits & one)
            where = "" if more else f": {kinds} in {self._words.short(address)}"
            return f"the results are not finite by a test of it{times}{where}"
        return f"in the results{times}" if self._everywhere else ""

    def _seen(self, ran: Ran) -> dict[str, Seen]:
        tables = reduced(ran, _BITS)
        return {
            address: Seen(
                kept.axes, tables[one.read.address], len(kept.shape), kept.value, kept.fired
            )
            for address, one in self._wanted.items()
            if (kept := ran.kept.get(one.read.address)) is not None  # else it was not looked into
        }

    def _handed_in(self, seen: Mapping[str, Seen], origins: Sequence[Origin]) -> list[str]:
        """Notes on arguments that are not finite, if something else began, too."""
        begun = {one.address for one in origins}
        bad = [
            address
            for address, one in seen.items()
            if np.any(one.table) and Address(address).is_argument and address not in begun
        ]
        if not begun or not bad:
            return []
        names = ", ".join(map(self._words.short, bad[:3]))
        return [f"Arguments that were not finite: {names}{' …' if len(bad) > 3 else ''}."]

    def _on_no_device(self, rows: Sequence[NanRow], ran: Ran) -> list[str]:
        """A note on rows without a device since their values were not kept."""
        arrays: Sequence[Any] = self._flat  # some may be of NumPy
        if all(len(x.devices()) < 2 for x in arrays if isinstance(x, jax.Array)):
            return []
        left = [one.address for one in rows if not one.device]
        reads = ((one, self._wanted[one].read.address) for one in left)
        names = [self._words.short(one) for one, at in reads if ran.kept[at].value is None]
        return [_NO_DEVICE.format(names=", ".join(names))] if names else []

    def _gave_nothing(self, address: str, ran: Ran) -> bool:
        """Whether a callback did not give a value, since an error had ended the run."""
        if not ran.raised.callbacks:
            return False
        eqn = value_at(self._program.jaxpr, address).eqn
        return eqn is not None and id(eqn.params.get("callback")) in ran.raised.callbacks

    def _with_values(self, ran: Ran, addresses: Container[str]) -> Ran:
        """Add these values, by another run if they were not kept and it is possible."""
        reads = self._left(ran, addresses)
        quiet = silent(self._program.jaxpr)
        if not reads or _compat.open_jaxpr(quiet).effects:
            return ran
        again = dataclasses.replace(self._program, jaxpr=quiet)
        try:
            more = run(again, self._flat, reads, "host", self._memory, past=True, quickly=True)
        except ArgumentError:  # the host has no room
            return ran
        return dataclasses.replace(ran, kept={**ran.kept, **more.kept})

    def _with_stats(self, ran: Ran, addresses: Container[str]) -> Ran:
        """Add statistics of values that were not kept."""
        if not (reads := self._left(ran, addresses)):
            return ran
        more = self._run(reads, STATS)
        return dataclasses.replace(ran, kept={**ran.kept, **more.kept})

    def _left(self, ran: Ran, addresses: Container[str]) -> list[Value]:
        """The values of these addresses that were not kept, each once."""
        reads = {
            one.read.address: one.read
            for address, one in self._wanted.items()  # in an order that all processes have
            if address in addresses
            and (kept := ran.kept.get(one.read.address)) is not None
            and kept.value is None
        }
        return list(reads.values())


def _without_note(ran: Ran) -> Ran:
    """The same without the note that only statistics were kept: the answer lacks nothing by it."""
    notes = tuple(one for one in ran.notes if not one.startswith(STATS_ONLY))
    return dataclasses.replace(ran, notes=notes)


def _said(error: Exception) -> str:
    """The first paragraph of an error, in one line."""
    first = " ".join(str(error).strip().partition("\n\n")[0].split())
    return f"{type(error).__name__.lstrip('_')}: {first}".rstrip(":. ")


def _unsure(found: Nonfinite, ran: Ran) -> list[str]:
    """Why another place than the first may have caused the results' NaN."""
    if found.places < 2:
        return []
    reasons: list[str] = []
    if any(kept.value is None and np.any(kept.table) for kept in ran.kept.values()):
        reasons.append("memory did not allow to tell the elements of values apart")
    if found.guessed:
        names = ", ".join(sorted(found.guessed))
        reasons.append(f"it is not known which inputs of {names} made which elements")
    return [f"The first place may not have reached the results: {one}." for one in reasons]


def _of_result(number: int, x: Any) -> NanRow:
    """The row of a NaN in a result without a known place, as for a literal."""
    elements = counted(np.argwhere(np.isnan(x)), x)
    address, name = f"out{number}", f"result {number}"
    return NanRow("NaN", name, "", "", (), "", "", (), elements, False, (), address)


def _floats(value: Any) -> Any:
    if _compat.is_extended(value.dtype):
        return np.zeros(())
    value = fetched(value)
    return np.abs(value) if value.dtype.kind == "c" else value.astype(np.float64)


def _dtype(value: Value) -> Any:
    aval: Any = value.aval
    return aval.dtype
