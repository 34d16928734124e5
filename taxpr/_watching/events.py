"""Tells listeners what functions do while they run, in one thread.

By `sys.monitoring` (Python 3.12 and newer), beside a debugger or a coverage tool, or by
`sys.settrace`, if nobody else uses that.
"""

import contextlib
import dis
import inspect
import sys
import threading
import types
from collections.abc import Generator
from typing import Any

from taxpr._source.files import is_user_file
from taxpr._watching.listener import Listener, now

_active: list[Listener] = []  # of all threads
_lock = threading.Lock()


def _wanting(code: types.CodeType) -> list[Listener]:
    return [one for one in now.listeners if one.wants(code)]


if sys.version_info >= (3, 12):
    _monitoring = sys.monitoring
    _events = _monitoring.events
    _tool: list[int] = []
    _codes: dict[types.CodeType, int] = {}

    @contextlib.contextmanager
    def listening(listener: Listener, anew: bool = False) -> Generator[bool, None, None]:
        """For a time a listener is told; whether it is told of anything.

        Args:
            listener: The listener.
            anew: Whether it may want what nobody wanted before.
        """
        with _lock:
            if not _active and not _take_tool():
                yield False
                return
            _active.append(listener)
            if anew:
                _monitoring.restart_events()
        try:
            yield True
        finally:
            with _lock:
                _active.remove(listener)
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
        _monitoring.set_events(tool, _EVERYWHERE)
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
        for one in (wanting := _begun(code)) or ():
            one.started(sys._getframe(1))
        return _monitoring.DISABLE if wanting is None else None

    def _on_resume(code: types.CodeType, offset: int) -> Any:
        """A generator goes on, which may have begun before anybody listened."""
        return _monitoring.DISABLE if _begun(code) is None else None

    def _begun(code: types.CodeType) -> list[Listener] | None:
        """Those that are told of a function from now on; None if nobody ever is."""
        if not is_user_file(code.co_filename) and not any(one.wants(code) for one in _active):
            return None
        if wanting := _wanting(code):
            events = _OF_A_FUNCTION | (_events.CALL if any(one.of_calls for one in wanting) else 0)
            if any(one.offsets(code) for one in wanting):
                events |= _events.INSTRUCTION
            if (known := _codes.get(code, 0)) | events != known:
                _codes[code] = known | events
                _monitoring.set_local_events(_tool[0], code, known | events)
        return wanting

    def _on_line(code: types.CodeType, line: int) -> None:
        for one in now.listeners:
            one.line(sys._getframe(1), line)

    def _on_instruction(code: types.CodeType, offset: int) -> Any:
        if not any(offset in one.offsets(code) for one in _active):
            return _monitoring.DISABLE  # at this instruction
        for one in now.listeners:
            if offset in one.offsets(code):
                one.instruction(sys._getframe(1), offset)
        return None

    def _on_call(code: types.CodeType, offset: int, called: object, first: object) -> None:
        for one in now.listeners:
            if one.of_calls:
                one.called(called, first)

    def _on_return(code: types.CodeType, offset: int, value: Any) -> None:
        for one in now.listeners:
            one.returned(sys._getframe(1))

    def _on_yield(code: types.CodeType, offset: int, value: Any) -> None:
        for one in now.listeners:
            one.yielded(sys._getframe(1))

    def _on_unwind(code: types.CodeType, offset: int, error: BaseException) -> None:
        for one in now.listeners:
            one.raised(sys._getframe(1))

    TOLD_OF_CALLS = True
    _EVERYWHERE = _events.PY_START | _events.PY_RESUME | _events.PY_UNWIND
    _OF_A_FUNCTION = _events.LINE | _events.PY_RETURN | _events.PY_YIELD
    _HANDLERS = {
        _events.PY_START: _on_start,
        _events.PY_RESUME: _on_resume,
        _events.LINE: _on_line,
        _events.INSTRUCTION: _on_instruction,
        _events.CALL: _on_call,
        _events.PY_RETURN: _on_return,
        _events.PY_YIELD: _on_yield,
        _events.PY_UNWIND: _on_unwind,
    }
else:
    TOLD_OF_CALLS = False

    @contextlib.contextmanager
    def listening(listener: Listener, anew: bool = False) -> Generator[bool, None, None]:
        """For a time a listener is told; whether it is told of anything."""
        del anew
        before = sys.gettrace()
        if before not in (None, _on_call):
            yield False
            return
        with _lock:
            _active.append(listener)
        sys.settrace(_on_call)
        try:
            yield True
        finally:
            sys.settrace(before)
            with _lock:
                _active.remove(listener)

    def _on_call(frame: types.FrameType, event: str, value: Any) -> Any:
        if not (wanting := _wanting(frame.f_code)):
            return None
        if _begins(frame):
            for one in wanting:
                one.started(frame)
        frame.f_trace_opcodes = any(one.offsets(frame.f_code) for one in wanting)
        return _on_event

    def _on_event(frame: types.FrameType, event: str, value: Any) -> Any:
        for one in now.listeners:
            if event == "line":
                one.line(frame, frame.f_lineno)
            elif event == "opcode" and frame.f_lasti in one.offsets(frame.f_code):
                one.instruction(frame, frame.f_lasti)
            elif event == "return":
                (one.yielded if _may_go_on(frame) else one.returned)(frame)
        return _on_event

    _SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

    def _may_go_on(frame: types.FrameType) -> bool:
        return bool(frame.f_code.co_flags & _SUSPENDED)

    def _begins(frame: types.FrameType) -> bool:
        """Whether a function begins; a generator that goes on or ends is told as a call, too."""
        if not _may_go_on(frame):
            return True
        instruction, argument = frame.f_code.co_code[frame.f_lasti :][:2]
        return instruction == dis.opmap["RESUME"] and argument & 3 == 0
