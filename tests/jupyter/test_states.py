"""Functions that use states: traced, drawn, edited, run, written as code."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import PROGRAMS
from jax import lax

import taxpr
from taxpr import State
from taxpr._calls import libraries
from taxpr.libraries import PureCode, like, objects
from taxpr_jupyter import PanelError, Session, compare, draw, panel
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._cli.main import main
from taxpr_jupyter._drawing.build import Builder, build_picture
from taxpr_jupyter._store.state_values import fitted_leaf, parsed, text_of
from taxpr_jupyter._tracing.trace import traced
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._view.parts.state_fields import states_state
from taxpr_jupyter._view.widget import view_for

XS = np.arange(1.0, 5.0, dtype=np.float32)
ADD = "0:scan/body/0:add"


def running_sum():
    """A function of ``xs`` with a state of its own."""
    total = State(0.0, name="total")

    def add(x):
        total.value += x
        return total.value

    def sums(xs):
        return lax.map(add, xs)

    return sums, total


def norm():
    """One state of two arrays and a key, and one that is only read."""
    stats = State(
        {"mean": jnp.zeros(3), "var": jnp.ones(3), "key": jax.random.key(0)}, name="stats"
    )
    rate = State(0.5, name="rate")

    def step(x):
        now, keep = stats.value, rate.value
        mean = keep * now["mean"] + (1 - keep) * x.mean(0)
        stats.value = {
            "mean": mean,
            "var": now["var"] * keep,
            "key": jax.random.split(now["key"])[0],
        }
        return x - mean[None]

    return step, stats, rate


def session_of(fn, *args, **kwargs):
    names = {"fn": fn, **{f"a{k}": arg for k, arg in enumerate(args)}}
    return Session(fn, args, kwargs, namespace=names), names


def executed(session, names):
    left = dict(names)
    exec(compile(session.code(), "<code>", "exec"), left)
    return left


def same(one, other):
    ones, others = jax.tree.leaves(one), jax.tree.leaves(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(ones, others, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.array_equal(_bits(a), _bits(b))


def _bits(x):
    return np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)


def assert_code_does_the_same(session, names):
    run = session.run()
    assert run.ok, run.error
    left = executed(session, names)
    same(left["out"], run.outputs)
    same(left["states"], run.final_states)
    return run


# ---- tracing -----------------------------------------------------------------


def test_the_pure_form_is_traced_and_names_stay():
    sums, total = running_sum()
    start = traced(sums, (XS,), {}, (), ())
    program = start.program
    assert program.in_names == ("states['total']", "xs")
    assert program.out_names == ("out", "states['total']")
    assert program.name == "sums"
    assert start.notes == ()
    assert (start.args, start.kwargs) == ((XS,), {})
    (ends,) = states_of(program)
    assert (ends.name, ends.ins, ends.outs) == ("total", range(0, 1), range(1, 2))
    assert ends.written
    out, states = program({"total": jnp.float32(10.0)}, XS)
    assert out.tolist() == [11.0, 13.0, 16.0, 20.0]
    assert float(states["total"]) == 20.0
    assert float(total.value) == 0.0


def test_a_function_without_states_is_traced_as_ever():
    seen = []

    def plain(x):
        seen.append(x)
        return x + 1

    start = traced(plain, (XS,), {}, (), ())
    assert type(start.program) is taxpr.Program
    assert start.pure is None
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("args", "kwargs", "more"),
    [
        ((XS, jnp.tanh, 2.0), {"how": "up", "shift": 1.0}, {}),
        ((XS, jnp.tanh), {"how": "down"}, {}),
        ((XS, jnp.tanh, 2), {"how": "up"}, {"static_argnums": 2}),
        ((XS,), {"act": jnp.tanh, "how": "up", "n": 3}, {"static_argnames": "n"}),
    ],
)
def test_static_arguments(args, kwargs, more):
    total = State(1.0, name="total")

    def f(xs, act, n=2, *, how, shift=0.5):
        total.value += act(xs).sum() * n if how == "up" else -xs.sum()
        return total.value + shift

    names = {"f": f, "XS": XS, "jnp": jnp}
    session = Session(f, args, kwargs, namespace=names, **more)
    run = assert_code_does_the_same(session, names | {"kwargs": kwargs, "args": args})
    expected = f(*args, **kwargs)
    assert float(run.outputs) == pytest.approx(float(expected))
    assert float(run.final_states["total"]) == pytest.approx(float(total.value))


def test_a_call_with_a_star_before_a_static_argument():
    total = State(1.0, name="total")

    def f(x, act):
        total.value += act(x).sum()

    names = {"f": f, "xs": (XS,), "act": jnp.tanh}
    session = Session(f, (XS, jnp.tanh), call="f(*xs, act)", namespace=names)
    assert_code_does_the_same(session, names)


def test_a_state_that_could_come_out_wrong_is_refused_as_by_uncurry():
    total = State(0.0, name="total")

    def f(x):
        total.value = x

    with pytest.raises(taxpr.StateError, match="Wrap the function that is mapped"):
        Session(jax.vmap(f), (XS,))


def test_like_names_the_states_as_no_argument_is_named():
    pure = like(lambda states, x: x)(lambda states_, *args: args)
    assert taxpr.trace(pure)({"a": 1.0}, 2.0, 3.0).in_names == ("states_['a']", "states", "x")


class Box:
    """State of a made-up library."""

    def __init__(self, value):
        self.value = value

    def __call__(self, x):  # as modules have one, which are no static functions
        self.value = self.value + x
        return self.value * 2


def boxes(code):
    """What a library of boxes registers."""

    def split(objects):
        return None, {label: {"": box.value} for label, box in objects.items()}

    def merge(static, states):
        return {label: Box(own[""]) for label, own in states.items()}

    def update(objects, states):
        for label, own in states.items():
            objects[label].value = own[""]

    return objects("boxes", Box, split, merge, update, code=code)


def code_of_boxes(found, n_bound):
    [place] = found.places
    body = f"""
def pure(states, *args):
    box = type(given)(states["box"])
    out = fun(box, *args[1:])
    return out, {{"box": math.fsum([1.0]) * box.value}}

given = args[{place}]
states = {{"box": given.value}}
rest = (None, *args[1:]), kwargs
"""
    return PureCode(body, {"math": "math"})


def test_another_library_by_its_adaptor(monkeypatch):
    monkeypatch.setattr(libraries, "_registered", {})
    taxpr.register_library("boxes", boxes(code_of_boxes))

    def f(box, how, x):
        box.value = box.value + (x if how == "up" else -x)
        return box.value * 2

    box = Box(jnp.float32(1.0))
    names = {"f": f, "box": box, "Box": Box, "x": 2.0}
    session = Session(f, (box, "up", 2.0), call="f(box, 'up', x)", namespace=names)
    run = assert_code_does_the_same(session, names)
    assert (float(run.outputs), float(run.final_states["box"])) == (6.0, 3.0)
    assert session.program.in_names == ("states['box']", "x")
    with pytest.raises(PanelError, match="states of boxes is not known: tag the value"):
        session.watch_state("box")
    assert float(box.value) == 1.0
    session.write_states()
    assert float(box.value) == 3.0
    assert session.run().states[0].name == "box"
    taxpr.register_library("boxes", boxes(None))
    session = Session(lambda box, x: box(x), (box, 1.0))
    for code in (session.code(), session.code("find_nan")):
        assert "# No code takes the objects of boxes apart" in code
        exec(code, {})
    assert (float(session.run().outputs), float(box.value)) == (8.0, 3.0)
    assert [state.name for state in session.states()] == ["box"]
    # What does not use the library goes as before.
    assert type(traced(lambda x: x, (XS,), {}, (), ()).program) is taxpr.Program
    total = State(0.0, name="total")

    def both(box, x):
        total.value += x
        box.value += x

    with pytest.raises(PanelError, match=r"states of boxes, and a taxpr.State besides .*total"):
        Session(both, (box, 2.0))


# ---- the picture -------------------------------------------------------------


def kinds(picture, kind):
    return [(node.address, node.lines) for node in picture.nodes if node.kind == kind]


def ends(picture, kind):
    return {(edge.source, edge.target) for edge in picture.edges if edge.kind == kind}


def test_states_stand_outside_of_the_function():
    sums, _ = running_sum()
    picture = draw(sums, XS).picture
    assert kinds(picture, "state") == [("in0", ("state total", "f32[]"))]
    assert kinds(picture, "input")[0] == ("in1", ("xs", "f32[4]"))
    assert [n.address for n in picture.nodes if n.kind == "output" and "/" not in n.address] == [
        "out0"
    ]
    (box,) = (c for c in picture.clusters if c.kind == "function")
    around = {node.address: node.cluster for node in picture.nodes}
    assert (around["in0"], around["in1"], around["out0"]) == (None, box.id, box.id)
    assert ends(picture, "read") == {("in0", "0:scan/body/in0")}
    assert ends(picture, "write") == {("0:scan/body/out0", "in0")}
    assert picture.element_of("out1").address == "in0"
    assert "written" in picture.find("in0").marks
    assert str(picture.counts) == "2 equations"


def test_all_ways_in_which_a_state_is_used():
    picture = build_picture(PROGRAMS["states"]())
    states = dict(kinds(picture, "state"))
    assert states == {
        "in0": ("state a", "i32[]"),
        "in1": ("state b", "i32[]"),
        "group:in2-3": ("state norm", "2 arrays", "mean, var"),
        "in4": ("state reset", "f32[]"),
        "in5": ("state total", "f32[]"),
        "in6": ("state unit", "f32[]"),
    }
    writes = ends(picture, "write")
    assert {(a, b) for a, b in writes if a[:2] == "in"} == {("in0", "in1"), ("in1", "in0")}
    (literal,) = (a for a, b in writes if b == "in4")
    assert picture.find(literal).lines == ("0.0",)
    assert sum(b == "group:in2-3" for _, b in writes) == 1  # `var` stays as it is
    assert not any("in6" in pair for pair in writes)
    assert "only read" in picture.find("in6").tooltip
    opened = build_picture(PROGRAMS["states"](), {"0:scan", "group:in2-3"})
    assert {"in2": ("norm['mean']", "f32[]"), "in3": ("norm['var']", "f32[]")}.items() <= dict(
        kinds(opened, "state")
    ).items()
    (cluster,) = (c for c in opened.clusters if c.id == "group:in2-3")
    assert (cluster.lines, cluster.parent) == (("state norm",), None)
    assert {b for _, b in ends(opened, "write")} == {"in0", "in1", "in2", "in4", "in5"}


def many_states():
    """A model of 16 states, as libraries name them, one of another name, and a program."""
    names = [f"model.blocks[{k}].{part}" for k in range(5) for part in ("bias", "kernel", "scale")]
    states = [State(jnp.float32(k), name=name) for k, name in enumerate([*names, "model.out"])]
    count = State(0, name="count")

    def f(x):
        count.value += 1
        for state in states[:-1]:
            x = x * state.value
        states[-1].value = x
        return x

    return f


def cylinders(picture):
    """The states, without the stubs of them near their uses."""
    nodes = [node for node in picture.nodes if node.kind == "state" and "stub" not in node.marks]
    return [(node.address, node.lines) for node in nodes]


def test_many_states_are_one_cylinder_by_what_their_names_begin_with():
    session, _ = session_of(many_states(), np.float32(2.0))
    picture = session.picture()
    assert cylinders(picture) == [
        ("in0", ("state count", "i32[]")),
        ("group:in1-16", ("model", "16 states")),
    ]
    assert {"in1", "in16", "out17"} <= {*picture.hidden["group:in1-16"]}
    ((last, _),) = [(a, b) for a, b in ends(picture, "write") if b == "group:in1-16"]
    assert last == "15:mul"
    node = picture.find("group:in1-16")
    assert "16 states, read and written" in node.tooltip
    assert "16 states of model" in session.outline()
    # What the states would have taken of the budget is there for equations.
    assert build_picture(session.program, budget=40).counts.drawn == 16


def test_a_cylinder_of_many_states_opens_by_levels():
    session, _ = session_of(many_states(), np.float32(2.0))
    session.unfold("group:in1-16")
    picture = session.picture()
    assert cylinders(picture)[1:] == [
        ("group:in1-15", ("model.blocks", "15 states")),
        ("in16", ("state model.out", "f32[]")),
    ]
    assert ends(picture, "write") == {("0:add", "in0"), ("15:mul", "in16")}
    assert session.reveal("in5") == "in5"
    assert len(cylinders(session.picture())) == 17
    assert session.reveal("out17") == "in16"


def test_the_line_of_a_state_is_short_and_its_row_has_all_of_it():
    many = taxpr.State(jnp.arange(32.0) / 7, name="many")
    (row,) = Session(lambda x: x * many.value, (1.0,)).states()
    assert row.leaves[0].text.count(",") == 31
    assert str(row).startswith("many (only read): many: f32[32] = [0.0, 0.1428")
    assert len(str(row)) < 110


def test_texts_of_a_program_with_states():
    sums, _ = running_sum()
    drawing = draw(sums, XS)
    assert "a:f32[]  state total" in drawing.text()
    session, _ = session_of(sums, XS)
    assert "in  state total  a  f32[]" in session.outline()
    assert "# state total, xs" in session.text(folded=True)
    assert session.inspect("in0").title == "state total"
    assert session.inspect("in0").kind == "state"
    assert session.inspect("out1").title == "last value of total"
    assert [hit.address for hit in session.find("total")] == ["in0", "out1"]
    assert session.reveal("out1") == "in0"
    assert "in0" in session.upstream("out0").addresses
    assert {"out0", "out1"} <= set(session.downstream("in0").addresses)


def test_a_slice_without_the_state_leaves_it_out():
    names = ("a", "b", "c")
    first, *others = [State(0.0, name=name) for name in names]

    def f(x):
        first.value += jnp.sin(x)
        for state in others:
            state.value += jnp.cos(x)

    session, _ = session_of(f, np.float32(1.0))
    builder, only = Builder(session.program), Only(session.upstream("out0").places())
    picture = builder.picture(only=only)
    assert kinds(picture, "state") == [("in0", ("state a", "f32[]"))]
    assert ends(picture, "write") == {("1:add", "in0")}
    assert "rest:in1-2" in [address for address, _ in kinds(picture, "input")]
    assert builder.path_to("out2", only) == ["rest:in1-2"]


def test_a_folded_function_in_a_page_and_a_comparison():
    sums, _ = running_sum()
    assert "state total" in draw(sums, XS, fold="0:scan").html()
    other, _ = running_sum()
    assert compare(sums, other, XS).diff.is_same
    session, _ = session_of(sums, XS)
    session.attach(ADD, "scale", factor=2.0)
    comparison = session.changes()
    said = comparison.diff.summary()
    assert said.startswith("4 changes: ")
    assert "mul added" in said
    assert "scan: operands 2→3" in said
    assert comparison.diff.counts["added"] == comparison.diff.counts["changed"] == 1
    for picture in comparison.pictures:
        assert [lines[0][-11:] for _, lines in kinds(picture, "state")] == ["state total"]
        assert len(ends(picture, "write")) == 1


def test_what_takes_other_outputs_is_drawn_without_states():
    sums, _ = running_sum()
    program = traced(sums, (XS,), {}, (), ()).program.tag_at(ADD, name="t")
    assert states_of(program)
    assert states_of(program.until("t")) == ()
    assert not kinds(build_picture(program.until("t")), "state")


def test_states_without_arrays_and_without_names():
    nothing, number = State({}), State(1)

    def f(x):
        nothing.value = {}
        number.value += 1
        return x

    session, _ = session_of(f, 1.0)
    assert [row.address for row in session.states()] == ["", "in0"]
    assert [row.name for row in session.states()] == ["state0", "state1"]
    assert int(session.run().final_states["state1"]) == 2


# ---- sessions ----------------------------------------------------------------


def test_a_run_shows_states_with_and_without_injectors():
    sums, total = running_sum()
    session, names = session_of(sums, XS)
    session.attach(ADD, "scale", factor=2.0)
    run = assert_code_does_the_same(session, names)
    assert run.baseline.tolist() == [1.0, 3.0, 6.0, 10.0]
    assert run.outputs.tolist() == [2.0, 8.0, 22.0, 52.0]
    assert (float(run.baseline_states["total"]), float(run.final_states["total"])) == (10.0, 52.0)
    ((state,), ((leaf,),)) = run.states, [s.leaves for s in run.states]
    assert (state.name, state.written) == ("total", True)
    assert (leaf.initial, leaf.final.before, leaf.final.after) == ("0", "10", "52")
    assert [difference.name for difference in run.differences] == ["out"]
    assert "state total f32[]: 0 → 10, with the changes 52" in str(run)
    assert float(total.value) == 0.0
    assert session.write_states() == run.final_states
    assert float(total.value) == 52.0
    # What a session begins with is what the state was when it was traced.
    assert float(session.initial_states["total"]) == 0.0


def test_an_initial_value_is_set_and_the_outputs_follow():
    sums, total = running_sum()
    session, names = session_of(sums, XS)
    assert session.run().outputs.tolist() == [1.0, 3.0, 6.0, 10.0]
    session.set_state("total", "-0.5")
    (row,) = session.states()
    assert (row.leaves[0].text, row.leaves[0].edited) == ("-0.5", True)
    run = assert_code_does_the_same(session, names)
    # The untouched program, too, begins with it.
    assert run.baseline.tolist() == run.outputs.tolist() == [0.5, 2.5, 5.5, 9.5]
    assert run.reused
    assert float(total.value) == 0.0
    session.reset_state("total")
    assert session.run().outputs.tolist() == [1.0, 3.0, 6.0, 10.0]
    assert "states['total'] =" not in session.code()


def test_an_array_of_a_tree_is_set():
    step, stats, _ = norm()
    session, names = session_of(step, np.ones((2, 3), np.float32))
    session.set_state("stats['var']", [1, 2, 3])
    session.set_state("rate", jnp.float32(0.25))
    run = assert_code_does_the_same(session, names)
    assert run.final_states["stats"]["var"].tolist() == [0.25, 0.5, 0.75]
    session.set_state("stats", {**stats.value, "key": jax.random.key(7)})
    edited = {leaf.name for row in session.states() for leaf in row.leaves if leaf.edited}
    assert edited == {"stats['key']", "rate"}  # of the others it is the same array again
    assert_code_does_the_same(session, names)
    rows = {leaf.name: leaf for row in session.states() for leaf in row.leaves}
    assert not rows["stats['key']"].editable
    assert rows["stats['mean']"].text == "[0.0, 0.0, 0.0]"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("totals", 1, "There is no state 'totals'. The states of f: count, key, on, total, two"),
        ("total", [1.0, 2.0], r"total is f32\[\], and the value is f32\[2\]"),
        ("total", "one", "`one` is no number, and no list of numbers such as"),
        ("total", "__import__('os')", "is no number, and no list"),
        ("total", 1j, r"total is f32\[\], and 1j does not fit into it"),
        ("total", jnp.int32(1), r"total is f32\[\], and the value is of int32. Convert it"),
        ("total", "[[1], [2, 3]]", r"\[\[1\], \[2, 3\]\] is no number, and no array"),
        ("total", 1e300, r"1e\+300 does not fit into it"),
        ("count", 1.5, r"count is i32\[\], and 1.5 does not fit into it"),
        ("count", 2**40, "1099511627776 does not fit into it"),
        ("on", 1, r"on is bool\[\], and 1 does not fit into it"),
        ("key", 1, "it takes PRNG keys, such as jax.random.key"),
        ("total", jax.random.key(0), "it takes no PRNG key"),
        ("two", 1.0, "The state two has the structure .*, and the value has .* by its own name"),
    ],
)
def test_values_that_do_not_fit(name, value, message):
    values = {
        "total": 0.0, "count": 1, "on": True, "key": jax.random.key(0), "two": (1.0, 2.0),
    }  # fmt: skip
    states = [State(value, name=key) for key, value in values.items()]

    def f():
        return [state.value for state in states]

    session, _ = session_of(f)
    before = session.initial_states
    with pytest.raises(PanelError, match=message):
        session.set_state(name, value)
    assert session.error
    after = session.initial_states
    assert all(a is b for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_text_of_a_value_is_read_back(dtype, shape):
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.7 - 0.3
    value = jnp.asarray(np.abs(numbers) if dtype == "uint8" else numbers).astype(dtype)
    same(fitted_leaf("x", parsed(text_of(value)), value), value)


def test_special_numbers_are_read_back():
    value = jnp.asarray([jnp.nan, jnp.inf, -jnp.inf])
    assert np.array_equal(
        fitted_leaf("x", parsed("[nan, inf, -inf]"), value), value, equal_nan=True
    )


def test_each_write_is_shown_when_asked():
    sums, _ = running_sum()
    session, names = session_of(sums, XS)
    assert not session.run().states[0].writes
    assert session.watch_state("total") == (f"{ADD}.0",)
    assert session.watch_state("total") == (f"{ADD}.0",)  # a cell may run again
    run = assert_code_does_the_same(session, names)
    (write,) = run.states[0].writes
    assert write.values.tolist() == [1.0, 3.0, 6.0, 10.0]
    assert (write.leaf, write.lines(), write.note) == ("total", ["1", "3", "6", "10"], "4 firings")
    assert session.states()[0].watched == (f"{ADD}.0",)
    session.unwatch_state("total")
    assert session.tags == {}
    assert session.states()[0].watched == ()


def test_each_write_of_every_kind():
    count, seen = State(0, name="count"), State(0.0, name="seen")

    def f(n, x):
        def condition(n):
            count.value += 1
            return n < 10

        def body(n):
            seen.value = jnp.where(n > 5, taxpr.tag(x * n, name="mine"), seen.value)
            return n + 3

        seen.value = x
        n = lax.while_loop(condition, body, n)
        count.value = 0
        return n

    session, names = session_of(f, 1, 2.0)
    session.watch_state("count")
    session.watch_state("seen")
    run = assert_code_does_the_same(session, names)
    states = {state.name: state for state in run.states}
    counted = [write.values for write in states["count"].writes]
    assert sorted(np.ravel(value).tolist() for value in counted) == [[1], [2, 3, 4]]
    seen_values = [np.ravel(write.values).tolist() for write in states["seen"].writes]
    assert seen_values == [[2.0], [2.0, 2.0, 14.0]]
    assert int(run.final_states["count"]) == 0


def test_a_value_that_has_a_tag_is_seen_by_it():
    total = State(0.0, name="total")

    def f(x):
        total.value = taxpr.tag(total.value + x, name="mine")

    session, _ = session_of(f, 2.0)
    (key,) = session.watch_state("total")
    assert session.tags == {}
    assert session.run().records[key].name == "mine"
    assert float(session.last.states[0].writes[0].values) == 2.0
    session.unwatch_state("total")
    assert [site.name for site in session.sites()] == ["mine"]


def test_what_cannot_be_watched():
    step, *_ = norm()
    session, _ = session_of(step, np.ones((2, 3), np.float32))
    with pytest.raises(PanelError, match="rate is only read"):
        session.watch_state("rate")
    assert len(session.watch_state("stats")) == 3
    assert session.run().ok
    reset = State(1.0, name="reset")

    def f(x):
        reset.value = 0.0
        return x

    session, _ = session_of(f, 1.0)
    with pytest.raises(PanelError, match="Only constants are written to the state reset"):
        session.watch_state("reset")


def test_a_function_that_has_changed_is_not_watched():
    total, more = State(0.0, name="total"), []

    def f(x):
        total.value += jnp.sin(x) if more else x

    session, _ = session_of(f, 2.0)
    more.append(1)
    with pytest.raises(PanelError, match="another one than when it was traced: run the cell again"):
        session.watch_state("total")
    assert session.tags == {}


def test_nothing_to_write():
    session, _ = session_of(lambda x: x, 1.0)
    assert session.states() == ()
    session.run()
    with pytest.raises(PanelError, match="There is no run with states"):
        session.write_states()


def test_the_classics_have_the_code_of_their_pure_form():
    """Addresses of the session are those of the code, in loops, branches and inner calls."""
    count = State(0, name="count")

    @functools.partial(jax.jit, static_argnums=1)
    def inner(x, up):
        count.value += 1 if up else -1
        return lax.cond(x > 2, lambda: (bump(), x)[1], lambda: x)

    def bump():
        count.value = count.value * 2

    def f(xs):
        return lax.scan(jax.checkpoint(lambda c, x: (c + inner(x, True), x)), 0.0, xs)

    session, names = session_of(f, XS)
    session.watch_state("count")
    run = assert_code_does_the_same(session, names)
    assert int(run.final_states["count"]) == ((0 + 1 + 1 + 1) * 2 + 1) * 2


# ---- where people use it -----------------------------------------------------


def test_the_panel_shows_states_and_edits_them():
    sums, total = running_sum()
    session = panel(sums)(XS)
    view = view_for(session)
    shown = view.graph.states
    assert [state["name"] for state in shown["states"]] == ["total"]
    (leaf,) = shown["states"][0]["leaves"]
    assert (leaf["text"], leaf["editable"], leaf["before"]) == ("0.0", True, "")

    def send(**message):
        view.messages.handle(message)
        return view.graph.states["states"][0]

    assert send(do="state", address="total", value="41")["leaves"][0]["text"] == "41.0"
    assert "states['total'] = np.array(41.0" in view.graph.code
    (leaf,) = send(do="state", address="total", value="x")["leaves"]
    assert (leaf["text"], leaf["typed"]) == ("41.0", "x")
    assert leaf["error"].startswith("`x` is no number")
    assert not view.graph.message["text"]  # it stands beside the field
    (leaf,) = send(do="keepState", address="total")["leaves"]
    assert (leaf["text"], leaf["typed"], leaf["error"]) == ("41.0", "", "")
    assert send(do="watch", address="total")["watched"]
    assert len(view.graph.tags) == 1
    session.run()
    (leaf,) = view.graph.states["states"][0]["leaves"]
    assert (leaf["before"], leaf["same"]) == ("51", True)
    assert [write["text"] for write in leaf["writes"]] == ["42, 44, 47, 51"]
    assert view.graph.states["run"] == "Run 1"
    send(do="resetState", address="total")
    assert view.graph.stale
    assert not send(do="unwatch", address="total")["watched"]
    send(do="writeStates")
    assert float(total.value) == 51.0
    view.close()
    assert states_state(Session(jnp.sin, (1.0,))) == {}


def test_many_arrays_in_the_panel_are_cut():
    many = State([float(k) for k in range(20)], name="many")

    def f():
        return sum(many.value)

    shown = states_state(session_of(f)[0])["states"][0]
    assert len(shown["leaves"]) == 12
    assert shown["more"] == "and 8 more arrays: session.states()"


def test_the_magic_takes_over_what_was_set(notebook):
    notebook.good("total = taxpr.State(0.0, name='total')")
    cell = "%%taxpr --name p\ndef f(x):\n    total.value += x\n    return total.value\nf(x.sum())"
    notebook.good(cell, cell_id="c")
    notebook.good("p.set_state('total', 5); key = p.watch_state('total')")
    assert float(notebook.good("p.run().outputs")) == 8.0
    notebook.good(cell, cell_id="c")
    assert float(notebook.good("p.run().outputs")) == 8.0
    assert float(notebook.good("p.last.states[0].writes[0].values")) == 8.0
    assert float(notebook.good("total.value")) == 0.0
    notebook.good("total = taxpr.State([0.0, 1.0], name='total')")
    changed = cell.replace("+= x", "= [x, total.value[0]]").replace("return total.value", "return")
    notebook.good(changed, cell_id="c")
    assert "Dropped: the initial value of total." in notebook.good("p.notes")


WATCHED = """%%taxpr --name p
def f(x):
    total.value = total.value + x
    z = x + jnp.float32(5)
    return jnp.cos(x) + z
f(jnp.float32(2))"""
FIRST, SECOND = "    total.value = total.value + x\n", "    z = x + jnp.float32(5)\n"


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("before", "after", "seen", "note"),
    [
        (FIRST + SECOND, SECOND + FIRST, [2.0], None),
        (FIRST, FIRST.replace("+ x", "+ jnp.sin(x)"), [np.sin(np.float32(2))], None),
        (FIRST, FIRST.replace("+ x", "* x"), [], "0 of the 1 value written to the state total"),
        (
            FIRST,
            "    s = total.value + x\n    total.value = s * 2\n",
            [],
            "session.watch_state('total') watches all",
        ),
    ],
)
def test_what_was_written_is_shown_of_the_program_that_runs(notebook, before, after, seen, note):
    notebook.good("total = taxpr.State(jnp.float32(0), name='total')")
    notebook.good(WATCHED, cell_id="c")
    notebook.good("key = p.watch_state('total'); z = p.tag('1:add', 'mine')")
    notebook.good(WATCHED.replace(before, after), cell_id="c")
    run = notebook.good("p.run()")
    assert [float(write.values) for write in run.states[0].writes] == seen
    notes = " ".join(notebook.good("p.notes"))
    assert note in notes if note else "watch" not in notes


def test_the_command_draws_states(tmp_path, capsys):
    (tmp_path / "stateful.py").write_text(
        "import taxpr\n"
        "total = taxpr.State(0.0, name='total')\n"
        "def f(x):\n    total.value += x\n    return total.value\n"
    )
    target = f"{tmp_path / 'stateful.py'}:f"
    file = str(tmp_path / "f.dot")
    assert main(["draw", target, "--args", "f32[]", "-o", file]) in (0, None)
    assert "state total" in (tmp_path / "f.dot").read_text("utf-8")
    assert "1 equation" in capsys.readouterr().out
