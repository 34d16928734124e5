"""Rules on repeated work: equal computations, and loops that Python unrolled."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._answers.count_of import count_of
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op
from taxpr._hops.table import nested_jaxprs
from taxpr._source.statements import Statement

# The rule's text has both numbers.
_LEAST = 8  # iterations of a loop that Python unrolled
_EQUATIONS = 64  # of all of them

_linalg: Any = jax.lax.linalg
# What takes long. Of other equal equations the compiler keeps one.
_COSTLY: tuple[Any, ...] = (
    jax.lax.dot_general_p,
    jax.lax.conv_general_dilated_p,
    jax.lax.sort_p,
    jax.lax.fft_p,
    jax.lax.scan_p,
    jax.lax.while_p,
    *_compat.random_bits,
    *_compat.callbacks,
    *(getattr(_linalg, name) for name in dir(_linalg) if name.endswith("_p")),
)


def computed_twice(program: Examined) -> Iterator[Suspicion]:
    """The same costly equation of the same operands, in one level."""
    for level in program.levels:
        if not level.users:
            continue
        numbers = _ValueNumbers()
        for ops in numbers.equal(level):
            first = ops[0]
            calls = {_parting(first, op) for op in ops[1:]} - {None}
            # What a library does twice within one call of the user's is its own affair.
            if not calls and not all(op.is_users for op in ops):
                continue
            inner = min((depth for depth, _ in filter(None, calls)), default=0)
            others = [text for depth, text in sorted(filter(None, calls)) if depth == inner]
            statement = first.statements[inner]
            times = "twice" if len(ops) == 2 else f"{len(ops)} times"
            where = f", also by {' and '.join(others[:2])}" if others else ""
            yield Suspicion(
                f"`{statement.expression or statement.text}` computes the same {times}{where}.",
                first.statements[inner:],
                first.address,
                program.name(level, first.outs[0]) if first.outs and not inner else "",
                _SPLIT if first.eqn.primitive in _compat.random_bits else "",
            )


_SPLIT = (
    "Both have the same random numbers: split the key, and use each part once "
    "(keep it as it is where they shall be equal)."
)


def _parting(first: Op, other: Op) -> tuple[int, str] | None:
    """The depth where the calls of two equations part, and the other's call; else None.

    The number counts from the innermost statement of the first.
    """
    pairs = zip(reversed(first.statements), reversed(other.statements), strict=False)
    for k, (one, two) in enumerate(pairs):
        if (one.place, one.part) != (two.place, two.part):
            text = f"`{two.expression or two.text}` in line {two.line}"
            return len(first.statements) - 1 - k, text
    return None


class _ValueNumbers:
    """Numbers of values; two have the same if they are computed in the same way."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def equal(self, level: Level) -> list[list[Op]]:
        """Costly equations of a level that compute the same."""
        number: dict[int, object] = {}
        for value, literal in level.literals.items():
            number[value] = "literal", str(level.avals[value]), repr(literal)
        for value, const in level.consts.items():
            number[value] = "const", id(const)
        groups: dict[object, list[Op]] = {}
        for op in level.ops:
            if op.eqn.effects or _compat.is_recomputed(op.eqn):
                continue
            key = self._of(op.eqn, tuple(number.get(n, n) for n in op.ins))
            for k, out in enumerate(op.outs):
                number[out] = key, k
            if op.eqn.primitive in _COSTLY and not op.backward:
                groups.setdefault(key, []).append(op)
        return [ops for ops in groups.values() if len(ops) > 1]

    def _of(self, eqn: Any, ins: tuple[object, ...]) -> int:
        params = tuple((name, self._param(one)) for name, one in sorted(eqn.params.items()))
        key = "eqn", eqn.primitive, params, ins
        return self._known.setdefault(key, len(self._known))

    def _param(self, param: Any) -> object:
        if _compat.is_jaxpr(param):
            return self._jaxpr(param)
        if issubclass(type(param), (tuple, list)):
            return tuple(map(self._param, param))
        try:
            hash(param)
        except TypeError:
            return id(param)
        return param

    def _jaxpr(self, stored: Any) -> int:
        """A number for the computation of a jaxpr, whatever its variables are called."""
        inner = _compat.open_jaxpr(stored)
        at: dict[Any, object] = {var: ("in", k) for k, var in enumerate(inner.invars)}
        consts: list[Any] = list(_compat.consts_of(stored))
        for k, var in enumerate(inner.constvars):
            at[var] = ("const", id(consts[k]) if k < len(consts) else k)

        def read(atom: Any) -> object:
            return (
                ("literal", str(atom.aval), repr(atom.val))
                if _compat.is_literal(atom)
                else (at[atom])
            )

        for eqn in inner.eqns:
            key = self._of(eqn, tuple(map(read, eqn.invars)))
            at.update((var, (key, k)) for k, var in enumerate(eqn.outvars))
        types = tuple(str(var.aval) for var in inner.invars)
        key = "jaxpr", types, tuple(map(read, inner.outvars))
        return self._known.setdefault(key, len(self._known))


def unrolled_loop(program: Examined) -> Iterator[Suspicion]:
    """A Python loop that leaves the same equations behind for each iteration."""
    for level in program.levels:
        if level.users:
            said: set[object] = set()
            for depth in range(3):
                yield from _unrolled(level, depth, said)


def _unrolled(level: Level, depth: int, said: set[object]) -> Iterator[Suspicion]:
    """The repeated ones among the Python loops with ``depth`` others around them."""
    of_loop: dict[tuple[object, ...], list[tuple[Op, Statement]]] = {}
    for op in level.ops:
        if op.backward:
            continue
        # The outermost function that loops comes last.
        loops = [(one, loop) for one in reversed(op.statements) for loop in one.loops]
        around = [(one.file, loop[1]) for one, loop in loops]
        if len(loops) > depth and said.isdisjoint(around[:depth]):
            of_loop.setdefault(tuple(around[: depth + 1]), []).append((op, loops[depth][0]))
    for around, found in of_loop.items():
        keys = [_key(op) for op, _ in found]
        period = _period(keys)
        times = len(keys) // period
        if times < _LEAST or len(keys) < _EQUATIONS:
            continue
        said.add(around[-1])
        op, statement = found[0]
        heads = (text for text, place in statement.loops if (statement.file, place) == around[-1])
        yield Suspicion(
            f"`{next(heads)}` leaves {count_of(period, 'equation')} {times} times.",
            op.statements[op.statements.index(statement) :],
            op.address,
        )


def _key(op: Op) -> object:
    results = tuple(str(var.aval) for var in op.eqn.outvars)
    inner = tuple(len(_compat.open_jaxpr(one.stored).eqns) for one in nested_jaxprs(op.eqn))
    return op.eqn.primitive, results, inner, op.statements[0].part


def _period(keys: Sequence[object]) -> int:
    """The shortest period of a sequence, which may begin and end within a period."""
    # The failure function of Knuth, Morris and Pratt: how much of the beginning ends here.
    fits = [0] * len(keys)
    k = 0
    for i in range(1, len(keys)):
        while k and keys[i] != keys[k]:
            k = fits[k - 1]
        k += keys[i] == keys[k]
        fits[i] = k
    return len(keys) - fits[-1]
