"""How `edit` changes a value: by a function, an array, an injector or an expression."""

import ast
import builtins
import contextlib
import dataclasses
import difflib
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._editing.spelled import RETURN
from taxpr._errors import ArgumentError, InjectorError, SameNoiseWarning, name_of, unfit, warn
from taxpr._injectors.edits import replace
from taxpr._injectors.injector import Injector
from taxpr._injectors.kind import InjectorKind
from taxpr._jaxprs.trees import as_arrays


@dataclasses.dataclass(frozen=True)
class Bound:
    """A value that was bound, and where.

    Attributes:
        value: The value.
        text: The variable as it is selected, such as ``"attend.weights"``.
        place: The line, such as ``"model.py:12"``.
        count: How many values of it were changed before in the same jaxpr.
        names: The names that can be seen there.
    """

    value: Any
    text: str
    place: str
    count: int
    names: Callable[[], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Alteration:
    """Makes another value of one.

    Attributes:
        text: How it is called in messages.
        make: Makes the other value.
        of_arrays: Whether it can only change arrays, and no functions or Python numbers.
        of_values: Whether it cannot be meant for a function of a module or a class.
        line: The line that takes the place of one of the source; empty for other changes.
        expression: The expression; empty for other changes.
    """

    text: str
    make: Callable[[Bound], Any]
    of_arrays: bool = False
    of_values: bool = False
    line: str = ""
    expression: str = ""

    def said(self, variable: str) -> str:
        """The change of a variable, as it is written behind the line that binds it."""
        how = f"= {self.expression}" if self.expression else f"by {self.text}"
        return f"{variable} {how}"

    def of(self, bound: Bound) -> Any:
        """The other value.

        Raises:
            ArgumentError: If it gives no value that fits.
        """
        if self.of_arrays and not _is_of_arrays(bound.value):
            raise ArgumentError(
                f"edit: {bound.text} ({bound.place}) holds {shown(bound.value)}, and {self.text} "
                "changes arrays. Give a function of the value, or an expression."
            )
        new = self.make(bound)
        if new is None and bound.value is not None:
            raise ArgumentError(
                f"edit: {self.text} returned None for {bound.text} ({bound.place}). It returns "
                "the value that takes the place of the one it was given."
            )
        if _is_float(bound.value) and _is_bool(new):
            raise ArgumentError(
                f"edit: {self.text} makes truth values of {bound.text} ({bound.place}), which "
                f"holds {shown(bound.value)}. For the numbers 0 and 1 say so: "
                "'(x > 0).astype(x.dtype)'. Write the new value alone, or behind one '='."
            )
        return new


def alteration(given: Any, of: str = "") -> Alteration:
    """The alteration that a user means.

    Args:
        given: The change that a user gave.
        of: The variable, as it is selected.

    Raises:
        ArgumentError: If it cannot be an alteration.
    """
    if isinstance(given, Alteration):
        return given
    if isinstance(given, str):
        return _expression(given, of)
    if isinstance(given, InjectorKind):
        raise InjectorError(f"edit: {given.name} has no values yet. Call it: {given.name}(...).")
    if isinstance(given, Injector):
        return _injector(given)
    if _compat.is_sequence(given) and any(isinstance(x, Injector | InjectorKind) for x in given):
        every = [alteration(one) for one in given]
        return Alteration(", ".join(one.text for one in every), _in_turn(every), True, True)
    if callable(given) and not _compat.is_tracer(given):
        if wrong := unfit(given, None):
            raise ArgumentError(
                f"edit: {name_of(given)}{wrong[0]} is called with the value alone, and that does "
                f"not go: {wrong[1]}. An injector (ctx, token, params) has a context, which a "
                "line of the source has not: it is for inject."
            )
        return Alteration(name_of(given), lambda bound: given(bound.value))
    leaves = jax.tree.leaves(given)
    if not leaves or not all(map(_is_number, leaves)):
        raise ArgumentError(
            f"edit: {shown(given)} changes nothing. Give a function of the value, an "
            'array, a ready injector such as taxpr.scale(0.5), or an expression such as "x * 2".'
        )
    put = _injector(replace(given))

    def make(bound: Bound) -> Any:
        return put.make(bound) if _is_of_arrays(bound.value) else given

    return Alteration(shown(given), make, of_values=True)


def _in_turn(every: list[Alteration]) -> Callable[[Bound], Any]:
    def make(bound: Bound) -> Any:
        for one in every:
            bound = dataclasses.replace(bound, value=one.of(bound))
        return bound.value

    return make


def has_state(given: Injector) -> bool:
    """Whether an injector hands something on from one value to the next. Random streams do not."""
    state = _state_of(given, "")
    return bool(jax.tree.leaves(state)) and not _is_stream(state)


def _state_of(given: Injector, text: str) -> Any:
    site: Any = types.SimpleNamespace(address=text)
    return given.new_state(None if given.shared else site)


def _is_stream(state: Any) -> bool:
    return getattr(state, "keys", set)() == {"fired", "site"}


def _injector(given: Injector) -> Alteration:
    """An alteration by an injector without a state."""

    def make(bound: Bound) -> Any:
        if has_state(given):
            raise InjectorError(
                f"edit: {given!r} has a state, which is handed on from one value to the next. A "
                "line of the source has none: give it to inject, or a function of the value here."
            )
        state = _state_of(given, bound.text)
        if _is_stream(state):
            state = {**state, "fired": state["fired"] + bound.count}
        values = {
            name: as_arrays(f"{given.name}: {name}", value, InjectorError)
            if name in given.keys
            else value
            for name, value in given.values.items()
        }
        _warn_of_one_key(given, bound)
        try:
            token, _ = given.fire(values, state, bound.value, {"name": bound.text})
            given.check_token(bound.value, token)
        except InjectorError as error:
            said = str(error).replace("the token", bound.text)
            raise InjectorError(f"edit: {bound.text} ({bound.place}): {said}") from None
        return token

    types_of = {name: _as_types(value) for name, value in given.values.items()}
    return Alteration(repr(dataclasses.replace(given, values=types_of)), make, True, True)


def _warn_of_one_key(given: Injector, bound: Bound) -> None:
    """Warns if an injector draws the same for all examples of a `jax.vmap` around the line.

    Warns:
        SameNoiseWarning: Names the variable, and the way to draw apart.
    """
    keys = [given.values[name] for name in given.keys]
    leaves = jax.tree.leaves(bound.value)
    found = {_compat.mapped(leaf) for leaf in leaves} - {False}
    if keys and found and all(_compat.mapped(key) is False for key in keys):
        draw = "draw" if True in found else "may draw"
        warn(
            f"edit: {bound.text} ({bound.place}) is in a function that jax.vmap maps, and "
            f"{given.name} has one key, so that all examples {draw} the same. To draw "
            f"apart, map a key, too: jax.vmap(lambda key, x: taxpr.edit(f, {bound.text!r}, "
            f"taxpr.{given.name}(key))(x))(jax.random.split(key, n), xs).",
            functools.partial(SameNoiseWarning, variable=bound.text),
            2,
        )


def _expression(text: str, of: str) -> Alteration:
    """By an expression that sees the variables of the frame and of its module, or by a line."""
    try:
        code = compile(text.strip(), "<edit>", "eval")
    except SyntaxError as error:
        if statement_of(text) is not None:
            return Alteration(repr(text), _refuse_line, of_values=True, line=text.strip())
        at = f"column {error.offset}" if error.offset else "its end"
        raise ArgumentError(
            f"edit: {of + ': ' if of else ''}{text!r} is no expression of Python: {error.msg} at "
            f"{at}. Give the new value alone, such as 'weights * mask', or the line that takes the "
            "place of the one in the source, such as 'x = x - h'."
        ) from None

    def make(bound: Bound) -> Any:
        names = dict(bound.names())
        try:
            # As globals, so that comprehensions and lambdas in it see them, too.
            return eval(code, names)
        except NameError as error:
            name = str(error.name)
            near = ", ".join(difflib.get_close_matches(name, [*names, *vars(builtins)], 3))
            said = f"edit: {text!r}: there is no {name!r} where {bound.text} is bound "
            said += f"({bound.place}).{f' Nearest: {near}.' if near else ''}"
            raise ArgumentError(said + _OF_RESULT * bound.text.endswith(RETURN)) from None

    return Alteration(repr(text), make, of_values=True, expression=text.strip())


_OF_RESULT = (
    " What the function returns is called result there, and its variables are not seen: edit one "
    "of these, or give the line that takes the place of the one in the source: 'return x * 2'."
)


Statement = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return


def statement_of(text: str) -> Statement | None:
    """The one assignment, or ``return x``, that a text consists of; None if it is anything else."""
    with contextlib.suppress(SyntaxError, ValueError):
        match ast.parse(text.strip()).body:
            case [ast.Assign() | ast.AugAssign() as node]:
                return node
            case [ast.AnnAssign(value=ast.expr()) | ast.Return(value=ast.expr()) as node]:
                return node
            case _:
                pass
    return None


def _refuse_line(bound: Bound) -> Any:
    raise ArgumentError(
        f"edit: what takes the place of a line is for edit alone, and {bound.text} is a value."
    )


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float, complex, np.generic)) or _is_array(leaf)


def _is_array(leaf: Any) -> bool:
    return _compat.is_tracer(leaf) or isinstance(leaf, (jax.Array, np.ndarray))


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (
        _is_array(value) and bool(jnp.issubdtype(value.dtype, jnp.inexact))
    )


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (_is_array(value) and value.dtype == np.bool_)


def _is_of_arrays(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(map(_is_array, leaves))


def shown(value: Any) -> str:
    """A value in a message: arrays by their types, and of long texts the beginning."""
    text = repr(_as_types(value))
    return text if len(text) < 60 else f"{text[:56]} …"


def _as_types(value: Any) -> Any:
    """A value with the types of arrays in place of the arrays, except for known scalars."""

    def one(leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        if leaf.ndim == 0 and not (_compat.is_tracer(leaf) or _compat.is_extended(leaf.dtype)):
            return leaf  # a number
        return _Type(f"{leaf.dtype.name}{list(leaf.shape)}")

    try:
        return jax.tree.map(one, value)
    except Exception:  # of a class of the user's, which takes other leaves
        return _Type(type(value).__name__)


class _Type(str):
    """The name of a type; it shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
