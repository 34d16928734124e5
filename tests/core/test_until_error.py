"""What was traced until an error: which equations, which one failed, and that no error is lost."""

import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import check_types

import taxpr

X, WIDE, PAIR = jnp.ones(3), jnp.ones((2, 3)), jnp.ones(2)


def layer(h, w):
    y = jnp.tanh(h)
    return y @ w


def in_jit_in_scan(x, ws):
    z = x * 2

    def body(c, w):
        d = jnp.sin(c)
        return jax.jit(layer)(d, w), None

    return jax.lax.scan(body, z, ws)[0]


def bitwise(x):
    y = jnp.exp(x)
    return y & 1


def branches_on_a_value(x):
    y = jnp.sin(x)
    if y > 0:
        return y
    return -y


def to_int(x):
    n = jnp.sum(x)
    return jnp.ones(int(n))


def to_numpy(x):
    y = jnp.cos(x)
    return np.asarray(y)


def vector_loss(w):
    return jnp.sin(w)


def not_scalar(w):
    return jax.grad(vector_loss)(w)


def of_a_loss(w):
    def loss(w):
        h = jnp.sin(w)
        return (h @ WIDE).sum()

    return jax.grad(loss)(w)


def step(c, x):
    return (c + x).astype(jnp.int32), x


def carry(xs):
    total = jnp.sum(xs)
    return jax.lax.scan(step, total, xs)


def double(x):
    return x * 2


def first(x):
    return x[:1]


def branches(x):
    return jax.lax.cond(x.sum() > 0, double, first, x)


def raises(x):
    y = x + 1
    raise KeyError("no such layer")
    return y


def raises_in_a_branch(x):
    return jax.lax.cond(x.sum() > 0, raises, double, x)


def mapped(xs):
    return jax.vmap(lambda x: jnp.sin(x) @ PAIR)(xs)


def closes_over(x):
    y = jnp.sin(x)

    def row(r):
        return r @ y

    return jax.lax.map(row, jnp.ones((2, 2)))


def returns_text(x):
    return jnp.sin(x), np.array("text")


def counts(x):
    def go_on(c):
        return c[0] < 3

    def once_more(c):
        return c[0] + 1, c[1] @ PAIR

    return jax.lax.while_loop(go_on, once_more, (0, x))


@jax.custom_jvp
def own_rule(x):
    return jnp.sin(x) @ PAIR


own_rule.defjvps(lambda t, ans, x: t)


def in_a_custom_rule(x):
    return own_rule(x * 2)


def remat(x):
    return jax.checkpoint(layer)(x, WIDE)


# The function, its arguments, the kind of error; the addresses, and what failed, in which line of
# the function.
FAILING = {
    "matmul in jit in scan": (
        (in_jit_in_scan, (jnp.ones((4, 8)), jnp.ones((3, 5, 8))), TypeError),
        [
            "0:mul",
            "1:unfinished",
            "1:unfinished/body/0:sin",
            "1:unfinished/body/1:unfinished",
            "1:unfinished/body/1:unfinished/body/0:tanh",
            "1:unfinished/body/1:unfinished/body/1:failed",
        ],
        ("y @ w", "y: f32[4,8], w: f32[5,8]", layer, 2),
    ),
    "bitwise of floats": (
        (bitwise, (X,), TypeError),
        ["0:exp", "1:failed"],
        ("y & 1", "y: f32[3]", bitwise, 2),
    ),
    "if of a value": (
        (branches_on_a_value, (1.0,), jax.errors.TracerBoolConversionError),
        ["0:sin", "1:gt", "2:failed"],
        ("y > 0", "bool[]", branches_on_a_value, 2),
    ),
    "int of a value": (
        (to_int, (X,), jax.errors.ConcretizationTypeError),
        ["0:reduce_sum", "1:failed"],
        ("int(n)", "n: f32[]", to_int, 2),
    ),
    "numpy of a value": (
        (to_numpy, (X,), jax.errors.TracerArrayConversionError),
        ["0:cos", "1:failed"],
        ("np.asarray(y)", "y: f32[3]", to_numpy, 2),
    ),
    "grad of a vector": (
        (not_scalar, (X,), TypeError),
        ["0:sin", "1:cos", "2:failed"],
        ("jax.grad(vector_loss)(w)", "w: f32[3]", not_scalar, 1),
    ),
    "in the loss of a grad": (
        (of_a_loss, (X,), TypeError),
        ["0:sin", "1:cos", "2:failed"],
        ("h @ WIDE", "h: f32[3], WIDE: f32[2,3]", of_a_loss, 3),
    ),
    "carry of another type": (
        (carry, (X,), TypeError),
        [
            "0:reduce_sum",
            "1:failed",
            "1:failed/body/0:add",
            "1:failed/body/1:convert_element_type",
        ],
        ("jax.lax.scan(step, total, xs)", "total: f32[], xs: f32[3]", carry, 2),
    ),
    "branches that differ": (
        (branches, (X,), TypeError),
        ["0:reduce_sum", "1:gt", "2:failed", "2:failed/body0/0:mul", "2:failed/body1/0:slice"],
        ("jax.lax.cond(x.sum() > 0, double, first, x)", "bool[], x: f32[3]", branches, 1),
    ),
    "an error of the user": (
        (raises, (X,), KeyError),
        ["0:add", "1:failed"],
        ('raise KeyError("no such layer")', "", raises, 2),
    ),
    "an error of the user in a branch": (
        (raises_in_a_branch, (X,), KeyError),
        [
            "0:reduce_sum",
            "1:gt",
            "2:unfinished",
            "2:unfinished/body/0:add",
            "2:unfinished/body/1:failed",
        ],
        ('raise KeyError("no such layer")', "", raises, 2),
    ),
    "what vmap maps": (
        (mapped, (WIDE,), TypeError),
        ["0:sin", "1:failed"],
        ("jnp.sin(x) @ PAIR", "f32[3], PAIR: f32[2]", mapped, 1),
    ),
    "closed over": (
        (closes_over, (X,), TypeError),
        ["0:sin", "1:broadcast_in_dim", "2:unfinished", "2:unfinished/body/0:failed"],
        ("r @ y", "r: f32[2], y: f32[3]", closes_over, 4),
    ),
    "returned no array": (
        (returns_text, (X,), TypeError),
        ["0:sin", "1:failed"],
        ("", "f32[3]", returns_text, 0),
    ),
    "in a while loop": (
        (counts, (X,), TypeError),
        ["0:unfinished", "0:unfinished/body/0:add", "0:unfinished/body/1:failed"],
        ("c[1] @ PAIR", "f32[3], PAIR: f32[2]", counts, 5),
    ),
    "in a function with its own rule": (
        (in_a_custom_rule, (X,), TypeError),
        ["0:mul", "1:unfinished", "1:unfinished/body/0:sin", "1:unfinished/body/1:failed"],
        ("jnp.sin(x) @ PAIR", "f32[3], PAIR: f32[2]", own_rule.__wrapped__, 2),
    ),
    "in a checkpoint": (
        (remat, (X,), TypeError),
        ["0:unfinished", "0:unfinished/body/0:tanh", "0:unfinished/body/1:failed"],
        ("y @ w", "y: f32[3], w: f32[2,3]", layer, 2),
    ),
    "a function of JAX": (
        (jnp.matmul, (X, WIDE), TypeError),
        ["0:failed"],
        ("", "f32[3], f32[2,3]", None, 0),
    ),
}


def failed(fn, args, kind, **options):
    """The error that tracing raises, and what was traced until then."""
    with pytest.raises(kind) as caught:
        taxpr.trace(fn, **options)(*args)
    return caught.value, taxpr.until_error(caught.value)


def failure(program):
    [found] = filter(None, (taxpr.failure_of(eqn) for *_, eqn in taxpr.iter_eqns(program)))
    return found


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("case", FAILING)
def test_what_was_traced(case, names):
    (fn, args, kind), addresses, (text, given, where, line) = FAILING[case]
    error, program = failed(fn, args, kind, names=names)
    assert [address for address, _ in taxpr.iter_eqns(program)] == addresses
    found = failure(program)
    assert (found.error, found.text, found.given) == (type(error), text, given)
    assert found.message == str(error)
    if where is None:
        assert found.source is None
    else:
        code = where.__code__
        assert found.source.file == code.co_filename
        assert found.source.line == code.co_firstlineno + line


@pytest.mark.parametrize("case", FAILING)
def test_the_jaxpr_is_one(case):
    (fn, args, kind), *_ = FAILING[case]
    program = failed(fn, args, kind)[1]
    check_types(program.jaxpr)
    assert str(program.jaxpr)
    assert len(program.in_names) == len(program.invars)


def test_variables_have_their_names():
    program = failed(in_jit_in_scan, (jnp.ones((4, 8)), jnp.ones((3, 5, 8))), TypeError, names=True)
    names = {str(one): one.address for one in program[1].variables()}
    assert names["in_jit_in_scan.z 0"] == "0:mul.0"
    assert names["layer.y 0"] == "1:unfinished/body/1:unfinished/body/0:tanh.0"


def test_values_go_in_where_they_came_from():
    program = failed(in_jit_in_scan, (jnp.ones((4, 8)), jnp.ones((3, 5, 8))), TypeError)[1]
    scan = program.eqns[1]
    assert list(scan.invars) == [program.eqns[0].outvars[0], program.invars[1]]
    [nested] = taxpr.nested_jaxprs(scan)
    assert (nested.operands, nested.title) == ((0, 1), "scan body (unfinished)")


def test_the_choice_of_a_branch_is_left_out():
    [*_, cond] = failed(raises_in_a_branch, (X,), KeyError)[1].eqns
    assert [atom.aval.shape for atom in cond.invars] == [(3,)]


def test_the_error_is_as_without_taxpr():
    with pytest.raises(TypeError) as plain:
        jax.make_jaxpr(bitwise)(X)
    error, _ = failed(bitwise, (X,), TypeError)
    assert str(error) == str(plain.value)
    frames = [
        [(frame.name, frame.line) for frame in traceback.extract_tb(one.__traceback__)]
        for one in (error, plain.value)
    ]
    assert ("bitwise", "return y & 1") in frames[0]
    assert frames[0][-1] == frames[1][-1]
    assert error.__notes__ == plain.value.__notes__


def test_a_cell_of_a_notebook_is_called_as_people_call_it():
    """JAX names the file that the kernel made up for it, with the number of the process."""
    for file, name in {
        "<ipython-input-3-c05d3b5cd0e1>": "cell 3",
        "/tmp/ipykernel_7/31.py": "cell",
    }.items():
        cell: dict = {}
        exec(compile("def f(x):\n    return int(x.sum())", file, "exec"), cell)
        program = failed(cell["f"], (X,), jax.errors.ConcretizationTypeError)[1]
        message = failure(program).message
        assert f"f at {name}:1 " in message
        assert file not in message


def test_it_cannot_run():
    program = failed(bitwise, (X,), TypeError)[1]
    with pytest.raises(taxpr.RefusedError, match="can be looked at, but not run"):
        program(X)


def test_before_anything_is_traced():
    with pytest.raises(TypeError) as caught:
        taxpr.trace(bitwise)(np.array("text"))
    assert taxpr.until_error(caught.value) is None
    assert taxpr.until_error(ValueError("of something else")) is None


def test_an_error_without_room_for_it():
    class SlotsError(Exception):
        __slots__ = ()

        def __setattr__(self, name, value):
            if name == "__taxpr_until__":
                raise AttributeError(name)
            super().__setattr__(name, value)

    def fails(x):
        raise SlotsError

    assert failed(fails, (X,), SlotsError)[1] is None


def test_a_function_that_catches_its_errors():
    def forgiving(x):
        try:
            return bitwise(x)
        except TypeError:
            return x - 1

    program = taxpr.trace(forgiving)(X)
    assert not any(taxpr.is_unfinished(eqn) for eqn in program.eqns)
