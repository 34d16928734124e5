"""Watches the user's functions while JAX traces them.

By `sys.monitoring` (Python 3.12 and newer), beside a debugger or a coverage tool, or by
`sys.settrace`, where nobody else uses that.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import sys
import threading
import types
from collections.abc import Generator
from typing import Any

from taxpr import _compat
from taxpr._primitives.tag import telling
from taxpr._source.files import is_user_file
from taxpr._variables.assigned import goes_on
from taxpr._variables.watch import Watch

_watches = threading.local()
# JAX keeps what it traced under these settings apart, so that no mark gets into other programs, and
# functions that were traced before are traced again.
_named = _compat.user_context()


@contextlib.contextmanager
def watching(cotangents: bool = False) -> Generator[None, None, None]:
    """For the time in which something is traced: bindings of the user's variables leave marks."""
    before = _current()
    with contextlib.ExitStack() as stack:
        if stack.enter_context(_listening()):
            stack.enter_context(_named("cotangents" if cotangents else "watched"))
            _watches.current = watch = Watch(_TOLD_OF_CALLS, cotangents)
            stack.callback(setattr, _watches, "current", before)
            stack.callback(setattr, telling, "tagged", getattr(telling, "tagged", None))
            telling.tagged = watch.tagged if cotangents else None
        yield


@contextlib.contextmanager
def unwatched() -> Generator[None, None, None]:
    """For the time in which another program is traced, maybe within one that is watched."""
    before, tagged = _current(), getattr(telling, "tagged", None)
    with contextlib.ExitStack() as stack:
        if before is not None:
            stack.enter_context(_named(None))
            stack.callback(setattr, _watches, "current", before)
            stack.callback(setattr, telling, "tagged", tagged)
            _watches.current = telling.tagged = None
        yield


def _current() -> Watch | None:
    return getattr(_watches, "current", None)


if sys.version_info >= (3, 12):
    _monitoring = sys.monitoring
    _events = _monitoring.events
    _lock = threading.Lock()
    _active: list[object] = []
    _tool: list[int] = []
    _codes: set[types.CodeType] = set()

    @contextlib.contextmanager
    def _listening() -> Generator[bool, None, None]:
        token = object()
        with _lock:
            if not _active and not _take_tool():
                yield False
                return
            _active.append(token)
        try:
            yield True
        finally:
            with _lock:
                _active.remove(token)
                if not _active:
                    _give_tool_back()

    def _take_tool() -> bool:
        free = (k for k in (4, 3, 5) if _monitoring.get_tool(k) is None)
        tool = next(free, None)
        if tool is None:
            return False
        _monitoring.use_tool_id(tool, "taxpr")
        _tool[:] = [tool]
        for event, handle in _HANDLERS.items():
            _monitoring.register_callback(tool, event, handle)
        _monitoring.set_events(tool, _events.PY_START | _events.PY_UNWIND)
        return True

    def _give_tool_back() -> None:
        [tool] = _tool
        _monitoring.set_events(tool, 0)
        for code in _codes:
            _monitoring.set_local_events(tool, code, 0)
        _codes.clear()
        for event in _HANDLERS:
            _monitoring.register_callback(tool, event, None)
        _monitoring.free_tool_id(tool)

    def _on_start(code: types.CodeType, offset: int) -> Any:
        if not is_user_file(code.co_filename):
            return _monitoring.DISABLE
        if watch := _current():
            if code not in _codes:
                _codes.add(code)
                within = _events.INSTRUCTION if goes_on(code) else 0
                _monitoring.set_local_events(_tool[0], code, _OF_A_FUNCTION | within)
            watch.started(sys._getframe(1))
        return None

    def _on_line(code: types.CodeType, line: int) -> None:
        if watch := _current():
            watch.line(sys._getframe(1), line)

    def _on_instruction(code: types.CodeType, offset: int) -> Any:
        if offset not in goes_on(code):
            return _monitoring.DISABLE  # at this instruction
        if watch := _current():
            watch.assigned(sys._getframe(1))
        return None

    def _on_call(code: types.CodeType, offset: int, called: object, first: object) -> None:
        if watch := _current():
            watch.called(called, first)

    def _on_return(code: types.CodeType, offset: int, value: Any) -> None:
        if watch := _current():
            watch.returned(sys._getframe(1))

    def _on_yield(code: types.CodeType, offset: int, value: Any) -> None:
        if watch := _current():
            watch.yielded(sys._getframe(1))

    def _on_unwind(code: types.CodeType, offset: int, error: BaseException) -> None:
        if watch := _current():
            watch.raised(sys._getframe(1))

    _TOLD_OF_CALLS = True
    _OF_A_FUNCTION = _events.LINE | _events.CALL | _events.PY_RETURN | _events.PY_YIELD
    _HANDLERS = {
        _events.PY_START: _on_start,
        _events.LINE: _on_line,
        _events.INSTRUCTION: _on_instruction,
        _events.CALL: _on_call,
        _events.PY_RETURN: _on_return,
        _events.PY_YIELD: _on_yield,
        _events.PY_UNWIND: _on_unwind,
    }
else:
    _TOLD_OF_CALLS = False

    @contextlib.contextmanager
    def _listening() -> Generator[bool, None, None]:
        if sys.gettrace() not in (None, _on_call):
            yield False
            return
        before = sys.gettrace()
        sys.settrace(_on_call)
        try:
            yield True
        finally:
            sys.settrace(before)

    def _on_call(frame: types.FrameType, event: str, value: Any) -> Any:
        watch = _current()
        if watch is None or not is_user_file(frame.f_code.co_filename):
            return None
        if _begins(frame):
            watch.started(frame)
        frame.f_trace_opcodes = bool(goes_on(frame.f_code))
        return _on_event

    def _on_event(frame: types.FrameType, event: str, value: Any) -> Any:
        watch = _current()
        if watch is None:
            return None
        if event == "line":
            watch.line(frame, frame.f_lineno)
        elif event == "opcode" and frame.f_lasti in goes_on(frame.f_code):
            watch.assigned(frame)
        elif event == "return":
            (watch.yielded if _is_generator(frame) else watch.returned)(frame)
        return _on_event

    def _is_generator(frame: types.FrameType) -> bool:
        return bool(frame.f_code.co_flags & inspect.CO_GENERATOR)

    def _begins(frame: types.FrameType) -> bool:
        """Whether a function begins; where a generator goes on or ends is told as a call, too."""
        if not _is_generator(frame):
            return True
        instruction, argument = frame.f_code.co_code[frame.f_lasti :][:2]
        return instruction == dis.opmap["RESUME"] and argument & 3 == 0
