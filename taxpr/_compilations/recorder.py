"""`Recorder`: takes each trace and compile, and finds why there was one."""

import dataclasses
import threading
from collections.abc import Hashable
from types import FrameType
from typing import Any

from taxpr import _compat
from taxpr._calls.libraries import users_name_of
from taxpr._compat import JittedCall, Stage
from taxpr._compilations.as_called import as_called
from taxpr._compilations.causes import CURES, CallChange, changes
from taxpr._compilations.history import CompileHistory, KnownFunction, changed_object, inner
from taxpr._compilations.signature import Signature, signature_of
from taxpr._compilations.stale import Seen, seen_by
from taxpr._errors import name_of
from taxpr._places import place_text
from taxpr._source.files import is_library_file
from taxpr._source.statements import statements_in
from taxpr._untyped import jax as _jax

_ORDER = "trace", "lower", "compile"
_MOST_OPEN = 64  # rows of which the next stage may still come

FIRST = "first call"
UNKNOWN = "unknown"
CLEARED = "cleared caches"
OUTSIDE = "outside of jit"
FAILED = "an error before"
EARLIER = "another call before"
_NEW_OBJECT = (
    "Call jax.jit once, outside of the loop or function, and keep what it returns: what it has "
    "compiled it finds by the object that it was given."
)
_FIXES = {
    **CURES,
    OUTSIDE: "It runs outside of jax.jit, where JAX compiles each operation for itself, and a loop "
    "anew each time: put jax.jit around the function that has it.",
    CLEARED: "Call jax.clear_caches, or clear_cache of the function, less often.",
    FAILED: "The same call raised while it was traced, so nothing was kept of it.",
    EARLIER: "It was compiled before somebody asked, for a call with other arguments. Ask before "
    "its first call, to see which.",
    UNKNOWN: "The same call was compiled before: its entry may have been dropped because there "
    "were too many, or clear_cache was called. Or there was no call, as for .compile() "
    "ahead of time.",
    FIRST: "",
}


@dataclasses.dataclass(frozen=True)
class CompileRow:
    """A trace or compile of a jitted function, and its cause.

    Attributes:
        function: The function.
        cause: Why, such as ``"shape"`` or ``"weak type"``; ``"first call"`` for the first one.
        argument: The argument that differs, with its path: ``"batch['mask']"``. The name of a flag.
        before: Its value or type in the most similar earlier call.
        now: Its value or type in this call.
        stages: The stages that ran: ``"trace"``, ``"lower"``, ``"compile"``.
        seconds: How long that took.
        line: The line that made the call.
        code: The statement there.
        fix: How to avoid it.
        more: Further changes; the cause alone would have been enough.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> double = taxpr.why_compiled(jax.jit(lambda x: x * 2))
        >>> _ = double(1.0), double(jnp.float32(1)), double(jnp.float32(2))
        >>> _, row = double.compiles.rows
        >>> row.cause, row.argument, row.before
        ('weak type', 'x', 'float32[] (a Python float, weak type)')
    """

    function: str
    cause: str
    argument: str
    before: str
    now: str
    stages: tuple[str, ...]
    seconds: float
    line: str
    code: str
    fix: str
    more: tuple[CallChange, ...] = ()


@dataclasses.dataclass
class Entry:
    """A row that is being made.

    Attributes:
        known: The function.
        eager: Whether it is an operation of JAX that the user's program runs outside of jit.
        row: The row as far as it is known.
        key: The number of its call.
        signature: JAX's cache key for it; None without a call.
        failed: Whether it raised while it was traced, so that nothing is compiled.
        seen: The values of its variables from outside when it was traced.
    """

    known: KnownFunction
    eager: bool
    row: CompileRow
    key: int
    signature: Signature | None
    failed: bool = False
    seen: Seen | None = None

    def takes(self, kind: str, key: int, name: str) -> bool:
        """Whether a stage of a call belongs to the row, as the next one."""
        last = self.row.stages[-1:] or ("trace",)
        # A later call may have the number of one that ended with an error.
        if (self.key, self.row.function) != (key, name):
            return False
        return _ORDER.index(kind) > _ORDER.index(last[0])

    def add(self, stage: Stage) -> None:
        """Take a stage."""
        stages = (*self.row.stages, stage.kind)
        spent = self.row.seconds + stage.seconds
        self.row = dataclasses.replace(self.row, stages=stages, seconds=spent)
        fun = self.known.fun()
        if stage.kind == "trace" and not self.eager and fun is not None:
            self.seen = seen_by(fun)


class Recorder:
    """Notes each trace and compile of this process, for all contexts that are open."""

    def __init__(self) -> None:
        self.logs: list[list[Entry]] = []
        self.lock = threading.RLock()
        self.failed: list[str] = []
        self._history = CompileHistory()
        self._open: list[Entry] = []
        self._probed: set[Hashable] = set()
        self._probing = False

    def found(self, fun: Any, call: JittedCall | None) -> None:
        """Note that a function was compiled before: a call compiled nothing.

        Args:
            fun: The function.
            call: Its call; None if its arguments are not known.
        """
        with self.lock:
            known, _ = self._history.of(fun, name_of(fun), "")
            known.earlier = True
            if call is not None and not (known.calls or known.dropped):
                known.add(signature_of(call))

    def hear(self, stage: Stage) -> None:
        """Called after each trace and compile."""
        with self.lock:
            if not self.logs or self._probing:
                return
            try:
                self._take(stage)
            except Exception as error:  # the user's program goes on
                self.failed.append(f"{stage.name}: {type(error).__name__}: {error}")

    def drop(self, fun: object = None) -> None:
        """Note that a function's compiled programs, or everyone's, have left the caches."""
        with self.lock:
            self._history.drop(fun)

    def _take(self, stage: Stage) -> None:
        call = stage.call
        key = hash((call.key if call else 0, threading.get_ident()))
        name = _called(stage)
        entries = reversed(self._open)
        entry = next((one for one in entries if one.takes(stage.kind, key, name)), None)
        if entry is None and call is None:  # such as f.lower(x).compile()
            waiting = (one for one in self._open if "compile" not in one.row.stages)
            entry = next((one for one in waiting if one.row.function == name), None)
        if entry is None:
            self._look_for_cleared()
            entry = self._entry(stage, key)
            self._open = [*self._open[-_MOST_OPEN:], entry]
            for log in self.logs:
                log.append(entry)
        entry.add(stage)

    def _entry(self, stage: Stage, key: int) -> Entry:
        name, call = _called(stage), None if stage.call is None else as_called(stage.call)
        fun = None if call is None else call.fun
        place, code = _caller(call.caller if call else None)
        eager = not self._history.has(name) if fun is None else _is_of_jax(fun)
        known, other = self._history.of(fun, name, place if eager else "")
        signature = None if call is None else signature_of(call)
        cause, *more = self._why(known, other, signature, stage.kind == "trace")
        if eager and other is not None:
            cause = CallChange(OUTSIDE, "", "", "")
        if signature is not None and not stage.failed:
            known.add(signature)
        fix = _NEW_OBJECT if cause.cause.startswith("new object") else _FIXES[cause.cause]
        row = CompileRow(name, *cause, (), 0.0, place, code, fix, tuple(more))
        return Entry(known, eager, row, key, signature, stage.failed)

    def _why(
        self,
        known: KnownFunction,
        other: KnownFunction | None,
        signature: Signature | None,
        traced: bool,
    ) -> list[CallChange]:
        """The cause of a trace, or of a compile without one, then the other changes."""
        if other is not None:
            return [changed_object(other, known)]
        if signature is None:
            return [CallChange(UNKNOWN, "", "", "")]
        if not (known.calls or known.dropped):
            is_again = traced and self._has_failed(known, signature)
            first = EARLIER if known.earlier else FIRST
            return [CallChange(FAILED if is_again else first, "", "", "")]
        every = [*known.dropped, *known.calls]
        found = [changes(before, signature, traced) for before in reversed(every)]
        if least := min(found, key=len):
            return least
        if traced and self._has_failed(known, signature):
            return [CallChange(FAILED, "", "", "")]
        cleared = all(changes(before, signature, traced) for before in known.calls)
        return [CallChange(CLEARED if cleared else UNKNOWN, "", "", "")]

    def _has_failed(self, known: KnownFunction, signature: Signature) -> bool:
        """Whether a call of the same types raised while it was traced."""
        return any(
            one.failed and one.signature is not None and not changes(one.signature, signature, True)
            for one in self._open
            if one.known is known
        )

    def _look_for_cleared(self) -> None:
        """Notice `jax.clear_caches`: after it a function of taxpr's own is traced again."""
        key, before = _compat.trace_key(), len(_traces)
        self._probing = True
        try:
            _jax.eval_shape(_probe)
        finally:
            self._probing = False
        if key in self._probed and len(_traces) > before:
            self._probed.clear()
            self.drop()
        self._probed.add(key)


_traces: list[None] = []


def _traced() -> int:
    _traces.append(None)
    return 0


_probe = _jax.jit(_traced)


def _called(stage: Stage) -> str:
    """The function of a stage, as named in rows."""
    fun = stage.call.fun if stage.call else None
    return _plain(stage.name) if fun is None else users_name_of(fun)


def _plain(name: str) -> str:
    """The name of a function, out of JAX's name: ``jit(f)``."""
    head, _, rest = name.partition("(")
    return rest.removesuffix(")") if head in ("jit", "pmap") else name


def _caller(frame: FrameType | None) -> tuple[str, str]:
    """The line of the user that is running, and its statement."""
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "", ""
    [*found] = statements_in([frame.f_code], [frame.f_lasti])
    place = place_text(frame.f_code.co_filename, found[0].line if found else frame.f_lineno)
    return place, found[0].text if found else ""


def _is_of_jax(fun: object) -> bool:
    """Whether a function is JAX's own, as for an operation outside of jit."""
    code = getattr(inner(fun), "__code__", None)
    return code is not None and not _compat.is_outside_jax(code.co_filename)
