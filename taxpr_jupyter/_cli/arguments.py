"""Parse example arguments from a short text: `f32[8,16] {w: f32[16], n: i32} 0.5 rate=0.1`.

Types with shapes become `jax.ShapeDtypeStruct`, so no array is made. Nothing is evaluated.
"""

import ast
import re
from typing import Any

import jax
import numpy as np

from taxpr_jupyter._errors import PanelError

WAYS = (
    "Write types with shapes such as f32[8,16], bf16[4], i32 or key, numbers, True, None, 'text', "
    "(a, b), [a, b], {name: a}, and name=a for a keyword argument; or use --args-from."
)
_SHORT = {
    "bool": "bool",
    "pred": "bool",
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
    "u2": "uint2",
    "i2": "int2",
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{k[0]}{n}": f"{k}{n}" for k in ("int", "uint") for n in (4, 8, 16, 32, 64)},
}
_LONG = frozenset(_SHORT.values())


def parse(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Parse positional and keyword arguments, separated by spaces or commas.

    Raises:
        PanelError: If the text cannot be parsed.

    Example:
        >>> parse("f32[8,16] 0.5 n=3")[0][0]
        ShapeDtypeStruct(shape=(8, 16), dtype=float32)
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for part in _parts(text):
        name, equals, value = part.partition("=")
        if equals and name.strip().isidentifier():
            if name.strip() in kwargs:
                raise PanelError(f"The argument {name.strip()} is given twice")
            kwargs[name.strip()] = _value(_tree(value), value)
        elif kwargs:
            raise PanelError(f"{part} comes after {next(iter(kwargs))}=…: keyword arguments last")
        else:
            args.append(_value(_tree(part), part))
    return tuple(args), kwargs


def _parts(text: str) -> list[str]:
    """The text split at spaces and commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and (char.isspace() or char == ","):
            parts.append("")
            continue
        parts[-1] += char
    return [part for part in parts if part]


def _tree(part: str) -> ast.expr:
    # Python has no empty index: `f32[]` is a scalar, as JAX prints it.
    source = re.sub(r"(\w)\s*\[\s*\]", r"\1[()]", part.strip())
    try:
        return ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise PanelError(f"The argument {part!r} cannot be read. {WAYS}") from error


def _value(node: ast.expr, part: str) -> Any:
    match node:
        case ast.Constant(value=value) if not isinstance(value, (bytes, type(...))):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=value)):
            if isinstance(value, (int, float, complex)):
                return -value if isinstance(sign, ast.USub) else value
        case ast.Tuple(elts=items):
            return tuple(_value(item, part) for item in items)
        case ast.List(elts=items):
            return [_value(item, part) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(k, part): _value(v, part) for k, v in zip(keys, values, strict=True)}
        case ast.Name(id=name):
            return _array(name, (), part)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            sizes = index.elts if isinstance(index, ast.Tuple) else [index]
            return _array(name, tuple(_size(size, part) for size in sizes), part)
    raise PanelError(f"The argument {part!r} cannot be read. {WAYS}")


def _key(node: ast.expr | None, part: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant):
        return node.value
    raise PanelError(f"In the argument {part!r} a key is no name. {WAYS}")


def _size(node: ast.expr, part: str) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise PanelError(f"In the argument {part!r} a size is no number. {WAYS}")


def _array(name: str, shape: tuple[int, ...], part: str) -> Any:
    if name == "key":
        # The key dtype depends on JAX's setting for the default generator.
        key = jax.eval_shape(jax.random.key, jax.ShapeDtypeStruct((), np.uint32))
        return jax.ShapeDtypeStruct(shape, key.dtype)
    long = _SHORT.get(name, name)
    if long not in _LONG:
        raise PanelError(f"{name!r} in the argument {part!r} is no type. {WAYS}")
    dtype = jax.numpy.dtype(long)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise PanelError(
            f"JAX makes {jax.dtypes.canonicalize_dtype(dtype).name} of {name} unless it is told "
            "otherwise: set JAX_ENABLE_X64=1 in the environment, or write that type"
        )
    return jax.ShapeDtypeStruct(shape, dtype)
