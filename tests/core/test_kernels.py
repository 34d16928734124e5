"""What XLA made of a call: kernels, copies and what it removed, by statement."""

import re

import jax
import jax.numpy as jnp
import pytest
from compiled_programs import PROGRAMS, arguments

import taxpr
from taxpr._compiled.compile_call import compile_call
from taxpr._errors import ArgumentError
from taxpr._kernels.hlo_dataflow import maker, readers
from taxpr._kernels.kernels import Kernels
from taxpr._kernels.mesh_axes import axes_of, groups_of


def chain(w, x):
    shifted = x + 1.0
    scaled = shifted * 3.0
    waves = jnp.sin(scaled)
    out = waves @ w
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_equation_is_in_a_kernel_or_told_as_removed(name):
    args = arguments(name)
    made = taxpr.compiled(PROGRAMS[name])(*args)
    call = compile_call(PROGRAMS[name], args, {})
    eqns = dict(taxpr.introspect.iter_eqns(call.program))
    holding = {address.home.home for address in eqns}
    computed = {one for kernel in Kernels(call).every for one in call.equations(kernel.instruction)}
    computed |= {one for row in made.rows for one in row.equations}
    removed = [one for row in made.removed.rows for one in row.equations]
    assert not set(removed) & computed
    assert {*removed, *computed} >= set(eqns) - holding
    assert len(removed) == len(set(removed))
    assert [row for row in made.rows if row.shared > 1] == list(made.fusions.rows)
    assert all(row.shared == 0 and not row.equations for row in made.added.rows)


def test_a_kernel_of_several_statements_is_told_as_theirs():
    made = taxpr.compiled(chain)(jnp.ones((256, 256)), jnp.ones((256, 256)))
    [row] = made.fusions.rows
    assert row.variable == "shifted, scaled, waves"
    assert row.code == "shifted = x + 1.0; scaled = shifted * 3.0; waves = jnp.sin(scaled)"
    assert re.fullmatch(r"test_kernels.py:(\d+), \d+, \d+", row.line)
    assert (row.shared, row.times, row.bytes) == (3, 1, 256 * 256 * 4)
    [product] = [row for row in made.rows if row.variable == "out"]
    assert product.shared == 1


def test_iterations_are_counted():
    def nested(xs):
        def outer(total, x):
            def inner(x, _):
                wave = jnp.sin(x)
                return wave, None

            x, _ = jax.lax.scan(inner, x, length=4)
            grown = jnp.cos(total @ x)
            return grown, None

        total, _ = jax.lax.scan(outer, jnp.ones((16, 16)), xs)
        stop = jax.lax.while_loop(lambda t: jnp.sum(t) > 1.0, lambda t: jnp.tan(t / 2.0), total)
        return stop

    rows = {row.variable: row for row in taxpr.compiled(nested)(jnp.ones((5, 16, 16))).rows}
    assert (rows["wave"].times, rows["grown"].times) == (20, 5)
    assert rows["wave"].bytes == 20 * 16 * 16 * 4
    tan = next(row for name, row in rows.items() if "tan" in row.code)
    assert (tan.times, tan.bytes) == (None, 1024)


def test_what_is_stacked_is_counted_once():
    def stacked(xs):
        def body(x, w):
            act = jnp.tanh(x @ w)
            return act, act

        return jax.lax.scan(body, xs[0], xs)

    xs = jnp.ones((6, 64, 64))
    act = [row for row in taxpr.compiled(stacked)(xs).rows if row.variable == "act"]
    assert {(row.times, row.bytes) for row in act} == {(6, xs.nbytes)}


def test_what_is_left_out_is_told():
    def wasteful(x):
        unused = jnp.sin(x)  # noqa: F841
        table = jnp.cos(jnp.float32(2.0)) * jnp.ones(3)
        twice = jnp.exp(x) * 2.0
        again = jnp.exp(x) * 2.0
        return twice + again + table[0]

    removed = {row.variable for row in taxpr.compiled(wasteful)(jnp.ones(64)).removed.rows}
    assert {"unused", "again"} <= removed
    assert "twice" not in removed


def test_a_copy_is_told_by_what_it_copies():
    def keeps(held):
        changed = held.at[0].set(1.0)
        return changed, jnp.sum(held)

    [copy] = [row for row in taxpr.compiled(keeps)(jnp.ones(100)).added.rows if row.bytes == 400]
    told = copy.kind, copy.variable, copy.line, copy.code, copy.shared
    assert told == ("copy", "held", told[2], "copy of held", 0)
    assert told[2].startswith("test_kernels.py:")


def test_two_compilations_are_compared():
    w = x = jnp.ones((64, 64))
    whole = taxpr.compiled(chain)(w, x)
    assert whole.compare(taxpr.compiled(chain)(w, x)).rows == []
    larger = taxpr.edit(chain, taxpr.var("waves"), lambda y: jnp.concatenate([y, y]))
    found = whole.compare(taxpr.compiled(larger)(w, x))
    assert abs(found.rows[0].change) == max(abs(row.change) for row in found.rows)
    out = next(row for row in found.rows if row.variable == "out")
    assert (out.before, out.after, out.change) == (16384, 32768, 16384)
    assert found.headline.startswith("compiled twice: ")
    assert sum(row.change for row in found.rows) == sum(
        sign * row.bytes
        for sign, made in ((1, taxpr.compiled(larger)(w, x)), (-1, whole))
        for row in made.rows
    )


def test_options_are_given_to_xla():
    options = {"xla_backend_optimization_level": 0}
    made = taxpr.compiled(chain, options=options)(jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert made.rows
    with pytest.raises(ArgumentError, match=r"compiled: options=\{'xla_no_such': 1\}: XLA says"):
        taxpr.compiled(chain, options={"xla_no_such": 1})(jnp.ones((8, 8)), jnp.ones((8, 8)))
    with pytest.raises(ArgumentError, match=r"options='fast' is a str. Give a dict"):
        taxpr.compiled(chain, options="fast")
    with pytest.raises(ArgumentError, match=r"compare: other is an int. Give what taxpr.compiled"):
        made.compare(3)


def test_an_answer_shows_and_saves_itself():
    made = taxpr.compiled(chain)(jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert str(made).startswith("compiled chain for cpu: ")
    for part in (made, made.fusions, made.added, made.removed, made.collectives):
        assert part.to_json()
        assert part._repr_mimebundle_()["text/html"]
    assert "ENTRY" in made.text
    assert made.executable.memory_analysis().argument_size_in_bytes == 512


def test_groups_of_devices_are_read_in_all_forms():
    by_rows = ((0, 1), (2, 3), (4, 5), (6, 7))
    assert groups_of("channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, x=1") == by_rows
    assert groups_of("replica_groups=[4,2]<=[8], dimensions={0}") == by_rows
    assert groups_of("replica_groups=mesh['a'=4,'b'=2] {'b'}, x={1}") == by_rows
    assert groups_of("replica_groups=[2,4]<=[4,2]T(1,0)") == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert groups_of("replica_groups=mesh['a'=2,'b'=2,'c'=2] {'a','c'}") == (
        (0, 1, 4, 5),
        (2, 3, 6, 7),
    )
    assert groups_of("replica_groups=mesh[a=4,b=2] {a:(1)2}") == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert groups_of("source_target_pairs={{0,1},{1,0}}") == ((0, 1), (1, 0))
    assert groups_of("dimensions={0}") == ()
    assert axes_of(groups_of("replica_groups={{0,1,2,3,4,5,6,7}}"), {"a": 4, "b": 2}) == ("a", "b")
    assert axes_of((), {"a": 4}) == ()


def test_a_value_is_followed_through_loops_and_branches():
    def f(x, w):
        def body(x, w):
            return jax.lax.cond(x[0, 0] > 0.0, lambda x: x @ w, lambda x: x * 2.0, x), None

        return jax.lax.scan(body, x, w)[0]

    call = compile_call(f, (jnp.ones((16, 16)), jnp.ones((3, 16, 16))), {})
    inputs = {number: name for name, number in call.inputs.items()}
    reading = {call.equations(one)[-1].primitive for one in readers(call.hlo, (inputs[0], ()))}
    assert {"dot_general", "mul"} <= reading
    [dot] = [one for one in call.hlo.instructions.values() if one.opcode == "dot"]
    made = maker(call, dot)
    assert made is not None
    assert call.inputs[made.name] == 0
