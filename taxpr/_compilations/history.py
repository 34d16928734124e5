"""`CompileHistory`: the calls that compiled each function, since somebody asked."""

import functools
import types
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from taxpr._calls.libraries import named_by_user
from taxpr._compilations.causes import CallChange
from taxpr._compilations.signature import Signature, short
from taxpr._compilations.stale import body_of
from taxpr._errors import name_of
from taxpr._places import cell_text

_MOST = 64  # signatures of a function, and functions of one code, that are remembered


class KnownFunction:
    """A function that was compiled.

    Attributes:
        name: Its name.
        kind: Its kind, see `kind_of`.
        calls: The signatures of its calls that were traced or compiled, the latest last.
        dropped: The signatures that have left the caches.
        earlier: Whether it was compiled before somebody asked, too.
        variables: The values that it held beside its code when it was first compiled, in words.
    """

    def __init__(self, fun: Callable[..., Any] | None, name: str) -> None:
        self._fun = _reference(fun)
        self.name, self.kind = name, kind_of(fun)
        self.calls: list[Signature] = []
        self.dropped: list[Signature] = []
        self.earlier = False
        self.variables = variables_of(fun)

    def fun(self) -> Any:
        """The function; None where it is gone."""
        return self._fun()

    def add(self, signature: Signature) -> None:
        """Remember a call."""
        self.calls = [*self.calls[-_MOST + 1 :], signature]


class CompileHistory:
    """All functions that were compiled, by the object and by the code."""

    def __init__(self) -> None:
        self._by_code: dict[Hashable, list[KnownFunction]] = {}

    def of(
        self, fun: Callable[..., Any] | None, name: str, line: str
    ) -> tuple[KnownFunction, KnownFunction | None]:
        """A function, and, if it is new, a known one of the same code.

        Args:
            fun: The function; None where only its name is known.
            name: Its name.
            line: The line that calls it, of operations that are told apart by it.
        """
        key = (name, line) if line or fun is None else code_of(fun)
        alike = self._by_code.setdefault(key, [])
        for one in alike:
            if fun is None or one.fun() is fun:
                return one, None
        new = KnownFunction(fun, name)
        before = alike[-1] if alike else None
        self._by_code[key] = [*alike[-_MOST + 1 :], new]
        return new, before

    def drop(self, fun: object = None) -> None:
        """Note that the caches of a function, or of all, are empty."""
        for one in (one for alike in self._by_code.values() for one in alike):
            if fun is None or one.fun() is fun:
                one.dropped, one.calls = [*one.dropped, *one.calls][-_MOST:], []

    def has(self, name: str) -> bool:
        """Whether a function of this name is known."""
        return any(one.name == name for alike in self._by_code.values() for one in alike)


def changed_object(before: KnownFunction, now: KnownFunction) -> CallChange:
    """Two objects of one function as a change: a variable that differs, else both."""
    cause = f"new object: {now.kind}"
    for name, value in now.variables.items():
        old = before.variables.get(name, value)
        if old != value:
            return CallChange(cause, name, old, value)
    return CallChange(cause, "", f"another {now.kind} of the same code", "a new one")


def kind_of(fun: Any) -> str:
    """The kind of a function: a partial, a bound method, a lambda or a function."""
    if isinstance(fun, functools.partial):
        return "partial"
    if isinstance(fun, types.MethodType):
        return "bound method"
    return "lambda" if getattr(fun, "__name__", "") == "<lambda>" else "function"


def inner(fun: Any) -> Any:
    """The Python function in a partial, a bound method, or a wrapper by `functools.wraps`."""
    while True:
        if isinstance(fun, functools.partial):
            fun = fun.func
        elif isinstance(fun, types.MethodType):
            fun = fun.__func__
        elif callable(wrapped := getattr(fun, "__wrapped__", None)):
            fun = wrapped
        elif (named := named_by_user(fun)) is not fun:
            fun = named
        else:
            return fun


def code_of(fun: Any) -> Hashable:
    """A key that two objects of one function share, also if a cell is run again."""
    own: Any = inner(fun)
    code: Any = getattr(own, "__code__", None)
    if code is None:
        return own.__class__.__qualname__, name_of(own)
    if not cell_text(code.co_filename):
        return kind_of(fun), code.co_filename, code.co_firstlineno, code.co_qualname
    is_lambda = code.co_name == "<lambda>"
    return kind_of(fun), "cell", code.co_qualname, body_of(code) if is_lambda else ""


def variables_of(fun: Any) -> Mapping[str, str]:
    """The values of a function beside its code, in words: arguments of a partial, and closures."""
    found: dict[str, str] = {}
    while True:
        if isinstance(fun, functools.partial):
            found |= {f"argument {k} of the partial": short(x) for k, x in enumerate(fun.args)}
            found |= {name: short(x) for name, x in fun.keywords.items()}
            fun = fun.func
        elif isinstance(fun, types.MethodType):
            return found
        else:
            break
    code = getattr(fun, "__code__", None)
    if code is not None:
        cells = zip(code.co_freevars, fun.__closure__ or (), strict=True)
        found |= {name: short(cell.cell_contents) for name, cell in cells if _is_filled(cell)}
    return found


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _reference(fun: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(fun)
    except TypeError:  # None, and classes that forbid it
        return lambda: fun
