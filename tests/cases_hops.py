"""More programs of the shared table: the higher-order primitives that few programs have.

Each is there where the installed JAX has the primitive. See `cases`, which lists them.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from taxpr import tag

W = np.linspace(-1.0, 1.0, 3).astype(np.float32)  # an array that programs close over
X = np.float32(0.7)
V = np.asarray([0.3, -0.8, 1.1], np.float32)

# Of each: the function, its arguments, and the other fields of a `cases.Case`.
PROGRAMS = []


def case(*args, has=True, **more):
    """Adds a program; ``has`` is whether this JAX has what it needs."""

    def add(fn):
        if has:
            PROGRAMS.append((fn, args, more))
        return fn

    return add


def found(module, name):
    """An attribute of a module of JAX, or None."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def works(run):
    """Whether JAX can do it here."""
    try:
        run()
    except Exception:
        return False
    return True


# ---- calls -------------------------------------------------------------------

# compute_on2 up to 0.10 or 0.11. The older compute_on is a context manager, and 0.8 cannot
# run compute_on2 on a CPU.
compute_on = found("jax._src.compute_on", "compute_on2") or found(
    "jax._src.compute_on", "compute_on"
)
HOST = {"compute_type": "device_host", "out_memory_spaces": jax.memory.Space.Device}
COMPUTES = works(lambda: compute_on(jnp.sin, **HOST)(V))
metadata_call = found("jax._src.xla_metadata", "xla_metadata_call") or found(
    "jax.experimental.scheduling_groups", "xla_metadata_call"
)
# 0.8 does not take a gradient of one that closes over an array.
METADATA_GRAD = works(lambda: jax.grad(lambda v: metadata_call(lambda x: x * W, g="g")(v).sum())(V))
program_order = found("jax._src.program_order", "program_order")


@case(V, has=COMPUTES, fires=("on host", "after"))
def compute_on_host(v):
    def body(x):
        y = tag(x * 2 + W, name="on host")
        return y, jnp.sin(y)

    a, b = compute_on(body, **HOST)(v)
    return tag(a * b, name="after")


@case(V, has=metadata_call is not None, reverse=METADATA_GRAD, fires=("in call", "in call"))
def metadata(v):
    f = metadata_call(lambda x: tag(x * 2 + W, name="in call"), group="g")
    return f(f(v))


@case(V, has=program_order is not None, fires=("first", "second"))
def order_enforced(v):
    def body(x):
        y = tag(jnp.sin(x) + W, name="first")
        return tag(y * x, name="second")

    return program_order(body, enforce=True, strict_in_out=True)(v)


@case(V, np.int32(3), has=program_order is not None)
def order_with_an_exclusion(v, n):
    def body(x, n):
        return tag(x * n.astype(x.dtype) + W, name="in order")

    inner = program_order(body, enforce=False, exclude_argnames="n")
    return program_order(lambda x, n: inner(x, n) * 2, enforce=True)(v, n)


# ---- solvers -----------------------------------------------------------------

A = np.asarray([[3.0, 0.5, 0.0], [0.2, 2.0, -0.4], [0.0, 0.3, 4.0]], np.float32)


def jacobi(matvec, b):
    """Some steps of an iteration, with a tag in each."""
    diagonal = jnp.asarray(np.diag(A))

    def step(x, _):
        return tag(x + (b - matvec(x)) / diagonal, name="step"), None

    return lax.scan(step, jnp.zeros_like(b), None, length=12)[0]


@case(V, X, fires=("step",) * 12 + ("after",), keeps_rule=True, tolerance=1e-4)
def linear_solve_matrix(v, x):
    def matvec(y):
        return (A * x) @ y

    def solve(matvec, b):
        return jacobi(matvec, b)

    def transpose_solve(vecmat, b):
        return jnp.linalg.inv((A * x).T) @ b

    y = lax.custom_linear_solve(matvec, jnp.sin(v), solve, transpose_solve)
    return tag(y * 2, name="after")


@case(V, fires=("in aux",), keeps_rule=True)
def linear_solve_aux(v):
    def solve(matvec, b):
        x = {"x": tag(b["x"] / 2.0 + 0.0 * W, name="in aux")}
        return x, {"size": x["x"].sum(), "n": jnp.int32(4)}

    x, aux = lax.custom_linear_solve(
        lambda x: {"x": 2.0 * x["x"]},
        {"x": v},
        solve,
        symmetric=False,
        has_aux=True,
        transpose_solve=lambda vecmat, b: (
            {"x": b["x"] / 2.0},
            {"size": b["x"].sum(), "n": jnp.int32(4)},
        ),
    )
    return x["x"] * aux["size"], aux


CUSTOM_ROOT = found("jax._src.lax.control_flow.solves", "CustomRoot") is not None


@case(np.float32(8), V, has=CUSTOM_ROOT, fires=("step",) * 15 + ("root",), keeps_rule=True)
def root_of_a_cube(x, v):
    def newton(f, y):
        y = lax.fori_loop(0, 15, lambda i, y: tag(y - f(y) / (3.0 * y**2), name="step"), y)
        return tag(y, name="root")

    def f(y):
        return y**3 - x * (1.0 + jnp.sum(W * W) * 0.0) - v**2

    return lax.custom_root(f, jnp.ones(3), newton, lambda g, y: y / g(jnp.ones(3)))


@case(np.float32(8), has=CUSTOM_ROOT, keeps_rule=True)
def root_with_aux(x):
    def newton(f, y):
        y = lax.fori_loop(0, 20, lambda i, y: y - f(y) / (3.0 * y**2), y)
        return tag(y, name="root"), {"residual": f(y), "n": jnp.int32(20)}

    return lax.custom_root(
        lambda y: y**3 - x, jnp.float32(1), newton, lambda g, y: y / g(1.0), has_aux=True
    )


# ---- rules that injection drops ----------------------------------------------


# JAX differentiates it only forward.
@case(V, reverse=False, fires=("mapped", "after"))
def custom_vmap(v):
    @jax.custom_batching.custom_vmap
    def f(x):
        return tag(x * 2 + W, name="mapped")

    f.def_vmap(lambda size, batched, x: (x * 2 + jnp.broadcast_to(W, x.shape), batched[0]))
    return tag(f(v), name="after")


@case(V, vmap=False, fires=("linear",))
def linear_call(v):
    def f(res, x):
        return tag(x * res + x * W, name="linear")

    def transpose(res, ct):
        return ct * res + ct * W

    return jax.custom_derivatives.linear_call(f, transpose, jnp.asarray(W), v)


@case(V, vmap=False, reverse=False, fires=("in composite",))
def composite(v):
    f = lax.composite(lambda x, y: tag(x * y + W, name="in composite"), "taxpr.test", version=1)
    return f(v, 2.0 * v)


custom_partitioning = found("jax.experimental.custom_partitioning", "custom_partitioning")


# It has neither a batching rule nor derivatives, and may not close over arrays.
@case(V, vmap=False, reverse=False, fires=("partitioned",))
def partitioned(v):
    @custom_partitioning
    def f(x):
        return tag(x * 2 + 1.0, name="partitioned")

    f.def_partition(
        partition=lambda mesh, args, result: (mesh, f, result, args), sharding_rule="i -> i"
    )
    return f(v)


custom_transpose = found("jax._src.custom_transpose", "custom_transpose")


@case(V, has=custom_transpose is not None, vmap=False, reverse=False, fires=("transposed",))
def transposed(v):
    @custom_transpose
    def f(res, x):
        return tag(x * res, name="transposed")

    f.def_transpose(lambda res, ct: ct * res)
    return f(jax.core.ShapedArray(v.shape, v.dtype), jnp.asarray(W), v)


# ---- Refs --------------------------------------------------------------------

run_state = found("jax._src.state.discharge", "run_state")
new_ref = getattr(jax, "new_ref", None) or found("jax._src.core", "mutable_array")


@case(V, X, vmap=False, batches=False, reverse=False, fires=("a", "step", "step", "step", "b"))
def state(v, x):
    def body(refs):
        a, b = refs
        a[...] = tag(a[...] * 2 + W, name="a")

        def step(c, y):
            b[...] = b[...] + c
            return tag(c * 0.5 + y, name="step"), None

        c, _ = lax.scan(step, b[...], a[...])
        b[...] = tag(b[...] + c, name="b")

    return run_state(body)((v, x))


@case(V, vmap=False, reverse=False, fires=("before", "c", "c", "c", "last"))
def refs_of_the_user(v):
    ref = new_ref(tag(v * 2, name="before"))

    def step(c, x):
        ref[...] = ref[...] * 0.5 + tag(c, name="c")
        return c + x, ref[...].sum()

    c, ys = lax.scan(step, jnp.float32(0.1), v)
    return tag(ref[...] + c + W, name="last"), ys
