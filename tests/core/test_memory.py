"""What holds the memory of a call, and what its gradient keeps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from memory_programs import (
    BATCH,
    LAYERS,
    PROGRAMS,
    RIGHT,
    WEIGHTS,
    WIDTH,
    X,
    arguments,
    scanned,
    use_of,
)

import taxpr
from taxpr._buffers.live import Schedule
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.hlo import hlo_module
from taxpr._errors import ArgumentError, RefusedError
from taxpr._kernels.hlo_dataflow import readers
from taxpr._kernels.kernels import written
from taxpr._memory import used

PART = ("argument", "output", "alias", "temp")


def plain(fun, *args):
    """What XLA says of a call, without taxpr."""
    jitted = fun if hasattr(fun, "lower") else jax.jit(fun)
    stats = jitted.lower(*args).compile().memory_analysis()
    return [getattr(stats, f"{part}_size_in_bytes") for part in PART]


def is_temporary(row):
    return "argument" not in row.why and row.why != "result"


@pytest.mark.parametrize("name", PROGRAMS)
def test_totals_are_xlas_to_the_byte(name):
    use = use_of(name)
    found = [use.arguments, use.results, use.alias, use.temporaries]
    assert found == plain(PROGRAMS[name], *arguments(name))
    assert use.total == found[0] + found[1] - found[2] + found[3]
    assert sum(row.bytes for row in use.rows) == use.total
    assert 0.9 * use.total < max(use.line) <= use.total


@pytest.mark.parametrize("name", PROGRAMS)
def test_temporaries_are_told_by_the_right_variable_or_statement(name):
    rows = [row for row in use_of(name).rows if is_temporary(row)]
    right = [
        row.bytes
        for row in rows
        if {row.code.removeprefix("∂ "), *row.variable.split(", ")} & RIGHT[name]
    ]
    assert sum(right) >= 0.9 * use_of(name).temporaries
    # And what is told is never a name that the program does not have.
    names = {one for row in rows for one in row.variable.split(", ")} - {""}
    assert names <= RIGHT[name]


def test_a_layer_keeps_what_its_derivative_needs_once_for_each_iteration():
    each = LAYERS * BATCH * WIDTH * 4
    for rows in (use_of("scanned").rows, use_of("scanned").residuals.rows):
        kept = [row for row in rows if row.iterations == LAYERS and "kept" in row.why]
        assert {row.variable for row in kept} == {"c", "act"}
        for row in kept:
            assert row.bytes == each * row.arrays
        whys = {row.variable: row.why for row in kept}
        assert whys["c"] == "kept for the derivative of `pre = x @ w`"
        assert "`act = jnp.tanh(pre)`" in whys["act"]


TABLE = jnp.sin(jnp.arange(1000.0))


# A planted value of `n` columns, which the derivative needs, in each kind of place.


def at_the_top(x, n):
    planted = jnp.exp(jnp.outer(x, TABLE[:n]))
    return jnp.sum(planted)


def in_a_scan(x, n):
    def body(total, row):
        planted = jnp.exp(row * TABLE[:n])
        return total + jnp.sum(planted * planted), None

    return jax.lax.scan(body, 0.0, x)[0]


def in_two_scans(x, n):
    def outer(total, row):
        def inner(total, _):
            planted = jnp.exp(row * TABLE[:n] + total)
            return total + jnp.mean(planted), None

        return jax.lax.scan(inner, total, None, length=5)[0], None

    return jax.lax.scan(outer, 0.0, x)[0]


@functools.partial(jax.jit, static_argnums=1)
def helper(x, n):
    planted = jnp.exp(jnp.outer(x, TABLE[:n]))
    return jnp.sin(planted)


def in_a_jit(x, n):
    return jnp.sum(helper(x, n))


def under_a_policy(x, n):
    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names("kept"))
    def block(x):
        planted = checkpoint_name(jnp.exp(jnp.outer(x, TABLE[:n])), "kept")
        return jnp.sum(jnp.sin(planted))

    return block(x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def ruled(x, n):
    return jnp.sum(x) * n


def ruled_fwd(x, n):
    planted = jnp.exp(jnp.outer(x, TABLE[:n]))
    return ruled(x, n), planted


ruled.defvjp(ruled_fwd, lambda n, planted, g: (g * jnp.sum(planted, 1),))

PLANTED = {
    at_the_top: 1,
    in_a_scan: 1,
    in_two_scans: 5,
    in_a_jit: 1,
    under_a_policy: 1,
    ruled: 1,
}


@pytest.mark.parametrize("fun", PLANTED, ids=lambda fun: getattr(fun, "__name__", "ruled"))
def test_a_planted_residual_is_found_with_its_size(fun):
    for n in (300, 700):
        use = taxpr.memory(jax.grad(functools.partial(fun, n=n)))(jnp.ones(8))
        row, size = use.residuals.rows[0], 8 * n * 4 * PLANTED[fun]
        assert row.variable == "planted"
        assert row.code.startswith("planted = ")
        # The row of the table is kept for the derivative of the statement, too.
        assert row.bytes >= size
        assert row.bytes % size in (0, n * 4, 8 * n * 4 // PLANTED[fun] % size)
        assert row.share == row.bytes / use.residuals.total
        if fun in (in_a_scan, in_two_scans):  # XLA computes the others again where they are read
            stacked = [one for one in use.rows if one.variable == "planted" and one.iterations > 1]
            assert sum(one.bytes for one in stacked) >= size


def test_what_is_donated_is_subtracted_once():
    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, x):
        return w - 0.1 * x, jnp.sum(x)

    args = jnp.ones((50, 50)), jnp.ones((50, 50))
    use = taxpr.memory(step)(*args)
    assert [use.arguments, use.results, use.alias, use.temporaries] == plain(step, *args)
    assert use.alias == 10_000
    assert sum(row.bytes for row in use.rows) == use.total
    assert next(row for row in use.rows if row.variable == "w").why.startswith("argument, whose")
    guess = taxpr.memory(step, compile=False)(*args)
    assert guess.alias == 10_000
    for fun in (step, jax.jit(lambda x: x @ x, donate_argnums=0)):
        guess = taxpr.memory(fun, compile=False)(*args[: 1 + (fun is step)])
        assert sum(row.bytes for row in guess.rows) == guess.total


def test_arguments_that_nothing_reads_take_nothing():
    def f(x, unused):
        return x * 2.0

    for use in (taxpr.memory(f, compile=c)(jnp.ones(100), jnp.ones(7)) for c in (True, False)):
        assert use.arguments == 400
        assert {row.variable for row in use.rows} == {"x", "out"}


def test_static_arguments_types_and_programs():
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        wide = jnp.outer(x, jnp.arange(n, dtype=jnp.float32))
        return wide @ wide.T

    struct = jax.ShapeDtypeStruct((30,), jnp.float32)
    use = taxpr.memory(f)(jnp.ones(30), n=50)
    assert use.temporaries >= 30 * 50 * 4
    assert taxpr.memory(f)(struct, n=50).total == use.total
    program = taxpr.trace(functools.partial(f, n=50), names=True)(struct)
    assert taxpr.memory(program)(jnp.ones(30)).total == use.total
    assert taxpr.memory(program, compile=False)(struct).estimated
    assert taxpr.memory(program)().total == use.total  # of the types that it was traced with


def test_a_call_without_a_derivative_keeps_nothing():
    use = taxpr.memory(scanned)(WEIGHTS, X)
    assert not use.residuals
    assert "ask of jax.grad(fun)" in str(use.residuals)


def test_the_line_is_of_the_program_and_loops_are_bands():
    use = use_of("scanned")
    assert len(use.loops) == 2
    [(begin, end, code), _] = use.loops
    assert code.startswith("out, _ = jax.lax.scan(")
    assert 0 <= begin < end < len(use.line)
    assert begin <= int(np.argmax(use.line))
    chart = use.chart()
    assert chart.svg().count("<title>") == 2
    assert "bytes" in chart.text()
    assert use.texts()[0][:3] == ["bytes", "share", "variable"]
    assert use.texts()[1][0].endswith("kB")


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_estimate_is_marked_and_near(name):
    guess = taxpr.memory(PROGRAMS[name], compile=False)(*arguments(name))
    assert guess.estimated
    assert "An estimate from the program alone" in str(guess)
    use = use_of(name)
    assert (guess.arguments, guess.results, guess.alias) == (
        use.arguments,
        use.results - (use.results % 16 if name == "trained" else 0),
        use.alias,
    )
    assert abs(guess.total - use.total) < 0.35 * use.total
    assert [row.variable for row in guess.residuals.rows] == [
        row.variable for row in use.residuals.rows
    ]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_an_estimate_knows_the_copies_for_the_gradient_of_a_kernel(layout):
    kernel = "HWIO" if layout == "NHWC" else "OIHW"

    def loss(weights, x):
        for w in weights:
            x = jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=(layout, kernel, layout)
            )
            x = jax.nn.relu(x)
        return jnp.mean(x**2)

    def shape(axes, **sizes):
        return jnp.ones([sizes[axis] for axis in axes])

    weights = [shape(kernel, H=3, W=3, I=n, O=m) for n, m in ((3, 16), (16, 32), (32, 32))]
    args = weights, shape(layout, N=4, H=16, W=16, C=3)
    guess, use = (taxpr.memory(jax.grad(loss), compile=c)(*args) for c in (False, True))
    assert abs(guess.total - use.total) < 0.1 * use.total


@pytest.mark.parametrize("act", [jnp.tanh, jax.nn.relu])
@pytest.mark.parametrize("pooled", [False, True])
def test_an_estimate_of_a_gradient_of_convolutions_and_pools(act, pooled):
    def loss(ws, x):
        for w in ws:
            x = jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = act(x)
            if pooled:
                window = (1, 2, 2, 1)
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        return jnp.mean(x)

    weights = [jnp.ones((3, 3, n, m)) for n, m in ((3, 16), (16, 32), (32, 32))]
    args = weights, jnp.ones((8, 32, 32, 3))
    guess, use = (taxpr.memory(jax.grad(loss), compile=c)(*args) for c in (False, True))
    assert abs(guess.temporaries - use.temporaries) < 0.2 * use.temporaries


def three_products(w, x):
    return ((x @ w) @ w) @ w


def small_result(w, x):
    return ((x @ w) @ w) @ w[:, :8]


def many_results(w, x):
    first = x @ w
    second = first @ w
    third = second @ w
    return jnp.sum(third @ w), second @ w, jnp.cos(x)


def early_result(w, x):
    first = x @ w
    return first, (first @ w) @ w


@pytest.mark.parametrize(
    ("fun", "donated"),
    [
        *((three_products, ()), (small_result, ()), (many_results, ()), (early_result, ())),
        (three_products, (1,)),
    ],
)
def test_temporaries_lie_in_results_that_are_not_yet_written(fun, donated):
    step = jax.jit(fun, donate_argnums=donated)
    args = jnp.ones((64, 64)), jnp.ones((512, 64))
    guess = taxpr.memory(step, compile=False)(*args)
    assert guess.temporaries == pytest.approx(taxpr.memory(step)(*args).temporaries, rel=0.05)


def test_an_estimate_knows_whether_xla_computes_a_layer_again():
    """Versions of XLA for CPUs that do not need as much as without `jax.checkpoint`."""

    def layer(x, w):
        return jnp.tanh(jnp.tanh(x @ w) @ w.T)

    def loss(layer, ws, x):
        for k in range(6):
            x = layer(x, ws[k])
        return x.sum()

    args = jnp.ones((6, 32, 128)), jnp.ones((512, 32))
    for one in (layer, jax.checkpoint(layer)):
        fun = jax.grad(functools.partial(loss, one))
        guess, use = (taxpr.memory(fun, compile=c)(*args) for c in (False, True))
        assert abs(guess.temporaries - use.temporaries) < 0.2 * use.temporaries


def test_an_estimate_says_where_xla_may_need_another_amount():
    ws, x = [jnp.ones((8, 8))] * 3, jnp.ones((32, 8))

    def unrolled(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return x.sum()

    def in_loop(ws, x):
        step = jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None))
        return jax.lax.scan(step, x, jnp.stack(ws))[0].sum()

    def notes(fun):
        return taxpr.memory(fun, compile=False)(ws, x).notes[1:]

    [less] = notes(unrolled)
    assert "a quarter of the estimated temporaries to one and a half times as much: here" in less
    for fun in (jax.grad(unrolled), in_loop, jax.grad(in_loop), lambda ws, x: x @ ws[0] @ ws[1]):
        assert notes(fun) == ()
    assert taxpr.memory(unrolled)(ws, x).notes == ()


def test_an_estimate_compiles_nothing(monkeypatch):
    def refuse(*args):
        raise AssertionError("compiled")

    monkeypatch.setattr(jax.stages.Lowered, "compile", refuse)
    assert taxpr.memory(PROGRAMS["scanned"], compile=False)(*arguments("scanned"))


def test_what_a_backend_does_not_say(monkeypatch):
    total = use_of("scanned").total  # before the change: all tests share it
    monkeypatch.setattr(used, "assignment", lambda executable: None)
    use = taxpr.memory(PROGRAMS["scanned"])(*arguments("scanned"))
    assert use.total == total == sum(row.bytes for row in use.rows)
    assert any("this backend says no more" in row.why for row in use.rows)
    assert use.chart() is None
    monkeypatch.setattr(jax.stages.Compiled, "memory_analysis", lambda self: None)
    with pytest.raises(RefusedError, match=r"does not say how much memory.*compile=False"):
        taxpr.memory(scanned)(WEIGHTS, X)


def test_what_it_refuses():
    with pytest.raises(ArgumentError, match=r"memory: compile=3: give True, or False"):
        taxpr.memory(scanned, compile=3)
    with pytest.raises(TypeError, match="memory"):
        taxpr.memory(3)
    with pytest.raises(ArgumentError, match=r"memory\(scanned\)\(\*args\)"):
        taxpr.memory(scanned, WEIGHTS)


def test_after_each_step_it_tells_as_much_as_there_is():
    def loss(ws, x):
        def layer(x, w):
            act = jnp.tanh(x @ w)
            return act, act.sum()

        out, sums = jax.lax.scan(layer, x, ws)
        return jnp.sum(jnp.sin(out)) + sums.sum()

    use = taxpr.memory(jax.grad(loss))(jnp.ones((10, 16, 16)), jnp.ones((64, 16)))
    assert len(use.line) == len(use.steps) > 10
    for step, size in enumerate(use.line):
        assert sum(row.bytes for row in use.at(step).rows) == size
    peak = int(np.argmax(use.line))
    assert {row.variable for row in use.at(peak).rows} >= {"act", "ws"}
    assert "act = jnp.tanh(x @ w)" in {step.code for step in use.steps}
    assert sum(one.amount for one in use.portions) == use.total
    assert sum(one.amount for one in use.residuals.portions) == use.residuals.total
    for step in (-1, 1.5, True, "1"):
        with pytest.raises(ArgumentError, match=f"no step {step!r}, but 0 to"):
            use.at(step)
    guess = taxpr.memory(jax.grad(loss), compile=False)(jnp.ones((10, 16, 16)), jnp.ones((64, 16)))
    assert sum(one.amount for one in guess.portions) == guess.total
    with pytest.raises(ArgumentError, match="it is an estimate"):
        guess.at(0)


class _Silent:
    """The figures of an executable that does not hand out its plan, as that of a GPU."""

    serialized_buffer_assignment_proto = b""

    def __init__(self, stats):
        self._stats = stats

    def __getattr__(self, name):
        return getattr(self._stats, name)


@pytest.mark.parametrize("platform", ["gpu", "tpu", "unheard of"])
@pytest.mark.parametrize("name", ["scanned", "nested", "branched", "jitted"])
def test_a_plan_that_xla_writes_into_a_file_is_read_alike(name, platform, monkeypatch):
    expected = use_of(name)
    told = jax.stages.Compiled.memory_analysis
    monkeypatch.setattr(jax.stages.Compiled, "memory_analysis", lambda self: _Silent(told(self)))
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    found = taxpr.memory(PROGRAMS[name])(*arguments(name))
    assert found.rows == expected.rows
    assert (found.line == expected.line).all()
    assert found.steps == expected.steps


def test_a_compiler_that_writes_no_files_is_asked_for_the_sums_alone(monkeypatch):
    expected = use_of("scanned")
    told, compiled = jax.stages.Compiled.memory_analysis, jax.stages.Lowered.compile

    def without_files(self, options=None, **kwargs):
        if options and "xla_dump_to" in options:
            message = "INVALID_ARGUMENT: No such compile option: 'xla_dump_to'"
            raise jax.errors.JaxRuntimeError(message)
        return compiled(self, options, **kwargs)

    monkeypatch.setattr(jax.stages.Compiled, "memory_analysis", lambda self: _Silent(told(self)))
    monkeypatch.setattr(jax.stages.Lowered, "compile", without_files)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    found = taxpr.memory(PROGRAMS["scanned"])(*arguments("scanned"))
    assert (found.total, found.temporaries) == (expected.total, expected.temporaries)
    [unknown] = [row for row in found.rows if row.bytes == found.temporaries]
    assert unknown.why == "temporaries; this backend says no more about them"
    with pytest.raises(ArgumentError, match="XLA says their sum alone"):
        found.at(0)
    monkeypatch.setattr(jax.stages.Compiled, "memory_analysis", lambda self: None)
    with pytest.raises(RefusedError, match=r"compile=False\) estimates it from the program"):
        taxpr.memory(PROGRAMS["scanned"])(*arguments("scanned"))


def test_an_error_of_the_compiler_itself_is_not_hidden(monkeypatch):
    def fails(self, options=None, **kwargs):
        raise jax.errors.JaxRuntimeError("INTERNAL: no")

    monkeypatch.setattr(jax.stages.Lowered, "compile", fails)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL: no"):
        taxpr.memory(PROGRAMS["scanned"])(*arguments("scanned"))


STARTED = """HloModule jit_f, is_scheduled=true

%fused (p: f32[8,4], at: s32[]) -> f32[1,4] {
  %p = f32[8,4]{1,0} parameter(0)
  %at = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %slice = f32[1,4]{1,0} dynamic-slice(%p, %at, %zero), metadata={op_name="taxpr.1./slice"}
}

ENTRY %main (x: f32[8,4], k: s32[]) -> f32[1,4] {
  %k = s32[] parameter(1)
  %x = f32[8,4]{1,0} parameter(0)
  %y = f32[8,4]{1,0} sine(%x), metadata={op_name="taxpr.0./sin"}
  %fusion-start = ((f32[8,4], s32[]), f32[1,4], u32[]) fusion-start(%y, %k), calls=%fused
  %z = f32[8,4]{1,0} cosine(%x), metadata={op_name="taxpr.2./cos"}
  %fusion-done = f32[1,4]{1,0} fusion-done(%fusion-start)
  ROOT %out = f32[1,4]{1,0} exponential(%fusion-done), metadata={op_name="taxpr.3./exp"}
}
"""


def test_what_a_gpu_starts_holds_its_operands_until_it_is_awaited():
    module = hlo_module(STARTED)
    of_operands = ("fusion-start", (0, 0)), ("fusion-start", (0, 1))
    schedule = Schedule(module, lambda defined: defined not in of_operands)
    lives = {one.defined: one for one in schedule.intervals}
    order = {name: k for k, name in enumerate(schedule.order, 1)}
    assert schedule.order[lives["y", ()].end - 1] == "fusion-done"
    assert lives["fusion-start", (1,)].begin == order["fusion-start"]
    assert schedule.order[lives["fusion-start", (1,)].end - 1] == "out"
    started = module.instructions["fusion-start"]
    assert [one.opcode for one in module.computed(started)][-1] == "dynamic-slice"
    assert written(module, started) == 16
    assert [one.name for one in readers(module, ("y", ()))] == ["slice"]
    assert [one.name for one in readers(module, ("slice", ()))] == ["out"]


@pytest.mark.parametrize("question", ["memory", "profile", "compiled", "compile_time"])
def test_a_device_that_is_too_small_to_compile_is_told_to_people(question, monkeypatch):
    def fail(*_, **__):
        raise jax.errors.JaxRuntimeError(
            "NOT_FOUND: Failed to get configs for: 2 out of 20 instructions.\nEXECUTION FAILED: "
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 186.28GiB with allocator "
        )

    monkeypatch.setattr(jax.stages.Lowered, "compile", fail)
    told = r"compiling scanned takes more memory .* in vain for 200 GB at once\. .*compile=False"
    with pytest.raises(RefusedError, match=told):
        getattr(taxpr, question)(PROGRAMS["scanned"])(*arguments("scanned"))


def test_a_device_that_is_too_small_to_run_is_told_to_people():
    def huge(x):
        return jnp.std(x[:, None, None] * x[None, :, None] * x[None, None])

    with pytest.raises(RefusedError, match=r"running huge takes more .* for \d+ PB at once"):
        taxpr.profile(jax.grad(huge))(jnp.ones(200_000))


def test_what_repeats_in_each_layer_is_shown_once():
    def loss(params, x):
        for p in params["layers"]:
            x = jnp.tanh(x @ p["w"])
        return (x @ params["scale"][0]).sum()

    layers = [{"w": jnp.ones((16, 16))} for _ in range(30)]
    params = {"layers": layers, "scale": [jnp.ones(16)]}
    use = taxpr.memory(jax.grad(loss))(params, jnp.ones((4, 16)))
    assert len([row for row in use.rows if row.why == "argument"]) == 32
    listed = {row.variable: row for row in use.listed() if row.why == "argument"}
    assert {name: (row.arrays, row.bytes) for name, row in listed.items()} == {
        "params['layers'][…]['w']": (30, 30 * 16 * 16 * 4),
        "params['scale'][0]": (1, 16 * 4),
        "x": (1, 4 * 16 * 4),
    }
    assert sum(row.bytes for row in use.listed()) == use.total
    assert sum(row.share for row in use.listed()) == pytest.approx(1)
    [line] = [line for line in str(use).splitlines() if "params['layers'][…]['w']" in line]
    assert line.split() == [
        *("30.7", "kB"),
        f"{30720 / use.total:.1%}",
        *("params['layers'][…]['w']", "30", "argument"),
    ]


def test_the_numbers_of_an_estimate_look_up_no_names(monkeypatch):
    asked, look_up = [], Attributions.of

    def of(words, address):
        asked.append(address)
        return look_up(words, address)

    monkeypatch.setattr(Attributions, "of", of)
    guess = taxpr.memory(PROGRAMS["scanned"], compile=False)(*arguments("scanned"))
    assert guess.total == guess.arguments + guess.results - guess.alias + guess.temporaries
    assert guess.residuals.total > 0
    assert not asked
    assert sum(row.bytes for row in guess.rows) == guess.total == sum(x[0] for x in guess.portions)
    assert asked


def test_a_gradient_of_integers_has_a_byte_for_each():
    def counted(n, x):
        return jax.grad(lambda n: (x * n.astype(x.dtype)).sum(), allow_int=True)(n)

    args = jnp.arange(1000), jnp.ones(1000)
    guess = taxpr.memory(counted, compile=False)(*args)
    assert guess.results == plain(counted, *args)[1] == 1000


@pytest.mark.parametrize("compiled", [True, False])
def test_the_results_of_a_gradient_have_names_of_their_own(compiled):
    def loss(params, x):
        hidden = jax.nn.silu(x @ params["w"] + params["b"][None])
        return jnp.mean(hidden @ params["v"])

    params = {"w": jnp.ones((8, 32)), "b": jnp.ones(32), "v": jnp.ones(32)}
    use = taxpr.memory(jax.grad(loss), compile=compiled)(params, jnp.ones((20, 8)))
    found = {row.variable: row.bytes for row in use.rows if row.why == "result"}
    assert found == {"out['w']": 1024, "out['b']": 128, "out['v']": 128}
