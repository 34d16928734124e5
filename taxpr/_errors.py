"""The errors of taxpr.

Each says what was found and expected, the place (site address and the user's source line) and the
way out. All derive from `TaxprError`, and also from the builtin error that a caller would think of
first.
"""

import contextlib
import contextvars
import inspect
import operator
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeGuard

import jax

_TAKES = contextvars.ContextVar["Callable[[Warning], object] | None"]("takes", default=None)
_SAID = contextvars.ContextVar["set[str] | None"]("said", default=None)


class TaxprError(Exception):
    """Base of all errors that taxpr raises on purpose."""


class TagError(TaxprError, TypeError):
    """A value or a parameter that `tag` cannot carry."""


class AddressError(TaxprError, LookupError):
    """An address that names no place in the program."""


class SelectorError(TaxprError, LookupError):
    """A selector that matches nothing, or that cannot be understood."""


class InjectorError(TaxprError, TypeError):
    """An injector that returned a value that does not fit the program."""


class RefusedError(TaxprError, NotImplementedError):
    """A rewrite that taxpr does not do, because the result could be wrong."""


class ArgumentError(TaxprError, TypeError):
    """Arguments that do not fit the program that was traced."""


class IndexOutOfRangeError(ArgumentError, IndexError):
    """The number of an input or output that a jaxpr does not have."""


class StateError(TaxprError, ValueError):
    """A `State` used in a place, or in a way, that is not possible."""


class NonfiniteError(TaxprError, FloatingPointError):
    """A step of a training loop made a value that is not finite; `every` raises it.

    Attributes:
        step: The number of the step, from 0.
        kept: Its arguments, as they were before the step.
        keywords: Its keyword arguments.
        results: The paths of the results that are not finite.
    """

    def __init__(
        self,
        message: str,
        step: int,
        kept: tuple[Any, ...],
        keywords: Mapping[str, Any],
        results: Sequence[str],
    ) -> None:
        super().__init__(message)
        self.step, self.kept, self.keywords, self.results = step, kept, keywords, results


class DroppedRuleWarning(UserWarning):
    """A rewrite that keeps the values of an equation, but drops a rule that it carries."""


class StaleDerivativeWarning(UserWarning):
    """A value is changed in an already differentiated program: its derivative stays the original's.

    Tags in the rules of `jax.custom_jvp` and `jax.custom_vjp` are not known to be differentiated.

    Example:
        >>> import jax, taxpr
        >>> loss = lambda w: taxpr.tag(w * w, name="h") ** 2
        >>> injected = taxpr.inject(loss, taxpr.scale(0.5))  # first inject, then differentiate
        >>> print(jax.grad(lambda w: injected(injected.init(w), w)[0])(3.0))
        27.0
    """


class SharedValueWarning(UserWarning):
    """A changed variable shares its value with the caller, who uses it, too.

    The change is for all uses. ``var(..., inside=True)`` changes the uses in the function alone,
    and ``inside=False`` all of them without a warning.

    Example:
        >>> import taxpr
        >>> def attend(x):
        ...     return x * 3
        >>> def block(x):
        ...     x = x + attend(x)
        ...     return x
        >>> program, seen = taxpr.trace(block, names=True)(1.0), []
        >>> with taxpr.introspect.warnings_to(seen.append):
        ...     zeroed = program.inject(taxpr.zero(), where=taxpr.var("attend.x"))
        >>> type(seen[0]).__name__, float(zeroed(zeroed.ctx, 1.0)[0])
        ('SharedValueWarning', 0.0)
    """


class SameNoiseWarning(UserWarning):
    """Random numbers are drawn once for all examples of a `jax.vmap`.

    An edited function is mapped as one of your own would be, with one key for all examples.

    Attributes:
        variable: The variable that is edited, as it was selected.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     h = x * 2
        ...     return h
        >>> seen = []
        >>> with taxpr.introspect.warnings_to(seen.append):
        ...     out = taxpr.edit(jax.vmap(f), "h", taxpr.noise(key=0))(jnp.zeros(3))
        >>> type(seen[0]).__name__, seen[0].variable, bool(out[0] == out[1])
        ('SameNoiseWarning', 'h', True)
    """

    def __init__(self, text: str, variable: str = ""):
        super().__init__(text)
        self.variable = variable


class UnobservedWarning(UserWarning):
    """A tag in a derivative rule could not be identified, and is ignored.

    The derivative is unchanged. Give tags names of their own to tell them apart.
    """


class UnusedNamesWarning(UserWarning):
    """The variables of a library were asked for, and nothing of it is in the program."""


@contextlib.contextmanager
def warnings_to(take: Callable[[Warning], object]) -> Generator[None, None, None]:
    """While this context is open, hand the warnings of taxpr in this thread to a function.

    `warnings.catch_warnings` does so for all threads; if two of them overlap, warnings are lost for
    good.

    Args:
        take: Called with each warning.

    Example:
        >>> import jax, taxpr
        >>> loss = lambda w: taxpr.tag(w * w, name="h") ** 2
        >>> program, seen = taxpr.trace(jax.grad(loss))(3.0), []
        >>> with taxpr.introspect.warnings_to(seen.append):
        ...     injected = program.inject(taxpr.scale(0.5))
        >>> [type(warning).__name__ for warning in seen]
        ['StaleDerivativeWarning']
    """
    refuse_no_function("warnings_to", take)
    before = _TAKES.set(take)
    try:
        yield
    finally:
        _TAKES.reset(before)


@contextlib.contextmanager
def once_each(said: set[str]) -> Generator[None, None, None]:
    """While this is open, no warning is repeated from an earlier context with the same set."""
    before = _SAID.set(said)
    try:
        yield
    finally:
        _SAID.reset(before)


def warn(text: str, kind: Callable[[str], Warning], level: int) -> None:
    """Warn, or hand the warning to the function given to `warnings_to`."""
    said = _SAID.get()
    if said is not None and text in said:
        return
    take = _TAKES.get()
    if take is None:
        warnings.warn(kind(text), stacklevel=level + 1)
    else:
        take(kind(text))
    if said is not None:  # not where the warning is an error, which ends the call
        said.add(text)


def say_where(error: Exception, where: str) -> None:
    """Add the place where it was raised to an error of the user's code."""
    say_more(error, "\nThis is ", where)


def say_more(error: Exception, mark: str, text: str) -> None:
    """Add a sentence, which begins with ``mark``, to an error that is not taxpr's own.

    It becomes part of the message if that is a single text: IPython 7, logs and ``print(error)``
    show no notes.
    """
    if not error.args:
        error.args = (text,)
    elif str(error) in (error.args[0], repr(error.args[0])):  # a KeyError shows the latter
        before = error.args[0].partition(mark)[0].rstrip()  # it may be raised again
        error.args = (f"{before}{mark}{text}",)
    else:  # it has words of its own
        error.add_note(f"taxpr: {text}")


def is_whole(x: object) -> TypeGuard[int]:
    """Whether it is an integer of Python or NumPy, and no bool."""
    return not isinstance(x, bool) and hasattr(type(x), "__index__") and not hasattr(x, "aval")


def a_type(x: object) -> str:
    """The type of a value in words, for messages.

    Args:
        x: The value.

    Example:
        >>> from taxpr import introspect
        >>> introspect.a_type(1), introspect.a_type({})
        ('an int', 'a dict')
    """
    name = type(x).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def refuse_function(what: str, given: object) -> None:
    """Raise if a function, or a value, is given in place of a jaxpr or a program of one."""
    if not (hasattr(given, "eqns") or hasattr(given, "jaxpr")):
        raise ArgumentError(
            f"{what}: {given!r} is {a_type(given)}, not a Program or a jaxpr. "
            + ("Trace it first: trace(fun)(*args)." if callable(given) else "")
        )


def refuse_index(what: str, kind: str, index: Any, count: int) -> None:
    """Raise if ``index`` is no number of one of the ``count`` inputs or outputs."""
    try:
        number = operator.index(index)
    except TypeError:
        raise ArgumentError(
            f"{what}: {index!r} is {a_type(index)} and no number of an {kind}."
        ) from None
    if not 0 <= number < count:
        raise IndexOutOfRangeError(
            f"{what}: there is no {kind} {index}; the jaxpr has {count}, counted from 0."
        )


def refuse_no_function(what: str, given: object) -> None:
    """Raise if something else is given in place of a function of arrays."""
    if isinstance(given, (jax.stages.Traced, jax.stages.Lowered, jax.stages.Compiled)):
        raise ArgumentError(
            f"{what}: given is a jax.stages.{type(given).__name__} and not a function. Give the "
            "function that it was made of."
        )
    if inspect.isgeneratorfunction(given) or inspect.iscoroutinefunction(given):
        kind = "coroutine" if inspect.iscoroutinefunction(given) else "generator"
        raise ArgumentError(
            f"{what}: {name_of(given)} returns a {kind} and no arrays. Give a function that calls "
            "it and returns arrays."
        )
    if not callable(given):
        if hasattr(given, "eqns"):  # of which a repr has hundreds of lines
            raise ArgumentError(
                f"{what}: given is {a_type(given)} and not a function. Give the function "
                "that it was made of; of a jaxpr the tags are read by find_tags and changed by "
                "inject(jaxpr, injector, ctx)."
            )
        raise ArgumentError(f"{what}: {given!r} is {a_type(given)}, not a function.")


def refuse_other_arguments(what: str, target: Any, args: Any, kwargs: Any) -> None:
    """Raise if one of two inputs cannot be the arguments of a function or a program."""
    if wrong := unfit(target, *args, **kwargs):
        raise ArgumentError(
            f"{what}: {name_of(target)} does not take one of the two inputs: {wrong[1]}. Each "
            "input is a tuple of all arguments where there are several: (params, clean), (params, "
            "other)."
        )


@contextlib.contextmanager
def told_as(before: str, after: str) -> Generator[None, None, None]:
    """A context that makes errors begin with the name of the function that the user called.

    Example:
        >>> from taxpr._errors import ArgumentError, told_as
        >>> with told_as("trace", "memory"):
        ...     raise ArgumentError("trace(f): x is missing")
        Traceback (most recent call last):
        taxpr._errors.ArgumentError: memory(f): x is missing
    """
    try:
        yield
    except TaxprError as error:
        text = str(error)
        if text.startswith((f"{before}(", f"{before}:")):
            error.args = (after + text[len(before) :], *error.args[1:])
        raise


def signature_of(fun: Callable[..., object]) -> inspect.Signature | None:
    """The signature of a function; None if it is not known, as for some builtins."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def unfit(
    fun: Callable[..., object], /, *args: object, **kwargs: object
) -> tuple[inspect.Signature, TypeError] | None:
    """The signature of a function that does not take these arguments, and why; else None."""
    if (signature := signature_of(fun)) is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return signature, error
    return None


def name_of(fun: object) -> str:
    """The name of a function, of the function in a `functools.partial`, or of a type."""
    fun = getattr(fun, "func", fun)
    return getattr(fun, "__name__", None) or getattr(fun, "name", None) or type(fun).__name__
