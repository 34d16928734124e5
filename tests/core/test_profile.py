"""The time of a call by statement: planted costs come first, and each nanosecond is told once."""

import collections
import functools
import gzip
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr import _compat
from taxpr._compat import Event
from taxpr._compiled.compile_call import compile_call
from taxpr._compiled.hlo import hlo_module
from taxpr._costs.costs import Costs
from taxpr._errors import ArgumentError, RefusedError
from taxpr._profile import profile as profiles
from taxpr._profile import roof as roofs
from taxpr._profile.roof import Roof
from taxpr._profile.timeline import Span, shares, spans

N = 384
A = np.random.default_rng(0).normal(size=(N, N)).astype(np.float32) / N
V = A[0]

# In each, what `planted` is bound to has more than 20 times the operations of all else together.


def straight(a, v):
    small = jnp.sin(v) @ a
    planted = a @ a @ a
    return jnp.cos(small) + planted[0]


def in_scan(a, v):
    def step(v, _):
        planted = (a @ a)[0] * v
        light = jnp.tanh(planted) + v
        return light, None

    return lax.scan(step, v, length=3)[0]


def in_while(a, v):
    def step(carry):
        k, v = carry
        planted = a @ (a * v[None])
        return k + 1, jnp.tanh(planted[0])

    return lax.while_loop(lambda carry: carry[0] < 3, step, (0, v))[1]


def in_branch(a, v):
    def taken(a):
        planted = a @ a @ a
        return planted[0]

    return lax.cond(v[0] < 1e9, taken, lambda a: jnp.sin(a[0]), a) + jnp.cos(v)


@jax.grad
def of_gradient(a, v):
    light = jnp.sin(v) * 2.0
    planted = a @ a
    return jnp.sum(planted[0] * light)


@functools.partial(jax.vmap, in_axes=(None, 0))
def mapped(a, v):
    light = jnp.sin(v)
    planted = a @ (a * v[None])
    return planted[0] + light


def in_helper(a, v):
    @jax.jit
    def helper(a):
        planted = a @ a @ a
        return planted[0]

    light = jnp.exp(v)
    return light * helper(a)


@jax.grad
def recomputed(a, v):
    @jax.checkpoint
    def block(v):
        planted = jnp.tanh(a * v[None]) @ a
        return jnp.sum(planted)

    light = jnp.sin(v)
    return block(light)


def in_python_loop(a, v):
    for _ in range(3):
        planted = a @ (a * v[None])
        v = jnp.tanh(planted[0])
    return v


def a_sort(a, v):
    light = jnp.cos(v)
    planted = jnp.sort(jnp.concatenate([a] * 4, axis=1), axis=1)
    return planted[0, :N] * light


PLANTED = {
    straight: (A, V),
    in_scan: (A, V),
    in_while: (A, V),
    in_branch: (A, V),
    of_gradient: (A, V),
    mapped: (A, A[:4]),
    in_helper: (A, V),
    recomputed: (A, V),
    in_python_loop: (A, V),
    a_sort: (A, V),
}


@pytest.mark.parametrize("fun", PLANTED, ids=lambda fun: fun.__name__)
def test_a_planted_cost_comes_first(fun):
    found = taxpr.profile(fun, runs=5)(*PLANTED[fun])
    # A busy machine may stop a run in any kernel, but hardly all runs in the same one.
    first = max(found.rows, key=lambda row: row.least)
    assert "planted" in first.variable.split(", ")
    assert [row.seconds for row in found.rows] == sorted(
        (row.seconds for row in found.rows), reverse=True
    )
    # Whatever the time is, it is told once.
    assert sum(row.seconds for row in found.rows) + found.idle == pytest.approx(found.wall)
    assert found.idle >= 0
    named = sum(row.seconds for row in found.rows if row.variable or row.line)
    assert found.coverage == pytest.approx(named / found.wall)
    assert sum(row.share for row in found.rows) <= 1 + 1e-9
    assert sorted(found.walls)[2] == found.wall
    assert all(0 <= row.least <= row.seconds <= row.most for row in found.rows)
    program = taxpr.trace(fun, names=True)(*PLANTED[fun])
    addresses = {address for address, _ in taxpr.introspect.iter_eqns(program)}
    assert {address for row in found.rows for address in row.equations} <= addresses
    assert f"{found.coverage:.0%} of it by statement" in found.headline


def test_iterations_are_counted():
    rows = taxpr.profile(in_scan, runs=1)(A, V).rows
    assert {row.iterations for row in rows if row.variable == "light"} <= {3}
    assert next(row for row in rows if "planted" in row.variable).iterations in (1, 3)  # or hoisted
    rows = taxpr.profile(in_while, runs=1)(A, V).rows
    assert rows[0].iterations == 3


def transformer(weights, x):
    def block(x, w):
        scores = (x @ w["q"]) @ (x @ w["k"]).T
        shares = jax.nn.softmax(scores)
        mixed = x + shares @ (x @ w["v"])
        act = jax.nn.gelu(mixed @ w["up"])
        out = mixed + act @ w["down"]
        return out, None

    last, _ = lax.scan(block, x, weights)
    return jnp.mean(last**2)


def convolutions(weights, x):
    for w in weights:
        y = lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(y)
    return jnp.mean(x**2)


def recurrent(weights, xs):
    def step(h, x):
        pre = h @ weights["w"] + x @ weights["u"]
        h = jnp.tanh(pre)
        return h, h

    _, every = lax.scan(step, jnp.zeros((xs.shape[1], len(weights["w"]))), xs)
    return jnp.mean(every**2)


def layers(count, width, hidden):
    shapes = dict.fromkeys("qkv", (width, width)) | {"up": (width, hidden), "down": (hidden, width)}
    return {name: jnp.ones((count, *shape)) / width for name, shape in shapes.items()}


GRADIENTS = {
    transformer: (layers(3, 64, 256), jnp.ones((128, 64))),
    convolutions: ([jnp.ones((3, 3, 8, 8)) / 9] * 2, jnp.ones((4, 32, 32, 8))),
    recurrent: ({"w": jnp.ones((128, 128)), "u": jnp.ones((64, 128))}, jnp.ones((20, 16, 64))),
}


@pytest.mark.parametrize("fun", GRADIENTS, ids=lambda fun: fun.__name__)
def test_what_runs_of_a_gradient_has_a_statement(fun):
    gradient, args = jax.grad(fun), GRADIENTS[fun]
    found = taxpr.profile(gradient, runs=3)(*args)
    running = found.wall - found.idle  # without what waits for a processor
    assert found.coverage * found.wall > 0.9 * running
    made, plain = taxpr.compiled(gradient)(*args), jax.jit(gradient).lower(*args).compile()
    assert opcodes(made.text) == opcodes(plain.as_text())


# Where starting kernels takes little of the time.
LARGE = {
    transformer: (layers(2, 512, 1024), jnp.ones((256, 512))),
    convolutions: ([jnp.ones((3, 3, 32, 32)) / 9] * 2, jnp.ones((4, 64, 64, 32))),
    recurrent: ({"w": jnp.ones((512, 512)), "u": jnp.ones((256, 512))}, jnp.ones((20, 128, 256))),
}


@pytest.mark.parametrize("fun", LARGE, ids=lambda fun: fun.__name__)
def test_most_of_the_time_of_a_large_gradient_has_a_statement(fun):
    def profiled():
        found = taxpr.profile(jax.grad(fun), runs=1)(*LARGE[fun])
        told = sum(row.seconds for row in found.rows)
        assert told + found.idle == pytest.approx(found.wall, rel=0.03)
        return found.coverage

    # Other programs may take the processors from a run, but hardly from each of them.
    assert any(profiled() >= 0.85 for _ in range(10))


def opcodes(text):
    return collections.Counter(one.opcode for one in hlo_module(text).instructions.values())


@pytest.mark.parametrize("donates", [False, True])
def test_it_costs_its_runs_and_one_more_and_two_compilations(donates):
    calls = []

    @functools.partial(jax.jit, donate_argnums=0 if donates else ())
    def told(x):
        jax.debug.callback(lambda: calls.append(1))
        return x @ x

    roofs.roof_of(jax.devices()[0], ("float32",))  # of a device it is measured once
    x = jnp.asarray(A) + 0
    with taxpr.compiles(eager=True) as log:
        taxpr.profile(told, runs=4)(x)
    jax.effects_barrier()
    assert len(calls) == 5
    assert 1 <= sum("compile" in row.stages for row in log.compiles.rows) <= 2


@pytest.mark.parametrize("fun", GRADIENTS, ids=lambda fun: fun.__name__)
def test_what_is_measured_is_the_program_of_the_user(fun, monkeypatch):
    ran = []

    def kept(*args):
        ran.append(compile_call(*args))
        return ran[-1]

    monkeypatch.setattr(profiles, "compile_call", kept)
    step, args = jax.jit(jax.value_and_grad(fun)), GRADIENTS[fun]
    taxpr.profile(step, runs=1)(*args)
    [call] = ran
    expected = opcodes(step.lower(*args).compile().as_text())
    assert opcodes(call.executable.as_text()) == opcodes(call.text) == expected


def event(op, begin, end, produced=None, consumed=None):
    return Event(op or "end", op, "m", begin, end, produced, consumed)


def test_what_holds_others_does_not_count_and_what_ends_late_ends_when_it_is_read():
    def f(x, w):
        y = jnp.sort(x @ w)
        return lax.fori_loop(0, 3, lambda _, x: jnp.sin(x @ w), y)

    hlo = compile_call(f, (A, A), {}).hlo
    [loop] = [one.name for one in hlo.instructions.values() if one.opcode == "while"]
    entry = [*hlo.entry.instructions]
    sort = next(one for one in hlo.instructions.values() if one.opcode == "sort")
    before = hlo.instructions[sort.operands[0]].name
    found = spans(
        hlo,
        [
            event(before, 0, 1, produced=7),
            event(sort.name, 5, 6, produced=8),
            event("", 9, 9, consumed=7),  # of what `sort` has read, and so is done
            event("", 20, 20, consumed=8),
            event(loop, 20, 90),
            event("no such kernel", 20, 90),
        ],
    )
    assert found == [Span(before, 0, 1, 5), Span(sort.name, 5, 6, 20)]
    assert entry.index(before) < entry.index(sort.name)
    # The event of its end is lost, as at the end of a profile.
    [lost] = spans(hlo, [event(sort.name, 5, 6, produced=8)])
    assert lost.until == float("inf")


def test_each_moment_is_given_away_once():
    generator = np.random.default_rng(0)
    for _ in range(200):
        begins = generator.integers(0, 50, 8)
        every = [
            Span("abc"[k % 3], begin, begin + one, begin + one + more)
            for k, (begin, one, more) in enumerate(
                zip(begins, generator.integers(0, 9, 8), generator.integers(0, 9, 8), strict=True)
            )
        ]
        expected = dict.fromkeys("abc", 0.0)
        for at in range(5, 55):
            active = {s.kernel for s in every if s.begin <= at < s.end}
            active = active or {s.kernel for s in every if s.end <= at < s.until}
            for name in active:
                expected[name] += 1 / len(active)
        found = shares(every, 5, 55)
        assert {name: found.get(name, 0.0) for name in "abc"} == pytest.approx(expected)


def test_arguments_that_are_donated_stay():
    step = jax.jit(lambda w, x: w + jnp.sum(w @ x), donate_argnums=0)
    w, x = jnp.ones((N, N)), jnp.ones((N, N))
    assert taxpr.profile(step, runs=2)(w, x).walls
    assert not w.is_deleted()
    np.testing.assert_array_equal(w, np.ones((N, N)))


def test_static_arguments_and_programs_are_taken():
    @functools.partial(jax.jit, static_argnames="n")
    def power(x, n):
        for _ in range(n):
            y = x @ x
        return y

    found = taxpr.profile(power, runs=1)(A, n=2)
    assert found.rows[0].variable == "y"
    program = taxpr.trace(straight, names=True)(A, V)
    assert "planted" in taxpr.profile(program, runs=1)(A, V).rows[0].variable


def test_it_can_be_stopped_between_runs():
    def stop(done, total):
        assert total == 5
        if done == 2:
            raise KeyboardInterrupt

    found = taxpr.profile(straight, runs=5, progress=stop)(A, V)
    assert (len(found.walls), found.complete) == (2, False)
    assert "Stopped: 2 of 5 steps are done." in found.notes


def test_a_profile_that_is_running_is_left_alone(tmp_path):
    jax.profiler.start_trace(tmp_path)
    try:
        with pytest.raises(RefusedError, match=r"Another profile is running, and JAX makes one"):
            taxpr.profile(straight)(A, V)
    finally:
        jax.profiler.stop_trace()
    assert taxpr.profile(straight, runs=1)(A, V).rows


def test_an_error_ends_the_profile():
    def fails(x):
        return jax.pure_callback(lambda x: 1 / 0, x, x) * 2.0

    with pytest.raises(Exception, match="division by zero"):
        taxpr.profile(fails)(V)
    assert taxpr.profile(straight, runs=1)(A, V).rows


@pytest.mark.parametrize("platform", ["tpu", "unheard of"])
def test_a_platform_without_options_of_its_own_is_profiled_with_none(platform, monkeypatch):
    asked = []
    told = jax.stages.Lowered.compile
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(
        jax.stages.Lowered,
        "compile",
        lambda self, options=None: asked.append(options) or told(self),
    )
    found = taxpr.profile(straight, runs=1)(A, V)
    assert asked[0] is None
    assert not any("Command buffers" in note for note in found.notes)
    assert found.rows


def test_without_a_profiler_it_says_so(monkeypatch):
    monkeypatch.delattr(jax.profiler, "ProfileData")
    with pytest.raises(RefusedError, match=r"hands out no times \(jax.profiler has no ProfileData"):
        taxpr.profile(straight)(A, V)


def test_where_nothing_is_recorded_it_says_so(monkeypatch):
    events = [Event("taxpr.profile", "", "", 0.0, 3e6, None, None)]
    kept = _compat.profiling

    class Nothing:
        def __enter__(self):
            return lambda: events

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(_compat, "profiling", Nothing)
    with pytest.raises(RefusedError, match=r"no kernel of straight on cpu, .* took the 3 ms"):
        taxpr.profile(straight, runs=1)(A, V)
    assert kept is not Nothing


def test_what_is_too_short_is_told(monkeypatch):
    monkeypatch.setattr(profiles, "SHORT", 1e9)
    [note, *_] = taxpr.profile(straight, runs=1)(A, V).notes
    assert note.startswith("All kernels together take ")
    assert note.endswith("as by jax.lax.scan.")
    monkeypatch.setattr(profiles, "SHORT", 0.0)
    monkeypatch.setattr(profiles, "_LOW", 2.0)
    [note, *_] = taxpr.profile(straight, runs=1)(A, V).notes
    assert "of the time ran no kernel that the profiler knows" in note


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ArgumentError, match=r"an argument is ShapeDtypeStruct\(.*no values"):
        taxpr.profile(straight)(jax.ShapeDtypeStruct((N, N), jnp.float32), V)
    for runs in (0, 1.5, True):
        with pytest.raises(ArgumentError, match=rf"profile: runs={runs}: give a number of runs"):
            taxpr.profile(straight, runs=runs)


def test_an_answer_shows_and_saves_itself():
    found = taxpr.profile(straight, runs=1)(A, V)
    assert "%" in found.texts()[1][1]
    saved = json.loads(found.to_json())
    assert (saved["coverage"], saved["wall"]) == (found.coverage, found.wall)
    assert "planted" in str(found)


@pytest.mark.parametrize("fun", GRADIENTS, ids=lambda fun: fun.__name__)
def test_the_operations_of_kernels_are_those_of_the_equations(fun):
    for one, rel in ((fun, 0.1), (jax.grad(fun), 0.1)):
        found = taxpr.profile(one, runs=1)(*GRADIENTS[fun])
        expected = Costs().of_jaxpr(taxpr.trace(one)(*GRADIENTS[fun])).operations
        counted = sum(kernel.flops or 0 for kernel in found.kernels)
        assert counted == pytest.approx(expected, rel=rel)
        ran = [kernel for kernel in found.kernels if kernel.seconds]
        assert sum(row.bytes for row in found.rows) == sum(kernel.bytes for kernel in ran)


def test_a_kernel_has_what_it_moves():
    [kernel] = taxpr.profile(lambda x: jnp.sin(x) + x, runs=1)(A).kernels
    assert (kernel.bytes, kernel.flops) == (2 * A.nbytes, 2 * A.size)

    def one_row(table, k):
        return lax.dynamic_slice_in_dim(table, k, 1) * 2.0

    kernels = taxpr.profile(one_row, runs=1)(A, 3).kernels
    assert sum(kernel.bytes for kernel in kernels) < 10 * V.nbytes


def test_the_roof_is_measured_once_and_only_told_where_it_means_something(monkeypatch):
    found = taxpr.profile(straight, runs=3)(A, V)
    if found.peak_flops is not None:  # a busy machine may leave little of the time to kernels
        assert found.peak_flops > 0
        assert found.peak_bytes > 0
        assert all(row.roof > 0 for row in found.rows if row.flops)
        assert any(
            "`roof` is the minimum time that the device needs" in note for note in found.notes
        )
    monkeypatch.setattr(profiles, "_LOW", 0.0)
    monkeypatch.setattr(profiles, "SHORT", 0.0)
    asked = []
    roof = Roof({"float32": 1e9}, {1: 1e9})
    monkeypatch.setattr(profiles, "roof_of", lambda *given: asked.append(given) or roof)
    found = taxpr.profile(straight, runs=1)(A, V)
    [(device, dtypes)] = asked
    assert (device, dtypes) == (jax.devices()[0], ("float32",))
    for row in found.rows:
        least = [kernel.least_seconds for kernel in found.kernels]
        assert row.flops is None or row.roof <= sum(least) / row.seconds + 1e-9
    row = next(row for row in found.rows if "planted" in row.variable)
    assert row.roof * row.seconds > 0.99 * 2 * 2 * N**3 / 1e9
    monkeypatch.setattr(profiles, "_LOW", 2.0)
    found = taxpr.profile(straight, runs=1)(A, V)
    assert len(asked) == 1
    assert (found.peak_flops, {row.roof for row in found.rows}) == (None, {None})
    assert "roof" not in found.texts()[0]


def test_the_roof_of_a_device_is_what_it_does(monkeypatch):
    monkeypatch.setattr(roofs, "_SIDES", {"cpu": (64, 128)})
    monkeypatch.setattr(roofs, "_SIZES", {"cpu": (1 << 10, 1 << 14)})
    monkeypatch.setattr(roofs, "_COPIED", 1 << 14)
    device = jax.devices()[0]
    monkeypatch.setattr(roofs, "_peak", functools.cache(roofs._peak.__wrapped__))
    monkeypatch.setattr(roofs, "_bandwidth", functools.cache(roofs._bandwidth.__wrapped__))
    runs = []
    fastest = roofs._fastest
    monkeypatch.setattr(roofs, "_fastest", lambda *given: runs.append(given) or fastest(*given))
    roof = roofs.roof_of(device, ("float32", "bfloat16"))
    assert roof == roofs.roof_of(device, ("float32", "bfloat16"))
    assert len(runs) == 2 * 2 + 2
    assert set(roof.flops) == {"float32", "bfloat16"}
    assert list(roof.bytes) == [8 << 10, 8 << 14]
    assert roof.bytes[8 << 10] >= roof.bytes[8 << 14]
    assert roof.least({}, 0) == 0


def helper(a):
    planted = a @ a @ a
    return planted


def test_the_time_by_function_adds_up():
    def f(a, v):
        return helper(a)[0] + jnp.sort(v)

    found = taxpr.profile(f, runs=3)(A, V)
    rows = found.by_function.rows
    assert rows[0].function == "helper"
    assert rows[0].flops == pytest.approx(2 * 2 * N**3, rel=0.1)
    assert sum(row.seconds for row in rows) + found.idle == pytest.approx(found.wall)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    assert "helper" in str(found.by_function)
    assert len({row.function for row in rows}) == len(rows)


def test_what_a_function_returns_into_another_is_its_own_time():
    def squared(a):
        return a @ a

    def ordered(out):
        total = jnp.sort(out)
        return total

    rows = taxpr.profile(lambda a: ordered(squared(a)), runs=1)(A).by_function.rows
    prefix = "test_what_a_function_returns_into_another_is_its_own_time."
    assert {row.function: row.flops for row in rows}[f"{prefix}squared"] == 2 * N**3


def test_functions_of_one_name_have_a_row_each(tmp_path):
    makes: dict[str, dict] = {}
    for name in ("one", "other"):
        path = tmp_path / f"{name}.py"
        path.write_text("def layer(a):\n    out = a @ a\n    return out\n")
        exec(compile(path.read_text(), str(path), "exec"), makes.setdefault(name, {}))

    def f(a):
        return jnp.sin(makes["other"]["layer"](makes["one"]["layer"](a)))

    rows = {row.function: row for row in taxpr.profile(f, runs=1)(A).by_function.rows}
    for name in ("one", "other"):
        assert rows[f"layer ({name}.py)"].flops == 2 * N**3


def test_lines_of_files_of_one_name_have_a_row_each(tmp_path):
    """Each is shown by as much of its path as tells it from the other."""
    layers = []
    for name in ("one", "other"):
        path = tmp_path / name / "layer.py"
        path.parent.mkdir()
        path.write_text("def layer(a):\n    out = a @ a\n    return out\n")
        exec(compile(path.read_text(), str(path), "exec"), made := {})
        layers.append(made["layer"])

    def f(a):
        return layers[1](jnp.sin(layers[0](a)) * 2)

    lines = ["one/layer.py:2", "other/layer.py:2"]
    found = taxpr.profile(f, runs=1)(A)
    rows = [row for row in found.rows if row.code.startswith("out = ")]
    assert sorted((row.line, row.flops) for row in rows) == [(line, 2 * N**3) for line in lines]
    functions = {row.function: row.flops for row in found.by_function.rows}
    assert functions["layer (one/layer.py)"] == functions["layer (other/layer.py)"] == 2 * N**3
    made = taxpr.compiled(f)(A)
    assert [row.line for row in made.rows if row.code.startswith("out = ")] == lines
    squares = jax.grad(lambda a: (layers[1](layers[0](a) ** 2) ** 2).sum())
    held = taxpr.memory(squares)(A).rows
    assert sorted(row.line for row in held if row.code == "∂ out = a @ a") == lines
    calls = [row.line for row in taxpr.summary(f)(A).rows if row.code == "out = a @ a"]
    assert calls == lines


def test_a_trace_has_statements_for_names(tmp_path):
    found = taxpr.profile(straight, runs=2)(A, V)
    found.save_trace(tmp_path / "a.json")
    found.save_trace(tmp_path / "a.json.gz")
    text = (tmp_path / "a.json").read_text()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()).decode() == text
    events = json.loads(text)["traceEvents"]
    threads = {one["tid"]: one["args"]["name"] for one in events if one["ph"] == "M"}
    ran = [one for one in events if one["ph"] == "X"]
    runs = [one for one in ran if threads[one["tid"]] == "runs"]
    assert [one["name"] for one in runs] == ["straight, run 1", "straight, run 2"]
    assert [one["dur"] * 1e-6 for one in runs] == pytest.approx(found.walls)
    planted = [one for one in ran if "planted = a @ a @ a" in one["name"]]
    assert planted
    assert all(one["args"]["kernel"] in {k.name for k in found.kernels} for one in planted)
    assert all(one["ts"] >= 0 and one["dur"] >= 0 for one in ran)
