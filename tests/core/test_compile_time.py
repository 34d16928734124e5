"""Which function makes compiling slow: in ten programs one is planted, and is found first.

No seconds are compared but those of the planted function, which has a hundred times the equations
of all others, with those of the others.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._compile_time import compile_time
from taxpr._compile_time.alone import Spent

PROGRAMS = {}
X = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def _no_checks():
    """Which would take most of the time of tracing."""
    before = jax.config.jax_enable_checks
    jax.config.update("jax_enable_checks", False)
    yield
    jax.config.update("jax_enable_checks", before)


def planted(x):
    for k in range(150):
        x = jnp.sin(x) * (k + 1.0)
    return x


def small(x):
    return jnp.cos(x) + 1.0


def program(run):
    PROGRAMS[run.__name__] = run
    return run


@program
def plain(x):
    return planted(small(x))


@program
def in_a_helper(x):
    def helper(x):
        return planted(x) * 2.0

    return small(helper(x))


@program
def in_a_scan(x):
    def step(c, _):
        return small(planted(c)), None

    return jax.lax.scan(step, x, None, length=3)[0]


@program
def in_a_while_loop(x):
    return jax.lax.while_loop(lambda x: small(x).sum() < 3.0, planted, x)


@program
def in_a_branch(x):
    return jax.lax.cond(x.sum() > 0.0, planted, small, x)


@program
def jitted_within(x):
    return small(jax.jit(planted)(x))


@program
@jax.jit
def jitted_around(x):
    return small(planted(x))


@program
def differentiated(x):
    return jax.grad(lambda x: small(planted(x)).sum())(x)


@program
def mapped(x):
    return jax.vmap(lambda x: small(planted(x)))(x)


@program
def recomputed(x):
    return jax.grad(lambda x: jax.checkpoint(planted)(small(x)).sum())(x)


@program
def with_a_rule(x):
    ruled = jax.custom_jvp(planted)
    ruled.defjvp(lambda primals, tangents: (small(*primals), small(*tangents)))
    return small(ruled(x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_planted_function_is_first(name):
    found = taxpr.compile_time(PROGRAMS[name])(X)
    first = found.rows[0]
    assert (first.function, first.code) == ("planted", "x = jnp.sin(x) * (k + 1.0)")
    assert first.equations >= 300
    assert first.line.startswith("test_compile_time.py:")
    assert first.seconds == pytest.approx(first.trace + first.lower + first.compile)
    assert found.complete
    assert {row.function for row in found.rows} >= {"planted", "small"}


def test_a_pause_of_the_machine_is_not_told_as_a_slow_function(monkeypatch):
    alone, paused = compile_time.spent_alone, []

    def with_a_pause(piece):
        taken = alone(piece)
        if len(piece.eqns) > 10 or paused:
            return taken
        paused.append(piece)
        return taken._replace(lower=1000.0)

    monkeypatch.setattr(compile_time, "spent_alone", with_a_pause)
    found = taxpr.compile_time(plain)(X)
    assert paused
    assert found.rows[0].function == "planted"
    assert all(row.seconds < 1000.0 for row in found.rows)


def test_statements():
    def two(x):
        y = jnp.sin(x)
        return planted(y) + jnp.cos(y)

    rows = taxpr.compile_time(two, by="statement")(X).rows
    assert rows[0].code == "x = jnp.sin(x) * (k + 1.0)"
    assert {row.code for row in rows[1:]} == {"y = jnp.sin(x)", "return planted(y) + jnp.cos(y)"}
    with pytest.raises(taxpr.TaxprError, match="by='line' is not one of 'function', 'statement'"):
        taxpr.compile_time(two, by="line")
    with pytest.raises(taxpr.TaxprError, match="not a function"):
        taxpr.compile_time(3)


def test_an_unrolled_loop_is_told_with_its_turns():
    def layers(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
            x = x / jnp.linalg.norm(x)
        return x

    ws = [np.eye(3, dtype=np.float32)] * 40
    found = taxpr.compile_time(layers)(ws, X)
    [row] = found.loops
    assert (row.code, row.iterations, row.function) == ("for w in ws", 40, found.rows[0].function)
    assert row.as_scan > 0
    assert "As a jax.lax.scan" in found.notes[0]

    def few(x):
        for k in range(3):
            x = jnp.sin(x) + float(k)
        return x

    assert taxpr.compile_time(few)(X).loops == []


def layers_in_python(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
        x = x / jnp.sum(x)
    return jnp.sum(x)


def layers_in_a_scan(ws, x):
    def turn(x, w):
        x = jnp.tanh(x @ w)
        x = x / jnp.sum(x)
        return x, None

    return jnp.sum(jax.lax.scan(turn, x, jnp.stack(ws))[0])


def size(jaxpr):
    return len(list(taxpr.introspect.iter_eqns(jaxpr)))


def equations_of(fun, structs):
    return Spent(0.0, float(size(jax.make_jaxpr(fun)(*structs))))


def test_the_scan_of_a_loop_is_told_in_a_gradient(monkeypatch):
    """Each equation takes a second, so that the scan written by hand says what is right."""
    monkeypatch.setattr(compile_time, "spent", equations_of)
    monkeypatch.setattr(compile_time, "of_nothing", lambda: Spent(0.0, 0.0))
    monkeypatch.setattr(compile_time, "spent_alone", lambda one: Spent(0.0, float(len(one.eqns))))
    args = [jnp.eye(3)] * 40, jnp.ones((2, 3))
    gradient = jax.jit(jax.value_and_grad(layers_in_python))
    found = taxpr.compile_time(gradient)(*args)
    [row] = found.loops
    assert (row.code, row.iterations) == ("for w in ws", 40)
    whole, by_hand = (
        size(jax.make_jaxpr(jax.value_and_grad(one))(*args))
        for one in (layers_in_python, layers_in_a_scan)
    )
    saved = row.seconds - row.as_scan
    assert saved == pytest.approx(whole - by_hand, rel=0.1)
    assert f"As a jax.lax.scan {row.as_scan:.2f} s" in found.notes[0]
    # A program cannot be changed any more.
    [row] = taxpr.compile_time(taxpr.trace(gradient)(*args))(*args).loops
    assert row.as_scan is None


def layers_with_a_loop(ws, x):
    for w in ws:
        x = x @ w
        for _ in range(3):
            x = jnp.sin(x)
    return x.sum()


def test_the_iterations_of_a_loop_are_its_own_and_not_of_a_loop_in_it(monkeypatch):
    monkeypatch.setattr(compile_time, "spent", equations_of)
    monkeypatch.setattr(compile_time, "of_nothing", lambda: Spent(0.0, 0.0))
    monkeypatch.setattr(compile_time, "spent_alone", lambda one: Spent(0.0, float(len(one.eqns))))
    args = [jnp.eye(3)] * 20, jnp.ones((3, 3))
    for one in (layers_with_a_loop, jax.value_and_grad(layers_with_a_loop)):
        found = {row.code: row for row in taxpr.compile_time(one)(*args).loops}
        assert found["for w in ws"].iterations == 20
        assert found["for w in ws"].as_scan is not None


def of_a_known_length(ws, x):
    for _ in range(5):
        for w in ws:
            x = jnp.tanh(x @ w)
    return jnp.sum(x)


def one_turn(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return x


def that_calls_a_loop(ws, x):
    for _ in range(2, 12, 2):
        x = one_turn(ws, x)
    return jnp.sum(x)


def of_an_unknown_length(ws, x):
    for part in (ws,) * 5:
        for w in part:
            x = jnp.tanh(x @ w)
    return jnp.sum(x)


def that_ends_early(ws, x):
    for k in range(10):
        for w in ws:
            x = jnp.tanh(x @ w)
        if k == 4:
            break
    return jnp.sum(x)


@pytest.mark.parametrize(
    ("fun", "outer"),
    [
        (that_ends_early, {}),
        (of_a_known_length, {"for _ in range(5)": 5}),
        (that_calls_a_loop, {"for _ in range(2, 12, 2)": 5}),
        (of_an_unknown_length, {}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.grad], ids=["as is", "grad"])
def test_a_loop_with_a_loop_alone_in_it_is_not_told_with_the_iterations_of_both(
    fun, outer, wrap, monkeypatch
):
    monkeypatch.setattr(compile_time, "spent", equations_of)
    monkeypatch.setattr(compile_time, "of_nothing", lambda: Spent(0.0, 0.0))
    monkeypatch.setattr(compile_time, "spent_alone", lambda one: Spent(0.0, float(len(one.eqns))))
    found = taxpr.compile_time(wrap(fun))([jnp.eye(3)] * 4, jnp.ones((3, 3)))
    [inner] = {row.code for row in found.loops} - set(outer)
    assert {row.code: row.iterations for row in found.loops} == {**outer, inner: 20}
    notes = [note for note in found.notes if "is unrolled: " in note]
    assert [" 20 iterations in all, " in note for note in notes if inner in note] == [True]
    assert not any("in all" in note for note in notes if inner not in note)
    assert all(row.as_scan is not None for row in found.loops if row.code in outer)


def test_turns_that_are_not_alike_have_no_scan():
    def shrinks(x):
        for _ in range(30):
            x = jnp.sin(x[1:])
        return x

    loops = taxpr.compile_time(shrinks)(jnp.ones(40)).loops
    assert all(row.as_scan is None for row in loops)


def test_a_large_constant_is_told():
    table = jnp.ones((512, 1024), jnp.float32)

    def f(x):
        return x + table

    [row] = taxpr.compile_time(f)(jnp.float32(1)).constants
    assert (row.variable, row.bytes) == ("table", table.nbytes)


def test_what_needs_the_devices_around_it_is_not_divided():
    def summed(x):
        return jax.lax.psum(x, "d")

    def both(x):
        return jax.lax.scan(lambda c, _: (summed(small(c)), None), x, None, length=2)[0]

    kinds = (jax.sharding.AxisType.Auto,)
    mesh, spec = jax.make_mesh((1,), ("d",), kinds), jax.sharding.PartitionSpec()
    program = taxpr.trace(jax.shard_map(both, mesh=mesh, in_specs=spec, out_specs=spec))(X)
    [whole] = taxpr.compile_time(program)(X).rows  # a shard_map is not divided
    assert whole.equations >= 4


def test_what_cannot_be_compiled_alone_is_said(monkeypatch):
    def breaks(piece):
        if any(eqn.primitive is jax.lax.cos_p for eqn in piece.eqns):
            raise ValueError("no")
        return Spent(1.0, 2.0)

    monkeypatch.setattr(compile_time, "spent_alone", breaks)
    found = taxpr.compile_time(plain)(X)
    assert [row.function for row in found.rows] == ["planted"]
    assert "small cannot be compiled alone: no" in found.notes
    assert any(note.startswith("The parts take") for note in found.notes)


def test_it_says_how_far_it_is_and_can_be_stopped():
    seen = []

    def stops(done, total):
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    found = taxpr.compile_time(plain, progress=stops)(X)
    assert [done for done, _ in seen] == [1, 2]
    assert not found.complete
    assert len(found.rows) == 1
    assert f"Stopped: 2 of {seen[0][1]} steps are done." in found.notes


def test_the_largest_parts_come_first_and_what_takes_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr(compile_time, "_TIMES", 0)
    monkeypatch.setattr(compile_time, "_SHORT", 0.0)
    found = taxpr.compile_time(plain)(X)
    assert [row.function for row in found.rows] == ["planted"]
    assert not found.complete
    [note] = [one for one in found.notes if "ended early" in one]
    assert "1 of 2 parts, the smallest, with 1% of the equations" in note
    assert found.loops[0].as_scan is None
    assert not any("XLA does less, or more" in one for one in found.notes)


def test_functions_beside_arrays_that_are_closed_over():
    table = jnp.arange(3.0)

    def f(x):
        def step(c, _):
            return small(planted(c)) + table, None

        return jax.lax.scan(step, x * table, None, length=2)[0]

    found = taxpr.compile_time(f)(X)
    assert not any("alone" in note for note in found.notes if "cannot" in note)
    assert "planted" in {row.function for row in found.rows}
    assert any(row.function.endswith("f") for row in found.rows)


def test_a_program_has_no_trace():
    found = taxpr.compile_time(taxpr.trace(plain)(X))(X)
    assert found.stages["trace"] == 0
    assert found.rows[0].function == "planted"
    assert found.stages["compile"] > 0


def test_nothing_is_run():
    ran = []

    def f(x):
        jax.debug.callback(lambda: ran.append(1))
        return small(x)

    taxpr.compile_time(f)(jax.ShapeDtypeStruct((3,), jnp.float32))
    jax.effects_barrier()
    assert ran == []


def test_code_without_a_source():
    scope = {"jnp": jnp}
    exec("def hidden(x):\n    return jnp.sin(x)", scope)
    rows = taxpr.compile_time(scope["hidden"])(X).rows
    assert len(rows) == 1
