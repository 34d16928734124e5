"""Colours by what was measured, such as time and bytes, and by numbers of the user."""

import json

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._heat import timeline
from taxpr_jupyter._heat.measured import Measured, measured_by
from taxpr_jupyter._view.widget import view_for


def dense(params, x):
    hidden = x @ params["w"] + params["b"][None]
    return jnp.tanh(hidden)


def loss(params, xs, goal):
    def step(state, x):
        state = dense(params, jnp.concatenate([state, x], -1))
        return state, jnp.sin(state)

    state, kept = jax.lax.scan(step, jnp.zeros((32, 64)), xs)
    out = jax.lax.cond(kept.sum() > 0.0, jnp.sin, jnp.cos, state @ params["o"])
    return jnp.mean((out - goal) ** 2) + jnp.sum(kept)


@jax.jit
def train(params, xs, goal):
    value, grads = jax.value_and_grad(loss)(params, xs, goal)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, value


PARAMS = {"w": jnp.ones((96, 64)), "b": jnp.zeros(64), "o": jnp.ones((64, 8))}
ARGS = PARAMS, jnp.ones((20, 32, 32)), jnp.ones((32, 8))


@pytest.fixture(scope="module")
def measured():
    """The program, and what was measured of it by kind."""
    program = taxpr.trace(train, names=True)(*ARGS)
    answers = taxpr.profile(program, runs=3)(*ARGS), taxpr.memory(program)(*ARGS)
    found = [one for answer in answers for one in measured_by(answer, program)]
    return program, {one.kind: one for one in found}


def inside(portions, addresses):
    """As much as is in these places, added up one by one."""
    return sum(
        one.amount
        for one in portions
        if any(taxpr.Address(one.address).is_in(at) or own(one.address) == at for at in addresses)
    )


def own(address):
    return taxpr.Address(address).eqn


KINDS = ["time", "peak", "kept"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [6, 30, 200])
def test_no_box_has_what_another_has(measured, kind, budget):
    """The boxes have all that has an address; what is of an open frame itself is the frame's."""
    program, found = measured[0], measured[1][kind]
    picture = Builder(program, budget).picture(heat=found)
    there = {}
    for node in picture.nodes:
        if node.heat is not None:
            assert node.address not in there
            there[node.address] = picture.hidden.get(node.address, (node.address,))
    shown = sum(inside(found.portions, places) for places in there.values())
    covered = {at for places in there.values() for at in places}
    rest = [
        one
        for one in found.portions
        if one.address
        and own(one.address) not in covered
        and not any(taxpr.Address(one.address).is_in(at) for at in covered)
    ]
    frames = {cluster.fold for cluster in picture.clusters} | {c.id for c in picture.clusters}
    assert shown + sum(one.amount for one in rest) == pytest.approx(found.placed)
    for one in rest:  # an open equation, or what enters or leaves an open jaxpr
        at = taxpr.Address(one.address)
        assert own(at) in frames or at.home in frames or at.home == "", at
    assert shown > 0.5 * found.placed


@pytest.mark.parametrize("kind", KINDS)
def test_the_hottest_box_has_the_most_and_says_how_much(measured, kind):
    program, found = measured[0], measured[1][kind]
    picture = Builder(program).picture(heat=found)
    amounts = {
        node.address: inside(found.portions, picture.hidden.get(node.address, (node.address,)))
        for node in picture.nodes
        if node.heat is not None
    }
    [hottest] = [node for node in picture.nodes if node.heat == 1]
    assert amounts[hottest.address] == pytest.approx(max(amounts.values()))
    assert picture.heat.top == pytest.approx(max(amounts.values()))
    assert found.text(amounts[hottest.address]).split(",")[0] in hottest.tooltip
    assert hottest.cost[0].startswith(found.text(amounts[hottest.address]))


def test_parts_of_a_kernel_of_several_statements_are_equal_and_said():
    parts = [
        taxpr.questions.Portion(3.0, "0:sin", "model.py:3", True),
        taxpr.questions.Portion(3.0, "1:mul", "model.py:4", True),
        taxpr.questions.Portion(1.0, "1:mul", "model.py:4"),
        taxpr.questions.Portion(2.0, "", ""),
    ]
    found = Measured("time", 10.0, parts, taxpr.trace(jnp.sin)(1.0), taxpr.questions.Answer("", []))
    assert (found.inside("0:sin"), found.inside("1:mul"), found.placed) == (3.0, 4.0, 7.0)
    assert found.words("1:mul") == (
        "4 s, 40.0% of the run; 3 s of it are parts of kernels of several statements"
    )
    assert found.note == "In the picture: 70% of 10 s"


@pytest.fixture
def session():
    session = Session(train, ARGS, names=True)
    yield session
    view_for(session).close()


def test_lines_have_what_the_rows_of_the_answer_have(session):
    answer = session.ask("profile")
    session.heat = "time"
    heat = session.line_heat()
    assert sum(one.amount for one in heat.values()) == pytest.approx(answer.wall)
    rows = session.source().rows
    alone = {row.line: 0.0 for row in answer.rows if row.line}
    for row in answer.rows:
        if row.shared == 1 and row.line:
            alone[row.line] += row.seconds
    shown = {f":{rows[k].line.number}": one.amount for k, one in heat.items() if k >= 0}
    for line, seconds in alone.items():
        if "," not in line and seconds:
            assert shown[f":{line.rpartition(':')[2]}"] >= seconds * (1 - 1e-9)


def test_lines_of_two_files_of_one_name_have_each_its_own(tmp_path):
    made = {}
    for folder, code in (("one", "x[:5] * 2"), ("other", "jnp.concatenate([x, x])")):
        path = tmp_path / folder / "model.py"
        path.parent.mkdir()
        path.write_text(f"def f(x):\n    y = {code}\n    return y\n")
        names = {"jnp": jnp}
        exec(compile(path.read_text(), str(path), "exec"), names)
        made[folder] = names["f"]

    session = Session(lambda x: (made["one"](x), made["other"](x)), (jnp.ones(100),), names=True)
    session.ask("memory")
    session.heat = "peak"
    rows, heat = session.source().rows, session.line_heat()
    amounts = {rows[k].line.text.strip(): one.amount for k, one in heat.items() if k >= 0}
    assert amounts == {"y = x[:5] * 2": 20, "y = jnp.concatenate([x, x])": 800}
    view_for(session).close()


def test_lines_of_memory_have_the_bytes_of_its_rows(session):
    answer = session.ask("memory")
    session.heat = "peak"
    heat = session.line_heat()
    assert sum(one.amount for one in heat.values()) == answer.total
    expected = {}
    for row in answer.rows:
        expected[row.line] = expected.get(row.line, 0) + row.bytes
    rows = session.source().rows
    for k, one in heat.items():
        if k >= 0:
            [line] = [at for at in expected if at.endswith(f":{rows[k].line.number}")]
            assert one.amount == expected[line]


def test_what_was_not_asked_cannot_be_shown(session):
    with pytest.raises(PanelError, match=r"'time' was not measured.*: ask\('profile'\) first"):
        session.heat = "time"
    with pytest.raises(PanelError, match="can be coloured by 'flops', 'bytes', 'time'"):
        session.heat = "size"
    assert session.heat is None
    assert session.line_heat() == {}
    with pytest.raises(PanelError, match="can be coloured by 'flops', 'bytes' or None"):
        Session(train, ARGS, heat="time")


def test_a_tag_leaves_the_colours_and_another_source_takes_them(session):
    session.ask("memory")
    session.heat = "kept"
    before = [node.address for node in session.picture().nodes if node.heat == 1]
    session.tag("0:jit.0", "out")
    assert session.heat == "kept"
    assert [node.address for node in session.picture().nodes if node.heat == 1] == before
    place = next(
        f"{row.file}:{row.line.number}" for row in session.source().rows if "tanh" in row.line.text
    )
    session.edit(place, "jnp.sin(hidden)")
    assert session.heat is None
    assert session.measured == ()
    session.undo()
    assert session.heat == "kept"


def test_in_the_panel_a_choice_measures_what_was_not_measured_yet(session):
    view = view_for(session)

    def send(**message):
        view.graph._handle_custom_msg(message, [])
        while view.jobs.tasks():  # the answer, then the picture
            assert view.wait(100)

    view.graph.view = "source"
    send(do="heat", address="kept")
    assert (session.heat, view.graph.heat) == ("kept", "kept")
    assert view.graph.answer["question"] == "memory"
    assert "kept for the backward pass" in view.graph.svg
    assert view.graph.source_heat["title"] == "kept bytes"
    send(do="ask", question="memory")  # it stays what was chosen
    assert session.heat == "kept"
    send(do="ask", question="profile")
    assert (session.heat, view.graph.heat) == ("time", "time")
    assert view.graph.source_heat["title"] == "measured time"
    assert "of the run" in next(iter(view.graph.source_heat["lines"].values()))["words"]
    send(do="heat", address="")
    assert session.heat is None
    assert view.graph.source_heat == {"title": "", "rest": "", "lines": {}}


def test_the_timeline_marks_the_boxes_whose_arrays_are_in_memory(session, monkeypatch):
    use = session.ask("memory")
    picture = session.picture()
    shown = timeline.timeline_state(use, picture)
    assert shown["bytes"] == use.line.tolist()
    assert shown["at"] == list(range(len(use.line)))
    assert len(shown["loops"]) == len(use.loops) == 2
    for step in (0, int(use.line.argmax()), len(use.line) - 1):
        rows = [row for row in use.at(step).rows if row.why != "result" and row.address]
        expected = {picture.element_of(row.address).address for row in rows}
        alive = {shown["elements"][k] for k, begin, end in shown["lives"] if begin <= step <= end}
        assert expected <= alive
        assert "in3" in alive
    computed = {shown["elements"][k] for step in shown["steps"] for k in step}
    assert all(picture.find(address) for address in computed | set(shown["elements"]))
    assert any("tanh" in words for words in shown["words"])
    monkeypatch.setattr(timeline, "MOST_STEPS", 10)
    few = timeline.timeline_state(use, picture)
    assert len(few["at"]) <= 10
    assert max(few["bytes"]) == use.line.max()
    assert [int(use.line[step]) for step in few["at"]] == few["bytes"]


def test_the_panel_has_a_timeline_while_bytes_at_the_peak_are_shown(session):
    view = view_for(session)
    session.ask("memory")
    for kind in ("peak", "kept", None):
        session.heat = kind
        while view.jobs.tasks():
            assert view.wait(100)
        assert bool(view.graph.timeline) == (kind == "peak")


# ---- numbers of the user -----------------------------------------------------


def rnn(w, xs):
    def step(h, x):
        h = jnp.tanh(w @ h + x)
        return h, h.sum()

    last, sums = jax.lax.scan(step, jnp.zeros(3), xs)
    return sums.mean() + last[0]


@pytest.fixture
def recurrent():
    return Session(rnn, (0.1 * jnp.eye(3), jnp.ones((4, 3))))


def shares(session):
    return {node.address: node.heat for node in session.picture().nodes if node.heat is not None}


def test_nodes_have_the_colours_of_given_numbers(recurrent):
    recurrent.color(
        {"w": -3, "step.h#1": 1.0, "sums": 0.0, "0:broadcast_in_dim": jnp.nan}, title="<b>"
    )
    assert recurrent.heat == "numbers"
    found = shares(recurrent)
    assert found["in0"] == 0.0
    assert found["1:scan/body/2:tanh"] == 1.0
    assert "0:broadcast_in_dim" not in found
    heat = recurrent.picture().heat
    assert (heat.bottom, heat.top, heat.title) == (-3.0, 1.0, "<b>")
    assert heat.notes == ("4 numbers, 1 not finite and without a colour",)
    drawn = recurrent.svg()
    assert "Colour: &lt;b&gt;" in drawn
    assert ">-3<" in drawn
    assert "<b> nan of 0:broadcast_in_dim" in tooltip(recurrent, "0:broadcast_in_dim")
    recurrent.fold("1:scan")  # what is within counts
    assert shares(recurrent)["1:scan"] == 1.0
    assert "<b> 1 of step.h#1, 0 of sums" in tooltip(recurrent, "1:scan")
    recurrent.heat = None
    assert shares(recurrent) == {}
    recurrent.heat = "numbers"
    assert shares(recurrent)["1:scan"] == 1.0


def tooltip(session, address):
    return next(node.tooltip for node in session.picture().nodes if node.address == address)


def test_numbers_come_from_recordings_and_answers(recurrent):
    recording = recurrent.watch()
    recurrent.color(recording, by="max")
    assert recurrent.picture().heat.title == "max"
    expected = {
        part.address: float(recording[part.address].stats().max) for part in recording.parts
    }
    assert recurrent.picture().heat.top == max(expected.values())
    lines = recurrent.line_heat()
    source = recurrent.source().rows
    [line] = [k for k, row in enumerate(source) if "last, sums =" in row.line.text]
    values = [expected[one.address] for one in source[line].line.variables]
    assert lines[line].amount == pytest.approx(max(values))
    assert lines[line].words.startswith("max ")
    recurrent.color(recurrent.flow(), by="grads")
    assert recurrent.picture().heat.title == "grads"


def test_node_data_of_model_explorer_is_written_and_read(recurrent, tmp_path):
    path = tmp_path / "norms.json"
    recurrent.color(recurrent.watch(), by="norm")
    before = shares(recurrent)
    recurrent.save_node_data(path)
    data = json.loads(path.read_text())
    assert data["main"]["name"] == "norm"
    assert set(data["main"]["results"]["in0"]) == {"value"}
    recurrent.color({"w": 1})
    recurrent.color(path)
    assert (shares(recurrent), recurrent.picture().heat.title) == (before, "norm")
    path.write_text(json.dumps({"results": {"w": {"value": 2, "bgColor": "red"}}}))
    recurrent.color(str(path))  # of one graph alone
    assert recurrent.picture().heat.title == "norms"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"zz": 1.0, "w": 2.0}, "'zz': no variable or tag has that name"),
        ({"w": 1.0, "h#7": 1.0}, "no variable or tag has that name"),
        ({"w": "much"}, "'much' of w is no number"),
        ({"w": None, "sums": 1.0}, "None of w is no number"),
        ({"w": [1.0, None]}, r"\[1.0, None\] of w is no number"),
        ({}, "There are no numbers"),
        (3, "int has no numbers of variables"),
        ("missing.json", "missing.json is no file of node data of Model Explorer: FileNotFound"),
    ],
)
def test_numbers_of_nothing_are_refused(recurrent, numbers, message):
    with pytest.raises(PanelError, match=message):
        recurrent.color(numbers)
    assert recurrent.heat is None


def test_an_unknown_statistic_or_column_is_refused_with_those_that_there_are(recurrent):
    with pytest.raises(PanelError, match=r"A recording has no numbers 'foo'. Give by= one of mean"):
        recurrent.color(recurrent.watch(), by="foo")
    flow = recurrent.flow()
    for by in ("norm", "variable", "updates"):  # the last one would need a step
        message = rf"Flow has no numbers '{by}'. Give by= one of shape, norms, grads$"
        with pytest.raises(PanelError, match=message):
            recurrent.color(flow, by=by)
    assert recurrent.heat is None
    for by in ("std", "nonfinite"):
        recurrent.color(recurrent.watch(), by=by)


def test_a_value_of_several_names_has_the_greatest_number_by_its_own_name(tmp_path):
    session = Session(lambda x: jnp.sin(x) * 2, (jnp.ones(3),))
    path = tmp_path / "numbers.json"
    for numbers in (
        {"0:sin": 5.0, "0:sin.0": 1.0},
        {"0:sin.0": 1.0, "0:sin": 5.0},
        {"0:sin.0": jnp.nan, "0:sin": 5.0},
        {"0:sin": [5.0, jnp.nan], "0:sin.0": jnp.nan},
    ):
        session.color(numbers)
        session.save_node_data(path)
        assert json.loads(path.read_text())["main"]["results"] == {"0:sin": {"value": 5.0}}
        assert session.picture().heat.top == 5.0


def test_there_may_be_no_numbers_yet(recurrent, tmp_path):
    with pytest.raises(PanelError, match="There are no numbers of this program: give them by"):
        recurrent.heat = "numbers"
    with pytest.raises(PanelError, match="There are no numbers to write"):
        recurrent.save_node_data(tmp_path / "x.json")
