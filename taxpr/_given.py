"""Checks of users' arguments: the errors for values of an unexpected kind."""

import contextlib
import functools
import os
import pathlib
import re
from collections.abc import Callable, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from taxpr._errors import ArgumentError, a_type, name_of, unfit

_P = ParamSpec("_P")
_T = TypeVar("_T")
_E = TypeVar("_E")


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"


# The default of an argument that may be anything, None included.
NOT_GIVEN: Any = _NotGiven()


def of_equation(fun: Callable[Concatenate[_E, _P], _T]) -> Callable[Concatenate[_E, _P], _T]:
    """A decorator of functions of an equation: anything else is refused by name."""

    @functools.wraps(fun)
    def asked(eqn: _E, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return fun(eqn, *args, **kwargs)
        except AttributeError:  # so that an equation costs nothing more
            refuse_no_equation(fun.__name__, eqn)
            raise

    return asked


def told_how(how: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """A decorator of functions: calls that do not fit are refused by name.

    Args:
        how: How the function is called.
    """

    def of(fun: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(fun)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if wrong := unfit(fun, *args, **kwargs):
                raise ArgumentError(f"{name_of(fun)}: {wrong[1]}. {how}")
            return fun(*args, **kwargs)

        return run

    return of


def refuse_no_equation(what: str, given: Any) -> None:
    """Raise where something else is given in the place of an equation."""
    if not (hasattr(given, "primitive") and hasattr(given, "source_info")):
        raise ArgumentError(
            f"{what}: {_short(given)} is {a_type(given)}, not an equation. Give one such "
            "as program.eqns has, or iter_eqns(program)."
        )


def refuse_no_flag(what: str, **given: Any) -> None:
    """Raise where something else is given in the place of True or False."""
    for name, value in given.items():
        if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
            raise ArgumentError(
                f"{what}: {name}={_short(value)} is {a_type(value)}. Give True or False."
            )


def refuse_no_text(what: str, given: object, wanted: str) -> None:
    """Raise where something else is given in the place of a text, such as the path of a file."""
    if not isinstance(given, str):
        raise ArgumentError(f"{what}: {_short(given)} is {a_type(given)}, not {wanted}.")


def refuse_no_path(what: str, given: Any) -> None:
    """Raise where something else is given in the place of a file."""
    if not isinstance(given, (str, os.PathLike)):
        raise ArgumentError(f"{what}: {_short(given)} is {a_type(given)}, not the path of a file.")


@contextlib.contextmanager
def file_to_write(what: str, given: str | os.PathLike[str]) -> Generator[pathlib.Path]:
    """A context with the path of a file that is written in it.

    Raises:
        ArgumentError: If something else is given, or there can be no such file.
    """
    refuse_no_path(what, given)
    path = pathlib.Path(given)
    try:
        yield path
    except OSError as error:
        folder = "" if path.parent.is_dir() else f" There is no folder {str(path.parent)!r}."
        raise ArgumentError(
            f"{what}: {str(path)!r} cannot be written: {error.strerror}.{folder}"
        ) from error


def listed(given: Any) -> list[Any] | None:
    """The elements of a list, or of anything else of several; None of a text or a single thing."""
    try:
        return None if isinstance(given, str) else list(given)
    except TypeError:
        return None


def is_no_array(leaf: Any) -> bool:
    """Whether a leaf cannot be an array, whatever is computed with it: a text, or an object."""
    kind = getattr(leaf, "dtype", None)
    # Of NumPy's own dtypes those of texts and of objects; JAX's own have no kind.
    if kind is not None:
        return getattr(kind, "kind", "") in ("U", "S", "O")
    if isinstance(leaf, (str, bytes)):
        return True
    numbers, made = (bool, int, float, complex), ("__array__", "__jax_array__")
    if isinstance(leaf, numbers) or any(hasattr(leaf, name) for name in made):
        return False
    try:
        memoryview(leaf)
    except TypeError:
        return True
    return False


# Python's own words where a call does not fit, and not an error of what was called.
_OF_A_CALL = re.compile(
    r"\S+\(\) (missing|takes|got) |differentiating .* requires at least \d+ pos"
)


def refuse_unfit(
    what: str, fun: Callable[..., Any], args: Any, kwargs: Any, error: TypeError
) -> None:
    """Raise where a call has failed because the function takes other arguments."""
    if _OF_A_CALL.match(str(error)) and (wrong := unfit(fun, *args, **kwargs)):
        raise ArgumentError(
            f"{what}: {name_of(fun)}{wrong[0]} was called with other arguments: {wrong[1]}."
        ) from error


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"this {type(given).__name__}"
