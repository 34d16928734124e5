"""`check_grad`: find the derivative rule that is wrong."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._answers.progress import Progress, Tells
from taxpr._compat import Array, PyTree
from taxpr._compiled.attribution import Attributions
from taxpr._derivatives.equations import (
    DerivedCall,
    Differentiated,
    Given,
    Iteration,
    Reaching,
    ruled_calls,
    single_equations,
)
from taxpr._derivatives.finite_differences import ComparedDerivative, NotRunError, compare, is_float
from taxpr._derivatives.rows import GradCheck, GradRow
from taxpr._errors import ArgumentError, refuse_no_function, told_as
from taxpr._places import place_text
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._sites.values import values_of
from taxpr._source.files import is_library_file
from taxpr._transforms.question import question
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

_LEAST = 4  # bytes of a float
_NARROW = (
    "{what} was not compared: it casts to floats of less than 32 bits, which are too coarse for "
    "finite differences. With casts to float32 in their place it is."
)
_ROUNDED = (
    "The whole casts to float32, and is compared in that precision, which only shows larger faults."
)


@question
def check_grad(
    fun: Any, *, memory: float | None = None, progress: Tells = None
) -> Callable[..., GradCheck]:
    """Find the derivative rule that is wrong, if `jax.test_util.check_grads` fails.

    A run records the operands of each call that has a rule by `jax.custom_jvp` or `jax.custom_vjp`.
    The rule is then compared with finite differences in random directions, for each operand that a
    derivative goes through, in 64 bits if ``fun`` allows it. The derivative of the whole is
    compared, too. If only that is wrong, single equations are compared: this finds a
    `jax.lax.stop_gradient`.

    Args:
        fun: A function of PyTrees of arrays. It is differentiated with respect to all floats among
            its arguments: ``lambda w: loss(w, x)`` leaves out ``x``. Or a `Program`, whose types
            are fixed.
        memory: The bytes that the values may take at a time, as for `watch`.
        progress: Called with the number of calls done and the total; False says nothing. None
            writes to stderr after one second.

    Returns:
        A function of the arguments of ``fun`` that returns a `GradCheck`, with a `GradRow` for each
        wrong derivative, in the order of the program.

    Raises:
        ArgumentError: If no argument is an array of floats.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> @jax.custom_vjp
        ... def scaled(x, w):
        ...     return x * w
        >>> def fwd(x, w):
        ...     return x * w, (x, w)
        >>> def bwd(kept, g):
        ...     x, w = kept
        ...     return g * w, g * w
        >>> scaled.defvjp(fwd, bwd)
        >>> def loss(x, w):
        ...     h = jnp.tanh(x)
        ...     out = scaled(h, w)
        ...     return out.sum()
        >>> [row] = taxpr.check_grad(loss)(jnp.arange(3.0), jnp.ones(3)).rows
        >>> row.rule, row.operand, row.code
        ('bwd', 'w', 'out = scaled(h, w)')
    """
    if not isinstance(fun, Program):
        refuse_no_function("check_grad", fun)

    def answer(args: PyTree, kwargs: PyTree, note: str = "") -> GradCheck:
        program = fun if isinstance(fun, Program) else trace(fun, names=True)(*args, **kwargs)
        flat = [_jnp.asarray(x) if isinstance(x, float) else x for x in program.flat(args, kwargs)]
        with told_as("watch", "check_grad"):
            return _Check(program, flat, memory, progress).answer(note)

    def checked(*args: PyTree, **kwargs: PyTree) -> GradCheck:
        if isinstance(fun, Program):
            return answer(args, kwargs)
        try:
            with _compat.enable_x64():
                return answer(*_compat.map_leaves(_as_wide, (args, kwargs)))
        except Exception as error:  # of a function that knows one precision only
            note = (
                "Compared in the precision of its arguments, which only shows larger faults: "
                f"with arguments of 64 bits it raises {type(error).__name__}: {_first(error)}"
            )
        return answer(args, kwargs, note)

    return called_as(fun)(checked)


class _Check:
    def __init__(
        self, program: Program, flat: Sequence[Array], memory: float | None, progress: Tells
    ) -> None:
        self._program, self._flat = program, flat
        self._memory, self._progress = memory, progress
        self._derived = Differentiated(program).found
        self._floats = {
            one.address: _bytes(one.aval)
            for one in values_of(program.jaxpr)
            if self._derived.get(one.address, False)
        }
        self._words = Attributions(program)
        held = () if program.named is None else program.variables()
        self._names = {f"in{k}": name for k, name in enumerate(program.in_names)} | {
            one.address: one.text for one in sorted(held, key=lambda one: not one.path)
        }
        self._notes: list[str] = []
        self._is_coarse = False  # whether the whole is compared in a narrower float
        self._of_libraries: set[str] = set()
        count = len(program.outvars)
        # What objects hold afterwards is no result of which one asks the derivative.
        states: list[int] = jax.tree.leaves(program.states_after(range(count)))
        self._results = [k for k in range(count) if k not in states]
        self._reaching = Reaching(program, [k in self._results for k in range(count)]).found
        if not any(map(is_float, flat)):
            raise ArgumentError(
                f"check_grad: no argument of {program.name} is an array of floats of 32 or 64 bits."
            )

    def answer(self, note: str) -> GradCheck:
        """All wrong derivatives."""
        calls = ruled_calls(self._program)
        rows, complete = self._rows(calls)
        agrees = self._whole(any(one.reverse for one in calls)) if complete else None
        hides = bool(agrees and rows and self._is_coarse)  # it agrees in spite of these rows
        if hides:
            agrees = None
        if agrees:
            own = [row for row in rows if row.address not in self._of_libraries]
            if len(own) < len(rows):
                left = count_of(len(rows) - len(own), "difference")
                self._notes.append(
                    f"Left out, since the whole agrees: {left} in rules of libraries."
                )
            rows = own
        if complete and not rows and agrees is False:
            rows, complete = self._rows(single_equations(self._program))
            self._notes.append(
                "The derivative of the whole is wrong, and no rule of yours is."
                if rows
                else "The derivative of the whole is wrong, and nothing in it that can be compared "
                "alone."
            )
        if note:
            self._notes.append(note)
        told = {
            True: "agrees with finite differences",
            False: "does not agree with finite differences",
            None: "is too coarse to tell" if hides else "was not compared",
        }[agrees]
        headline = (
            f"derivatives of {self._program.name}: {len({row.address for row in rows})} wrong, of "
            f"{count_of(len(calls), 'rule')} called; the whole {told}"
        )
        notes = tuple(dict.fromkeys(filter(None, self._notes)))
        return GradCheck(headline, rows, notes, complete, agrees=agrees)

    def _rows(self, calls: Sequence[DerivedCall]) -> tuple[list[GradRow], bool]:
        chosen = [(one, self._which(one)) for one in calls]
        chosen = [(one, which) for one, which in chosen if which and self._of(one)]
        given = Given(self._program, self._flat, [one for one, _ in chosen], self._memory)
        rows: list[GradRow] = []
        with Progress("check_grad", len(chosen), self._progress) as steps:
            for one, which in steps.over(chosen):
                rows += self._of_call(one, which, given)
        self._notes.append(steps.note)
        return rows, not steps.stopped

    def _which(self, call: DerivedCall) -> set[int]:
        """The operands that a derivative goes through."""
        return {k for k, x in enumerate(call.operands) if self._derived.get(str(x), False)}

    def _of(self, call: DerivedCall) -> set[int]:
        """The results that a derivative comes back to, as numbers among the used results."""
        used = self._reaching.get(call.address, ())
        kept = [x for x in range(len(used)) if not _compat.is_dropped(call.eqn.outvars[x])]
        return {number for number, k in enumerate(kept) if used[k]}

    def _of_call(self, call: DerivedCall, which: set[int], given: Given) -> list[GradRow]:
        rows: list[GradRow] = []
        told: set[tuple[int, int]] = set()
        known = ran = False
        own, inside = f"{call.address}.", f"{call.address}/"
        narrowest = self._narrowest(at for at in self._floats if at.startswith((own, inside)))
        if narrowest < _LEAST:
            self._notes.append(_NARROW.format(what=self._said(call)))
            return rows
        for iteration, operands in given.of(call):
            ran = True
            try:
                function, of = call.function(), self._of(call)
                found = list(compare(function, operands, call.reverse, which, of, narrowest))
            except NotRunError as error:  # it needs the axes of devices around it, say
                self._notes.append(f"{self._said(call)} cannot be run alone: {_first(error)}")
                return rows
            known = known or any(one.slopes for one in found)
            for one in found:
                if one.wrong and (one.operand, one.result) not in told:
                    told.add((one.operand, one.result))
                    rows.append(self._row(call, one, iteration))
        if not ran:
            self._notes.append(
                f"{self._said(call)} was not compared: it did not run, or memory did not suffice."
            )
        elif not known:
            self._notes.append(
                f"{self._said(call)} cannot be compared where it is: finite differences from both "
                "sides are not the same, or not finite."
            )
        return rows

    def _narrowest(self, addresses: Iterable[Address]) -> int:
        """The bytes of the narrowest floats that a derivative goes through."""
        return min((self._floats[at] for at in addresses), default=8)

    def _said(self, call: DerivedCall) -> str:
        at = self._words.of(call.address)
        return f"`{at.code}` ({at.line})" if at.code else str(call.address)

    def _row(self, call: DerivedCall, one: ComparedDerivative, iteration: Iteration) -> GradRow:
        kept = [k for k, x in enumerate(call.eqn.outvars) if not _compat.is_dropped(x)]
        result = kept[one.result]
        at = self._words.of(call.address.value(result))
        rule, file, line = (*_compat.rule_places(call.eqn)[-1:], (call.eqn.primitive.name, "", 0))[
            0
        ]
        if file and is_library_file(file, call.eqn):
            self._of_libraries.add(str(call.address))
        names = (self._names.get(at, "") for at in call.addresses(one.operand))
        return GradRow(
            rule,
            place_text(file, line),
            at.function.replace(".<locals>", ""),
            at.line,
            at.code,
            at.variable,
            next(filter(None, names), f"operand {one.operand}"),
            result,
            one.worst.expected,
            one.worst.found,
            one.hint,
            iteration.loops,
            str(call.address),
            iteration.device,
            iteration.process,
        )

    def _whole(self, reverse: bool) -> bool | None:
        """Whether the derivative of the program agrees with finite differences."""
        every = _compat.jaxpr_as_fun(self._program.jaxpr)
        results = self._results

        def run(*flat: Any) -> list[Any]:
            outs = every(*flat)
            return [outs[k] for k in results]

        which = [k for k, x in enumerate(self._flat) if is_float(x)]
        narrowest = self._narrowest(self._floats)
        if narrowest < _LEAST:
            self._notes.append(_NARROW.format(what="The whole"))
            return None
        if narrowest < max(self._flat[k].dtype.itemsize for k in which):
            self._is_coarse = True
            self._notes.append(_ROUNDED)
        for mode in (reverse, not reverse):  # a while loop has one of them, and so has a custom_vjp
            known = False
            try:
                for one in compare(run, self._flat, mode, which, narrowest=narrowest):
                    known = known or bool(one.slopes)
                    if one.wrong:
                        return False
            except NotRunError as error:
                self._notes.append(f"The whole cannot be differentiated: {_first(error)}")
                continue
            self._notes = [one for one in self._notes if not one.startswith("The whole cannot")]
            if known:
                return True
            self._notes.append(
                "The whole cannot be compared where it is: finite differences from both sides are "
                "not the same, or not finite."
                if any(is_float(self._program.out_avals[k]) for k in results)
                else "No result is a float of 32 or 64 bits, so the whole has no derivative."
            )
            return None
        return None


def _as_wide(x: Any) -> Any:
    narrow = hasattr(x, "dtype") and _jnp.issubdtype(x.dtype, _jnp.floating)
    return _jnp.asarray(x, np.float64) if narrow else x


def _bytes(aval: Any) -> int:
    return aval.dtype.itemsize


def _first(error: Exception) -> str:
    """An error's message in one line; if it holds a traceback, the last line."""
    lines = [*filter(str.strip, str(error).splitlines())] or [type(error).__name__]
    return lines[-1 if lines[0].endswith("Traceback (most recent call last):") else 0]
