"""Find global and closed-over variables that have changed since JAX traced the function."""

import dis
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from taxpr._calls.free_variables import reached
from taxpr._calls.static import is_static, marked
from taxpr._compilations.signature import short
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_LARGEST = 1_000_000  # bytes of a NumPy array that is copied to be compared later
_STORES = "STORE_GLOBAL", "STORE_DEREF"


class HeldOutside(NamedTuple):
    """The value that a variable held."""

    structure: Any
    leaves: tuple[Any, ...]
    text: str


class StaleRow(NamedTuple):
    """A variable that a compiled function does not read again.

    Attributes:
        function: The function.
        variable: The variable.
        before: Its value when the function was traced; the function computes with this one.
        now: Its value now.

    Example:
        >>> import jax, taxpr
        >>> rate = 1.0
        >>> step = taxpr.why_compiled(jax.jit(lambda x: x * rate))
        >>> _ = step(1.0)
        >>> rate = 2.0
        >>> _ = step(1.0)
        >>> step.compiles.stale
        [StaleRow(function='<lambda>', variable='rate', before='1.0', now='2.0')]
    """

    function: str
    variable: str
    before: str
    now: str


Seen = dict[str, HeldOutside]


def seen_by(fun: Callable[..., Any]) -> Seen:
    """The present values of outside variables that a function reads and does not set."""
    return dict(_held(fun))


def changed_since(name: str, seen: Seen, now: Seen) -> Iterator[StaleRow]:
    """The variables whose values differ from when a function was traced."""
    for variable, held in now.items():
        before = seen.get(variable)
        # In what has grown, the function may have noted something while it was traced.
        if before is not None and before.structure == held.structure and not _same(before, held):
            yield StaleRow(name, variable, before.text, held.text)


def _held(fun: Callable[..., Any]) -> Iterator[tuple[str, HeldOutside]]:
    every = [*reached(fun, functions=True)]
    sets = {name for one in every for name in _stored(one.thing)}
    for name, thing in ((one.name, one.thing) for one in every):
        if isinstance(thing, types.FunctionType):
            yield name, HeldOutside("a function", (body_of(thing.__code__),), short(thing))
        elif name and name not in sets:
            for variable, value in _values(name, thing):
                try:
                    leaves, structure = _jax.tree.flatten(marked(value), is_leaf=is_static)
                except ValueError:  # a dict whose keys have no order is no tree for JAX
                    continue
                plain = (x.value if is_static(x) else x for x in leaves)
                yield variable, HeldOutside(structure, tuple(map(_kept, plain)), short(value))


def _values(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """A variable, or the attributes of the object that it holds."""
    own: Any = getattr(thing, "__dict__", None)
    if own is not None and _jax.tree_util.all_leaves([thing]) and not callable(thing):
        yield from ((f"{name}.{key}", value) for key, value in own.items())
    else:
        yield name, thing


def _kept(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.copy() if x.nbytes <= _LARGEST else None
    return x


def _same(a: HeldOutside, b: HeldOutside) -> bool:
    return all(map(_equal, a.leaves, b.leaves))


def _equal(a: Any, b: Any) -> bool:
    if a is b or a is None or b is None:
        return True
    try:
        return type(a) is type(b) and bool(np.array_equal(a, b, equal_nan=False))
    except Exception:  # of a comparison of the user's, or a donated array
        return True


def body_of(code: types.CodeType) -> str:
    """The body of a function, whatever its lines in the file."""
    consts = tuple(body_of(x) if isinstance(x, types.CodeType) else repr(x) for x in code.co_consts)
    return repr((code.co_code, code.co_names, consts))


def _stored(thing: Any) -> Iterator[str]:
    code = getattr(thing, "__code__", None)
    if code is not None:
        yield from (one.argval for one in dis.get_instructions(code) if one.opname in _STORES)
