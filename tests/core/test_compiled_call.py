"""A call is compiled as its user's, and each instruction names its equations."""

import collections
import functools
import pathlib

import jax
import jax.numpy as jnp
import pytest
from compiled_programs import PROGRAMS, arguments, scanned

import taxpr
from taxpr import _compat
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import compile_call
from taxpr._compiled.hlo import hlo_module, instruction_of
from taxpr._errors import ArgumentError, RefusedError


def opcodes(text):
    return collections.Counter(one.opcode for one in hlo_module(text).instructions.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_compiled_program_is_the_users(name):
    fun, args = PROGRAMS[name], arguments(name)
    plain = jax.jit(fun).lower(*args).compile()
    call = compile_call(fun, args, {})
    assert opcodes(call.text) == opcodes(plain.as_text())
    found, expected = call.executable.memory_analysis(), plain.memory_analysis()
    for part in ("argument", "output", "alias", "temp"):
        assert getattr(found, f"{part}_size_in_bytes") == getattr(expected, f"{part}_size_in_bytes")


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_computes_much_names_its_equation(name):
    call = compile_call(PROGRAMS[name], arguments(name), {})
    eqns = dict(taxpr.introspect.iter_eqns(call.program))
    assert set(call.addresses) == set(eqns)
    made = {"dot": "dot_general", "tanh": "tanh", "sine": "sin", "convolution": "conv_general"}
    told = [one for one in call.hlo.instructions.values() if one.opcode in made]
    assert told or name == "halving"
    for one in told:
        stamp = call.hlo.stamp(one)
        if stamp is None and one.opcode == "convolution":
            continue  # XLA writes those of a backward pass anew, without a name
        assert stamp is not None, one
        address = call.addresses[stamp]
        # JAX writes the derivative of a product as one of these and a transposition.
        assert eqns[address].primitive.name.startswith((made[one.opcode], "transpose")), one


def test_shapes_and_roles_are_read_as_xla_counts_them():
    call = compile_call(PROGRAMS["scanned"], arguments("scanned"), {})
    stats, entry = call.executable.memory_analysis(), call.hlo.entry
    assert call.hlo.scheduled
    assert sum(one.bytes for one in entry.parameters) == stats.argument_size_in_bytes
    assert entry.root.bytes <= stats.output_size_in_bytes  # a tuple has pointers, too
    [forwards, backwards] = [one for one in entry.instructions.values() if one.opcode == "while"]
    body = call.hlo.computations[forwards.calls("body")[0]]
    assert [shape.path for shape in body.root.shapes] == [
        (k,) for k in range(len(body.root.shapes))
    ]
    assert body.root.operands[0] in body.instructions
    assert call.equations(backwards)[0].primitive == "scan"


def test_an_instruction_is_read():
    line = (
        "  %w.1 = (s32[], /*index=1*/(bf16[2,3]{1,0:T(8,128)}, pred[4]), token[]) while(%tuple.2), "
        'condition=%c.1, body=%b.2, metadata={op_name="jit(f)/taxpr.3./while(\\"x\\")/taxpr.12./a"}'
    )
    one = instruction_of(line, "main")
    assert (one.name, one.opcode, one.operands) == ("w.1", "while", ("tuple.2",))
    assert one.calls() == ["c.1", "b.2"]
    assert one.calls("body") == ["b.2"]
    assert [(shape.dtype, shape.dims, shape.path, shape.bytes) for shape in one.shapes] == [
        ("s32", (), (0,), 4),
        ("bf16", (2, 3), (1, 0), 12),
        ("pred", (4,), (1, 1), 4),
        ("token", (), (2,), 0),
    ]
    assert one.stamps == (3, 12)
    bare = instruction_of("  ROOT c.1 = c64[2]{0} add(c64[2]{0} a.1, c64[2]{0} b), x={1,2}", "main")
    assert (bare.operands, bare.bytes, bare.attributes) == (("a.1", "b"), 16, "x={1,2}")
    assert instruction_of("  %k = s4[5] constant({1, 2, (3)})", "main").operands == ()
    assert instruction_of("  %k = s4[5] constant({1, 2, (3)})", "main").bytes == 3
    branches = "  %r = f32[] conditional(%p, %a, %b), branch_computations={%f.1, %g}, x=1"
    assert instruction_of(branches, "main").calls() == ["f.1", "g"]


def test_another_form_is_refused():
    with pytest.raises(RefusedError, match=r"no ENTRY computation.*'module @f'"):
        hlo_module("module @f")


def test_a_jitted_function_is_compiled_as_it_says():
    @functools.partial(jax.jit, donate_argnums=0, static_argnames="n", keep_unused=True)
    def step(w, unused, n):
        return w * n

    args = jnp.ones(100), jnp.ones(7)
    plain = step.lower(*args, n=3).compile().memory_analysis()
    call = compile_call(functools.partial(step, n=3), args, {})
    assert call.donated == (0,)
    assert call.executable.memory_analysis().alias_size_in_bytes == 400
    stats = call.executable.memory_analysis()
    assert stats.argument_size_in_bytes == plain.argument_size_in_bytes == 428
    assert stats.alias_size_in_bytes == plain.alias_size_in_bytes


def test_arguments_may_be_types_alone():
    args = arguments("scanned")
    structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    call = compile_call(jax.grad(scanned), structs, {})
    assert opcodes(call.text) == opcodes(compile_call(jax.grad(scanned), args, {}).text)
    with pytest.raises(ArgumentError, match=r"traced with ws: float32\[3,16,16\] and was called"):
        compile_call(call.program, (jnp.ones((2, 16, 16)), args[1]), {})


def test_the_cache_on_disk_brings_no_other_names(cache_on_disk):
    args = arguments("scanned")
    jax.jit(jax.grad(scanned)).lower(*args).compile()
    assert [*cache_on_disk.iterdir()]
    call = compile_call(jax.grad(scanned), args, {})
    assert any(one.stamps for one in call.hlo.instructions.values())


def test_what_comes_from_the_cache_on_disk_is_told_as_what_was_compiled(cache_on_disk):
    args = arguments("scanned")
    files, rows = [], []
    for _ in range(2):  # from the same line, which is in the key
        rows.append(taxpr.memory(jax.grad(scanned))(*args).rows)
        files.append({one.name for one in cache_on_disk.glob("jit_scanned*-cache")})
    assert len(files[0]) == 1
    assert files[0] == files[1]
    assert rows[0] == rows[1]
    assert len(rows[0]) > 4


def helper(x):
    return jnp.exp(x) + 1.0


def told(ws, x):
    def body(carry, w):
        inner = helper(carry @ w)
        a, b = jnp.sin(inner), jnp.log(inner)
        return a * b, None

    last, _ = jax.lax.scan(body, x, ws)
    return jnp.sum(last * TABLE)


TABLE = jnp.full((16, 16), 0.5)


def test_places_have_the_users_words():
    program = taxpr.trace(jax.grad(told), names=True)(*arguments("told"))
    found = Attributions(program)
    words = {
        (eqn.primitive.name, _compat.is_transposed(eqn)): found.of(address)
        for address, eqn in reversed([*taxpr.introspect.iter_eqns(program)])
    }
    assert words["sin", False].variable == "a"
    assert words["log", False].variable == "b"
    assert words["log", False].code == "a, b = jnp.sin(inner), jnp.log(inner)"
    assert words["exp", False].code == "return jnp.exp(x) + 1.0"
    assert words["cos", False].variable == "a, b"  # of which statement is known, and not which part
    assert words["scan", True].code == "∂ last, _ = jax.lax.scan(body, x, ws)"
    assert found.of("in0").variable == "ws"
    assert not found.of("in0").line.startswith("∂")
    text = pathlib.Path(__file__).read_text().splitlines()
    line = 1 + next(k for k, one in enumerate(text) if "b = jnp.sin(inner)" in one)
    assert words["sin", False].line == f"test_compiled_call.py:{line}"
