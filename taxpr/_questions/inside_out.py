"""Between the inside and the outside of an equation that holds a jaxpr: loops, devices, calls.

Arrays have leading axes for the loops and mesh axes around, of their length or 1.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._recordings.axes import Level
from taxpr._untyped import np

_OF_EACH = ("x", "y")  # the roles of what has an axis for the iterations, outside


def fitted(array: Any, like: Any) -> Any:
    """An array of bits, with any of an axis where another one does not tell its places apart."""
    gone = tuple(k for k, n in enumerate(like.shape) if n == 1 < array.shape[k])
    return np.bitwise_or.reduce(array, gone, keepdims=True) if gone else array


class Call:
    """A jaxpr that runs once where its equation does: inside and outside are alike."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def enter(self, x: Any, kind: str, number: int) -> Any:
        """An operand (``"in"``) or result (``"out"``) as it is inside."""
        del kind, number
        return x

    def leave(self, x: Any, kind: str, number: int) -> Any:
        """An input or output of the jaxpr as it is outside."""
        del kind, number
        return x


class Devices(Call):
    """The body of a shard_map, which each device runs with its part."""

    def __init__(self, eqn: JaxprEqn, level: Level) -> None:
        self._sizes = _compat.manual_sizes(eqn)
        self._specs = {"in": eqn.params["in_specs"], "out": eqn.params["out_specs"]}
        self._n = len(level)
        super().__init__((*level, *((f"mesh {name}", n) for name, n in self._sizes.items())))

    def _axes(self, kind: str, number: int, x: Any, lead: int) -> list[list[str]]:
        """For each axis of a value the mesh axes that part it."""
        entries = _compat.spec_entries(self._specs[kind][number])
        names = [[one] if isinstance(one, str) else list(one or ()) for one in entries]
        names = [[name for name in one if name in self._sizes] for one in names]
        return names + [[]] * (x.ndim - lead - len(names))

    def enter(self, x: Any, kind: str, number: int) -> Any:
        """Each device's part."""
        shape, order = list(x.shape[: self._n]), dict.fromkeys(self._sizes, -1)
        own: list[int] = []
        for n, names in zip(x.shape[self._n :], self._axes(kind, number, x, self._n), strict=True):
            for name in names if n > 1 else ():
                order[name] = len(shape)
                shape.append(self._sizes[name])
                n //= self._sizes[name]
            own.append(len(shape))
            shape.append(n)
        new = [at for at in order.values() if at >= 0]
        x = x.reshape(shape).transpose((*range(self._n), *new, *own))
        return np.expand_dims(x, [self._n + k for k, at in enumerate(order.values()) if at < 0])

    def leave(self, x: Any, kind: str, number: int) -> Any:
        """All parts together."""
        first, names = self._n + len(self._sizes), list(self._sizes)
        parts = self._axes(kind, number, x, first)
        used = [name for one in parts for name in one]
        gone = tuple(self._n + k for k, name in enumerate(names) if name not in used)
        x = np.bitwise_or.reduce(x, gone)
        names = [name for name in names if name in used]
        lead = x.shape[: self._n]
        own = x.shape[self._n + len(names) :]
        x = np.broadcast_to(x, (*lead, *(self._sizes[name] for name in names), *own))
        order, shape = list(range(self._n)), list(lead)
        for k, (n, of) in enumerate(zip(own, parts, strict=True)):
            order += [self._n + names.index(name) for name in of] + [self._n + len(names) + k]
            shape.append(n * math.prod(self._sizes[name] for name in of))
        return x.transpose(order).reshape(shape)


class Loop(Call):
    """The body of a loop.

    Args:
        name: The address of the loop, which is the name of its axis.
        ran: Which iterations ran, with the leading axes of the level and an axis for the loop, and
            after it axes for the batch of a batched condition, the first of each carried value.
        level: The level outside.
        roles: The roles of inputs and outputs, by ``"in"`` and ``"out"``.
        reverse: Whether it goes from the last iteration to the first.
    """

    def __init__(
        self, name: str, ran: Any, level: Level, roles: Mapping[str, Sequence[str]], reverse: bool
    ) -> None:
        self._axis, self._roles = len(level), roles
        self.length = ran.shape[self._axis]
        super().__init__((*level, (name, self.length)))
        self._step = -1 if reverse else 1
        self._ran = ran
        self._last = ran & ~self._moved(ran, -self._step)
        self._first = np.zeros(ran.shape, bool)
        at = (*(slice(None),) * self._axis, -1 if reverse else 0)
        if self.length:
            self._first[at] = ran[at]
        self._idle = ~ran.any(self._axis)

    def enter(self, x: Any, kind: str, number: int) -> Any:
        """An operand or result as each iteration has it, with an axis for the loop."""
        return x if self._roles[kind][number] in _OF_EACH else np.expand_dims(x, self._axis)

    def leave(self, x: Any, kind: str, number: int) -> Any:
        """An input or output of the body as it is outside: the bits of all iterations together."""
        if self._roles[kind][number] in _OF_EACH:
            return x
        return np.bitwise_or.reduce(x, self._axis)

    def first(self, x: Any) -> Any:
        """The bits of the first iteration, and zeros for the others."""
        return _where(self._first, x)

    def in_batch(self, x: Any, lead: int, mapped: Sequence[int]) -> Any:
        """The bits of a value without batch elements whose loop had ended.

        Args:
            x: The bits of a value inside.
            lead: The number of its leading axes.
            mapped: The axes that `jax.vmap` has put into the value, the outermost last.
        """
        n = len(self.level)
        # A condition has the axis of the outermost first.
        axes = [lead + k for k in reversed(mapped)][: self._ran.ndim - n]
        if not axes or len(axes) < self._ran.ndim - n:
            return x
        order = np.argsort(axes)
        ran = self._ran.transpose((*range(n), *(n + int(k) for k in order)))
        shape = [*ran.shape[:n], *(1,) * (x.ndim - n)]
        for k, size in zip(sorted(axes), ran.shape[n:], strict=True):
            shape[k] = size
        return np.where(ran.reshape(shape), x, np.zeros((), x.dtype))

    # `handed_on` and `marked_outs` are each other's transpose, as are `result` and `marked_init`:
    # the walk back follows the same connections as the walk forwards. An iteration that did not run
    # hands nothing on, and a loop none of which ran returns what it began with.

    def handed_on(self, init: Any, outs: Any) -> Any:
        """The carry of each iteration: what the loop began with, or the one before handed on."""
        handed = self._moved(_where(self._ran, outs), self._step)
        return handed | _where(self._first, np.expand_dims(init, self._axis))

    def result(self, init: Any, outs: Any) -> Any:
        """The result of a carry: from the last iteration that ran, or the initial value."""
        last = np.bitwise_or.reduce(_where(self._last, outs), self._axis)
        return last | _where(self._idle, init)

    def marked_outs(self, result: Any, ins: Any) -> Any:
        """Backwards: a carry's marks after an iteration, from the result's and the next one's."""
        mark = _where(self._ran, self._moved(ins, -self._step))
        return mark | _where(self._last, np.expand_dims(result, self._axis))

    def marked_init(self, result: Any, ins: Any) -> Any:
        """Backwards: the marks of the initial carry."""
        first = np.bitwise_or.reduce(_where(self._first, ins), self._axis)
        return first | _where(self._idle, result)

    def _moved(self, x: Any, by: int) -> Any:
        """The bits of each iteration moved to the next or the one before."""
        x = np.moveaxis(x, self._axis, 0)
        x = np.broadcast_to(x, (self.length, *x.shape[1:]))
        out = np.zeros_like(x)
        if by > 0:
            out[1:] = x[:-1]
        else:
            out[:-1] = x[1:]
        return np.moveaxis(out, 0, self._axis)


def _where(mask: Any, x: Any) -> Any:
    """``x`` where a mask of its first axes is true, and zero elsewhere."""
    wide = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    return np.where(wide, x, np.zeros((), x.dtype))
