"""One table of searches, for the panel's (Python) and for that of a saved page (JavaScript)."""

import jax
import jax.numpy as jnp
from jax import lax

import taxpr


def helper(x):
    return jnp.exp(x) / 3.0


def model(params, x):
    with jax.named_scope("encoder"):
        h = taxpr.tag(jnp.tanh(x @ params["w"]), name="hidden")
    with jax.named_scope("decoder"), jax.named_scope("head"):

        def step(c, row):
            c = taxpr.tag(jnp.sin(c) + row, name="carried", kind="state")
            return c, c.astype(jnp.bfloat16)

        c, ys = lax.scan(step, jnp.zeros(4), h)
    return helper(c), jax.jit(jnp.cos)(ys)


LINE = model.__code__.co_firstlineno
SCAN = "3:scan"
IN = "3:scan/body/"


def program():
    return taxpr.trace(model)({"w": jnp.ones((3, 4))}, jnp.ones((5, 3)))


# What is searched for, and where it is found.
SEARCHES = [
    ("tanh", ["1:tanh"]),
    ("TANH", ["1:tanh"]),
    ("dot", ["0:dot_general"]),
    ("prim:dot", ["0:dot_general"]),
    ("prim:*_general", ["0:dot_general"]),
    ("prim:sin", [f"{IN}0:sin"]),
    ("hidden", ["t0"]),
    ("tag:carried", [f"{IN}t0"]),
    ("tag:carr", []),  # as taxpr's selectors: a name or a glob
    ("tag:carr*", [f"{IN}t0"]),
    ("state", [f"{IN}t0"]),
    ("scope:encoder", ["0:dot_general", "1:tanh", "t0"]),
    ("scope:decoder/head prim:sin", [f"{IN}0:sin"]),  # in the scope of the scan
    ("head sin", [f"{IN}0:sin"]),
    ("scope:code", []),
    ("fn:helper", ["4:exp", "5:div"]),
    ("helper", ["4:exp", "5:div"]),
    ("params['w']", ["in0"]),
    (
        "bf16",
        [f"{IN}2:convert_element_type", SCAN, "6:jit", "6:jit/call/in0", "6:jit/call/0:cos"],
    ),
    ("bfloat16 cos", ["6:jit", "6:jit/call/0:cos"]),
    ("dtype:f16", []),
    ("[5,3]", ["in1"]),
    ("shape:5,3", ["in1"]),
    ("shape:(5,3)", ["in1"]),
    ("f32[*,3]", ["in1"]),
    ("f32[...,4] prim:tanh", ["1:tanh"]),
    ("f32[5, 4]", ["0:dot_general", "1:tanh", "t0"]),
    ("[4,...,4]", []),
    (f"searches.py:{LINE + 2}", ["0:dot_general", "1:tanh", "t0"]),
    (f"line {LINE + 2} tanh", ["1:tanh"]),
    (f"line:{LINE + 2} prim:tanh", ["1:tanh"]),
    (f"line:other.py:{LINE + 2}", []),
    (f"source:searches.py:{LINE + 2} prim:tanh", ["1:tanh"]),
    ("source:other.py", []),
    (SCAN, [SCAN]),
    (f"{IN}0:sin.0", [f"{IN}0:sin"]),
    ("*/body/*:sin", [f"{IN}0:sin"]),
    ("in1", ["in1"]),
    ("out1", ["out1"]),
    ("a:", ["in0"]),
    ("scan ×5", [SCAN]),
    ('"scan ×5"', [SCAN]),
    ("3.0", ["5:div"]),
    ("a:f32[3,4]", ["in0"]),
    ("f32[3,4,...]", ["in0"]),
    ("float32[*,3]", ["in1"]),
    ("[...,3,...] prim:*", []),
    ("SCOPE:encoder PRIM:TANH", ["1:tanh"]),
    ("scope:de*r/head prim:sin", [f"{IN}0:sin"]),
    ("source:model prim:tanh", ["1:tanh"]),
    ("name:params", ["in0"]),
    ("name:params['?']", ["in0"]),
    ("tanh sin", []),
    ("", []),
    ("  ", []),
    ("nothing_like_this", []),
]

# What makes no sense, and what is said of it.
MISTAKES = [
    ("shape:big", "big is no shape. Examples: shape:[2,*] shape:[...,64]"),
    ("shape:[", "[ is no shape"),
    ("shape:[2,", "[2, is no shape"),
    ("shape:[2,,3]", "[2,,3] is no shape"),
    ("shape:[2**]", "[2**] is no shape"),
    ("shape:f32", "f32 is no shape"),
    ("tanh prim:", "Nothing follows prim: in the search. An example: prim:dot"),
    ('scope:""', "Nothing follows scope:"),
    ("line:first", "first is no line. An example: line:12"),
    ("scope:/", "/ is no part of a name stack. An example: scope:block_0"),
    ("line:model.py:", "model.py: is no line"),
    (
        "foo:bar",
        "A search knows no foo: but prim: name: tag: dtype: shape: source: line: var: fn: scope:",
    ),
    ("foo:bar", 'In quotes, "foo:bar" is searched literally.'),
]
