"""A random program as text, and as a function: the function is made of the text.

So a failure can be read, run by itself and moved into `tests/cases.py` as it is printed.
"""

import dataclasses
import itertools
import textwrap

import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Type:
    """The type of an array: a letter for the dtype, see `DTYPES`, and the shape."""

    dtype: str
    shape: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Line:
    """A statement without functions of its own, such as ``v3 = jnp.sin(v1)``."""

    text: str


@dataclasses.dataclass(frozen=True)
class Block:
    """A function: its header ``def f2(v4, v5)``, its statements, what it returns."""

    header: str
    body: tuple["Line | Hop", ...]
    result: str


@dataclasses.dataclass(frozen=True)
class Hop:
    """A higher-order function at work: the functions that it gets, then the call."""

    kind: str
    blocks: tuple[Block, ...]
    text: str


@dataclasses.dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        block: The function.
        args: The types of its arguments.
    """

    block: Block
    args: tuple[Type, ...]


# F is float32, or float64 where derivatives are compared with finite differences.
DTYPES = {"f": "F", "h": "jnp.bfloat16", "i": "jnp.int32", "u": "jnp.uint8", "b": "bool"}

PREAMBLE = """\
import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from taxpr import keep, tag

F = jnp.float32
"""
# What programs use and do not make: closed-over arrays, and functions of a few lines.
HELPERS = {
    "W2": "W2 = np.asarray([0.8, -0.4], F)",
    "W3": "W3 = jnp.asarray([-0.6, 0.2, 0.9], F)",
    "S": "S = jnp.asarray(0.45, F)",
    "N": "N = jnp.asarray(5, jnp.int32)",
    "THREE": "THREE = 3",
    "closed_call": '''
def closed_call(f, *args):
    jaxpr = jax.make_jaxpr(f)(*args)
    primitive = jex.primitives.closed_call_p
    bound = primitive.get_bind_params({"call_jaxpr": jaxpr})
    subfuns, params = bound if isinstance(bound, tuple) else ([], bound)
    return tuple(primitive.bind(*subfuns, *args, **params))
''',
    "mesh_of_one": '''
def mesh_of_one():
    return jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
''',
}  # fmt: skip


def as_source(program):
    """Python text that defines ``program`` and ``ARGS`` and that runs by itself."""
    body = "\n".join(_rendered(program.block))
    args = "\n".join(f"    {arg_text(t, k)}," for k, t in enumerate(program.args))
    helpers = [text for name, text in HELPERS.items() if name in body]
    return "\n".join([PREAMBLE, *helpers, f"ARGS = (\n{args}\n)\n\n", body, ""])


def as_tuple(texts):
    return f"({', '.join(texts)},)" if texts else "()"


def _rendered(block):
    yield f"{block.header}:"
    for statement in block.body:
        if isinstance(statement, Hop):
            for inner in statement.blocks:
                yield textwrap.indent("\n".join(_rendered(inner)), "    ")
        yield textwrap.indent(statement.text, "    ")
    yield f"    return {block.result}"


def arg_text(kind, index, lane=0):
    """The text of an argument; ``lane`` gives others of the same type."""
    size = int(np.prod(kind.shape, dtype=int))
    number = 1 + index + 3 * lane
    if kind.dtype == "k":
        key = f"jax.random.key({number})"
        return key if not kind.shape else f"jax.random.split({key}, {kind.shape})"
    if kind.dtype == "b":
        flat = [(number + k) % 3 != 0 for k in range(size)]
    elif kind.dtype in "iu":
        flat = [(number + 2 * k) % 4 for k in range(size)]
    else:
        flat = [round(float(np.sin(1.7 * number + k)), 3) for k in range(size)]
    value = np.reshape(np.asarray(flat), kind.shape).tolist()
    return f"jnp.asarray({value}, {DTYPES[kind.dtype]})"


_serial = itertools.count()


def build(program, float_dtype=jnp.float32):
    """The function and its arguments: ``(fn, args)``."""
    fn, namespace = _run(program, float_dtype)
    return fn, namespace["ARGS"]


def lanes(program, count):
    """Other arguments of the same types, ``count`` of them."""
    _, namespace = _run(program, jnp.float32)
    return [
        tuple(
            eval(arg_text(kind, index, lane), namespace) for index, kind in enumerate(program.args)
        )
        for lane in range(count)
    ]


def _run(program, float_dtype):
    name = f"<fuzz {next(_serial)}>"
    text = as_source(program).replace("F = jnp.float32", f"F = jnp.{jnp.dtype(float_dtype).name}")
    if float_dtype == jnp.float64:  # where the number would be an int64
        text = text.replace("THREE = 3", "THREE = jnp.int32(3)")
    namespace = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], namespace
