"""Hints for the most frequent errors of tracing.

`hint` recognizes an error by its public class if JAX has one, otherwise by its message.
"""

import re

import jax

_STATIC = (
    "make that argument static (`%%taxpr --static NAME`, or `static_argnames='NAME'` of `draw` and "
    "`panel`)"
)

LEAKED = (
    "A traced value left the function that was traced, by way of a global, an attribute or a "
    "list, and was used later. Return it from the function instead."
)

# Most specific first: a class may derive from one below it.
_BY_CLASS: tuple[tuple[type[BaseException], str], ...] = (
    (
        jax.errors.TracerBoolConversionError,
        "A Python `if`, `while`, `and`, `or`, `not` or `assert` needs the truth of a traced value, "
        "which is not known yet. Use `jnp.where`, `jax.lax.cond` or `jax.lax.while_loop`, or "
        f"{_STATIC}.",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "A NumPy function was given a traced value. Use the function of the same name from "
        "`jax.numpy`.",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        "A traced value was used where Python needs an integer (`range`, an index of a list, a "
        f"size). Use `jax.lax.fori_loop` or index an array, or {_STATIC}.",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "A mask as index gives a shape that depends on values. Use `jnp.where(mask, x, 0)`, or "
        "`jnp.nonzero(mask, size=...)`.",
    ),
    (
        jax.errors.UnexpectedTracerError,
        LEAKED,
    ),
    (
        jax.errors.ConcretizationTypeError,
        "A traced value was used where Python needs a known one (`float`, `int`, `.item()`, a "
        f"size). Stay in `jax.numpy`, or {_STATIC}.",
    ),
)

_BY_MESSAGE: tuple[tuple[str, str], ...] = (
    (
        r"Non-hashable static arguments.*BatchTracer",
        "`jax.vmap` maps over an argument that `jax.jit` holds static. Leave it out of the mapping "
        "(None in `in_axes`) and loop over its values in Python, or let it be traced.",
    ),
    (
        r"Non-hashable static arguments.*Tracer",
        "An argument that `jax.jit` holds static is traced here, for numbers are traced unless "
        f"told otherwise: {_STATIC}.",
    ),
    (
        r"Non-hashable static arguments",
        "A static argument must be hashable: pass a tuple instead of a list, a frozen dataclass "
        "instead of a dict, and arrays as arguments that are not static.",
    ),
    (
        r"Shapes must be 1D sequences of concrete values",
        "A shape must be known while tracing, and it depends on a traced value here. Take it from "
        f"`x.shape`, or {_STATIC}.",
    ),
    (
        r"carry input and carry output must have|body_fun output and input must have",
        "The carry that a loop's body returns must have the shape and dtype of the carry it gets: "
        "look at the first value of the carry (`0` is int32, `0.0` is float32).",
    ),
    (
        r"branch(es)? .*must have",
        "All branches must return the same structure, shapes and dtypes.",
    ),
    (
        r"incompatible shapes|contracting dimensions|cannot reshape|"
        r"Incompatible shapes for broadcasting|must have equal shapes",
        "Two shapes do not fit. Print `x.shape` in the function: shapes are known while tracing, "
        "only values are not.",
    ),
    (
        r"not a valid JAX type|Error interpreting argument to .* as an abstract array",
        "A traced function takes and returns arrays and numbers, and lists, tuples and dicts of "
        "these. Any other argument, such as a string, must be static: "
        "`jax.jit(f, static_argnames='NAME')`.",
    ),
    (
        r"requires ndarray or scalar arguments, got <class '(list|tuple)'>",
        "`jax.numpy` does not make an array of a list by itself: `jnp.asarray(x)`, once.",
    ),
    (
        r"unhashable type: '\w*Tracer'",
        "A traced value has no hash, so it is no key of a dict or a set. Use an integer as the "
        "index of an array, or `jax.lax.switch`.",
    ),
    (
        r"unsupported format string passed to \w*Tracer",
        "A traced value has no digits to print yet. Use `jax.debug.print('{x:.2f}', x=x)`.",
    ),
    (
        r"Reverse-mode differentiation does not work for lax.while_loop",
        "The gradient of a loop needs a known number of iterations: `jax.lax.scan`, or "
        "`jax.lax.fori_loop` with bounds that are not traced values.",
    ),
)


def hint(error: BaseException) -> str | None:
    """One or two sentences that say how to fix a tracing error of JAX, or None."""
    return hint_of(type(error), str(error))


def hint_of(error: type[BaseException], message: str) -> str | None:
    """The same for an error of this class that says so."""
    for kind, text in _BY_CLASS:
        if issubclass(error, kind):
            return text
    message = " ".join(message.split())
    if issubclass(error, (TypeError, ValueError)):
        for pattern, text in _BY_MESSAGE:
            if re.search(pattern, message):
                return text
    return None
