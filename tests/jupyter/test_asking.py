"""The questions of a session, in Python and in the panel."""

import math
import pathlib
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._lines.source import HOW_NAMES
from taxpr_jupyter._lines.values import ValuesAt
from taxpr_jupyter._model.questions import QUESTIONS, Question, question_buttons
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view.jobs import ASKING
from taxpr_jupyter._view.parts.asking import BARE, EDITED, NO_LOSS, SINCE, SINCE_BARE
from taxpr_jupyter._view.parts.recorded_view import PAST, WITH, WITHOUT
from taxpr_jupyter._view.widget import view_for


def loss(w, xs):
    def step(total, x):
        h = jnp.tanh(w @ x)
        total = taxpr.tag(total + h.sum(), name="total")
        return total, h

    total, hs = jax.lax.scan(step, jnp.zeros((), xs.dtype), xs)
    root = jnp.sqrt(total - 3.0)
    out = root * 2
    return out + hs.mean()


def no_loss(x):
    y = jnp.sin(x)
    return y * 2


W = jnp.asarray([[1.0, -2.0], [0.5, 0.25]])
XS = jnp.asarray([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])


@pytest.fixture
def session():
    session = Session(loss, (W, XS), call="loss(W, XS)", namespace=globals())
    yield session
    view_for(session).close()


@pytest.fixture
def ask(session):
    view = view_for(session)

    def ask(question):
        view.graph._handle_custom_msg({"do": "ask", "question": question}, [])
        assert view.wait(100)
        return view.graph.answer

    return ask


def address_of(session, name, occurrence=0):
    [found] = [
        one.address
        for one in session.program.variables()
        if one.text == name and one.occurrence == occurrence
    ]
    return found


def test_questions_are_those_of_taxpr_about_the_call(session):
    found = session.find_nan()
    assert (found.rows[0].variable, found.rows[0].what) == ("root", "NaN")
    assert str(found) == str(taxpr.find_nan(loss)(W, XS))
    assert str(session.flow()) == str(taxpr.flow(loss)(W, XS))
    assert str(session.check()) == str(taxpr.check(loss)(W, XS))
    assert not session.first_difference("op by op")
    assert str(session.first_difference("bfloat16", atol=0.0)) == str(
        taxpr.first_difference(loss, "bfloat16", atol=0.0)(W, XS)
    )


def test_with_and_without_the_injectors(session):
    with pytest.raises(PanelError, match="No injector is attached"):
        session.first_difference()
    session.attach(address_of(session, "h"), "scale", factor=3.0)
    found = session.first_difference()
    assert "loss with its changes" in found.headline
    assert (found.first.statement.split(" = ")[0], found.first.iteration) == ("h", (0,))
    assert {"hs", "out"} <= {row.variable for row in found.rows}


def test_what_cannot_be_answered_is_said(session):
    with pytest.raises(PanelError, match="nonsense"):
        session.first_difference("nonsense")
    with pytest.raises(PanelError, match="scalar"):
        Session(no_loss, (XS,)).flow()
    with pytest.raises(PanelError, match="only shapes"):
        Session(loss, (W, jax.ShapeDtypeStruct((3, 2), "float32"))).find_nan()


def jitted_loss(w, xs):
    @jax.jit
    def inner(w):
        h = jnp.tanh(xs @ w)
        unused = h * 2  # noqa: F841
        return h.sum()

    return jax.value_and_grad(inner)(w)[0]


def test_where_variables_were_not_noted_it_is_said_how_they_are(notebook):
    before = taxpr.trace(jitted_loss)(W, XS)
    notebook.names.update(step=jitted_loss, before=before, W=W, XS=XS)
    session = notebook.good("%taxpr before(W, XS)")
    for question in (session.flow, session.watch):
        with pytest.raises(PanelError, match="%%taxpr --names"):
            question()
    assert notebook.good("%taxpr step(W, XS)").flow().rows
    assert notebook.good("%taxpr --names step(W, XS)").flow().rows
    assert notebook.good("from taxpr_jupyter import panel; panel(step, names=True)(W, XS)").watch()


def test_what_only_a_variable_holds_is_noted_where_one_asks_for_it(notebook):
    notebook.names.update(step=jitted_loss, W=W, XS=XS)
    session = notebook.good("%taxpr step(W, XS)")
    assert session.flow().rows
    assert {"h", "xs"} < set(session.watch())
    named = notebook.good("%taxpr --names step(W, XS)")
    assert named.flow().rows
    assert set(named.watch()) == {*session.watch(), "unused"}
    panel = notebook.good("from taxpr_jupyter import panel; panel(step, names=True)(W, XS)")
    assert set(panel.watch()) == set(named.watch())


def by_hand(factor, shift):
    """The values of a run in which `h` is scaled and the tag `total` is shifted."""
    total, hs, totals = 0.0, [], []
    for x in np.asarray(XS):
        hs.append(factor * np.tanh(np.asarray(W) @ x))
        total = total + hs[-1].sum() + shift
        totals.append(total)
    return np.asarray(hs), np.asarray(totals)


def test_values_are_recorded_with_the_injectors_and_without(session):
    at = address_of(session, "h")
    session.attach(at, "scale", factor=3.0)
    session.attach("total", "add", value=0.5)
    recording = session.watch()
    for recorded, (hs, totals) in (
        (recording, by_hand(3.0, 0.5)),
        (session.watch(injectors=False), by_hand(1.0, 0.0)),
    ):
        np.testing.assert_allclose(recorded["h"].value, hs, rtol=1e-6)
        last = [part for part in recorded.parts if part.address == "0:scan.0"]
        np.testing.assert_allclose(last[0].whole(), totals[-1], rtol=1e-6)
        inner = recorded[taxpr.var("step.total", occurrence=1)]
        np.testing.assert_allclose(inner.value, totals, rtol=1e-6)
        with np.errstate(invalid="ignore"):
            root = np.sqrt(np.asarray(totals[-1] - 3))
        np.testing.assert_allclose(recorded["root"].value, root, rtol=1e-5)
    assert recording.out == session.run().outputs
    addresses = {part.address for part in session.watch(injectors=False).parts}
    assert {part.address for part in recording.parts} == addresses


def test_the_source_tab_says_which_run_its_values_are_of(session):
    view = view_for(session)
    graph = view.graph

    def record(injectors=True):
        graph._handle_custom_msg(
            {
                "do": "record",
                "iteration": -1,
                "example": -1,
                "injectors": injectors,
                "cotangents": False,
            },
            [],
        )
        assert view.wait(100)
        return graph.recorded

    graph.view = "source"
    assert view.wait(100)
    values = record()
    assert (values["note"], values["injectors"]) == (WITHOUT, None)
    [wrong] = [k for k in graph.source_run if "root = " in session.source().rows[int(k)].line.text]
    bad, kept = graph.source_run[wrong]
    assert bad == {"kind": "bad", "text": "not finite: 1 element"}
    assert kept == {"kind": "recorded", "text": "recorded"}
    session.attach(address_of(session, "h"), "scale", factor=3.0)
    assert graph.recorded["note"] == WITHOUT  # it is that of the untouched program
    values = record()
    assert (values["note"], values["injectors"]) == (WITH, True)
    words = {at: one.words for at, one in ValuesAt(session.watch()).chips.items()}
    assert {at: one["words"] for at, one in values["chips"].items()} == words
    assert [mark["kind"] for mark in graph.source_run[wrong]] == ["recorded"]
    values = record(injectors=False)
    assert (values["note"], values["injectors"]) == (WITHOUT, False)
    record()
    before = graph.recorded
    session.set_value(address_of(session, "h"), "factor", 4.0)
    assert graph.recorded == {**before, "past": True, "note": PAST}
    assert wrong not in graph.source_run  # that is of the program as it is
    values = record()
    assert (values["note"], values["past"]) == (WITH, False)
    assert values["chips"] != before["chips"]
    session.edit("h", "2 * x")  # another program
    assert graph.recorded == {}


def test_a_question_is_an_entry_of_the_table(session, ask, monkeypatch):
    entry = Question("In 16 bits", "Where float16 hurts", "first_difference", other="float16")
    monkeypatch.setitem(QUESTIONS, "float16", entry._replace(of_function=True))
    assert question_buttons()[-1] == {
        "question": "float16",
        "group": "",
        "button": "In 16 bits",
        "title": "Where float16 hurts",
        "needs": "",
        "sentences": False,
    }
    answer = ask("float16")
    assert answer["headline"].startswith("where float16 hurts most in loss")
    assert answer["code"].splitlines()[-1] == "taxpr.first_difference(loss, 'float16')(W, XS)"


def test_rows_of_a_question_may_be_dicts_with_addresses_and_without(session, ask, monkeypatch):
    def largest(program):
        at = address_of(session, "root")
        rows = [{"variable": "root", "address": at}, {"variable": "all"}]
        return lambda *args: taxpr.questions.Answer("largest numbers", rows)

    monkeypatch.setattr(taxpr, "largest", largest, raising=False)
    entry = Question("Largest numbers", "Which are the largest", "largest", needs="variables")
    monkeypatch.setitem(QUESTIONS, "largest", entry)
    answer = ask("largest")
    assert answer["columns"] == ["variable"]
    assert answer["rows"] == [
        {"address": address_of(session, "root"), "cells": ["root"]},
        {"address": "", "cells": ["all"]},
    ]


@pytest.mark.parametrize("question", ["compiled", "memory", "check"])
def test_a_row_that_stands_for_several_selects_one_of_them(question):
    def layers(params, x):
        for p in params:
            x = jnp.where(x > 0, jnp.sqrt(x), 0.0) @ p["w"]
        return x

    params = [{"w": jnp.ones((3, 3))} for _ in range(30)]
    session = Session(layers, (params, jnp.ones((2, 3))))
    view, found = view_for(session), session.ask(question)
    view.graph._handle_custom_msg({"do": "ask", "question": question}, [])
    assert view.wait(100)
    answer = view.graph.answer
    columns, *cells = found.texts()
    others = {}
    for shown, row, texts in zip(answer["rows"], found.listed(), cells, strict=True):
        row = row if isinstance(row, dict) else vars(row)
        known = session.inspect(str(row["address"])).kind != "unknown"
        assert shown["address"] == (str(row["address"]) if known else "")
        assert shown["cells"][0] == texts[0 if columns[0] != "address" else 1]
        others[row.get("rule")] = shown.get("others", [])
    assert answer["more"] == 0
    if question == "check":
        assert [len(others[rule]) for rule in ("where-gradient", "unrolled")] == [29, 0]


def test_another_question_is_refused():
    with pytest.raises(PanelError, match="There is no question 'nan', but 'find_nan', 'flow'"):
        Session(loss, (W, XS)).ask("nan")


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_page_is_about_each_question(name):
    pages = pathlib.Path(taxpr.__file__).parents[1] / "docs" / "how-to"
    asked = f"taxpr.{QUESTIONS[name].function}("
    assert [page for page in pages.glob("*.md") if asked in page.read_text("utf-8")]


def test_an_answer_has_rows_that_can_be_selected(session, ask):
    answer = ask("find_nan")
    assert answer["headline"].startswith("find_nan of loss: NaN in root")
    assert "address" not in answer["columns"]
    [row] = answer["rows"]
    assert row["address"] == address_of(session, "root")
    assert row["cells"][answer["columns"].index("variable")] == "root"
    assert answer["code"].splitlines()[-1] == "taxpr.find_nan(loss)(W, XS)"
    session.attach(address_of(session, "h"), "scale", factor=3.0)
    assert view_for(session).graph.answer["stale"] == SINCE_BARE
    compared = ask("injectors")
    assert compared["rows"][-1]["address"] == ""  # the result, which is no value of the picture
    session.set_value(address_of(session, "h"), "factor", 2.0)
    assert view_for(session).graph.answer["stale"]


def test_what_cannot_be_answered_is_said_in_the_place_of_the_answer(session, ask):
    graph = view_for(session).graph
    assert ask("check")["headline"]
    answer = ask("injectors")
    assert (answer["question"], answer["headline"], answer["rows"]) == ("injectors", "", [])
    assert "No injector is attached" in answer["error"]
    assert not graph.message.get("text")  # which stands below the picture
    assert ask("check")["error"] == ""


def test_an_error_goes_with_the_next_question_and_with_another_tab(session, ask):
    graph = view_for(session).graph
    for goes in (lambda: ask("check"), lambda: graph.set_state({"view": "text"})):
        graph._handle_custom_msg({"do": "untag", "address": "nothing"}, [])
        assert graph.message["error"]
        goes()
        assert not graph.message.get("error")


def test_the_last_answer_is_gone_while_the_next_one_is_awaited(session, ask, monkeypatch):
    view, begun, going = view_for(session), threading.Event(), threading.Event()
    check = session.ask

    def slow(question, **how):
        begun.set()
        assert going.wait(60)
        return check(question, **how)

    ask("find_nan")
    monkeypatch.setattr(session, "ask", slow, raising=False)
    view.graph._handle_custom_msg({"do": "ask", "question": "check"}, [])
    assert begun.wait(60)
    shown = view.graph.answer
    assert (shown["question"], shown["headline"], shown["rows"]) == ("check", "", [])
    going.set()
    assert view.wait(60)
    assert view.graph.answer["headline"]


def test_answers_say_which_injectors_are_edited_into_the_program():
    def squared(w, x):
        h = jnp.tanh(x * w)
        return (h**2).sum()

    args = jnp.ones(3), jnp.full(3, 0.5)
    session = Session(jax.grad(squared), args)
    session.attach(taxpr.var("h"), "scale", factor=math.inf)
    [key] = session.injectors
    view = view_for(session)
    view.graph._handle_custom_msg({"do": "ask", "question": "find_nan"}, [])
    assert view.wait(60)
    answer = view.graph.answer
    assert "infinities" in answer["headline"]  # made by the change
    assert EDITED.format("scale", "h") in answer["notes"]
    assert BARE not in answer["notes"]
    session.set_value(key, "factor", 2.0)
    assert view.graph.answer["stale"] == SINCE


def test_answers_of_the_program_without_injectors_say_so(session, ask):
    graph = view_for(session).graph
    assert BARE not in ask("find_nan")["notes"]
    session.attach(address_of(session, "h"), "scale", factor=3.0)
    assert graph.answer["stale"] == SINCE_BARE
    assert BARE in ask("find_nan")["notes"]
    assert BARE not in ask("injectors")["notes"]
    assert graph.answer["stale"] == ""
    session.run()
    assert graph.answer["stale"] == ""
    session.set_value(address_of(session, "h"), "factor", 2.0)
    assert graph.answer["stale"] == SINCE


def train_step(w, xs):
    value, grad = jax.value_and_grad(lambda w: loss(w, xs))(w)
    return {"w": w - 0.1 * grad}, (grad.sum(), value)


@pytest.mark.parametrize(
    ("fn", "args", "first", "results", "note"),
    [
        (loss, (W, XS), True, ["out"], ""),
        (lambda x: (x.sum(), x), (XS,), True, ["out[0]"], ""),
        (train_step, (W, XS), False, ["out[1][0]", "out[1][1]"], ""),
        (no_loss, (XS,), False, [], NO_LOSS),
        (lambda n: n + 1, (3,), False, [], NO_LOSS),
    ],
)
def test_what_can_be_differentiated_is_known_before_it_is_asked(fn, args, first, results, note):
    session = Session(fn, args, names=True)
    view = view_for(session)
    assert view.graph.flows == {}
    view.graph.set_state({"view": "ask"})
    assert view.wait(60)
    assert view.graph.flows == {"first": first, "results": results, "note": note}
    view.close()


def test_without_names_it_is_known_too():
    session = Session(loss, (W, XS), names=False)
    view = view_for(session)
    view.graph.set_state({"view": "ask"})
    assert view.wait(60)
    assert view.graph.flows == {"first": False, "results": [], "note": HOW_NAMES}
    view.close()


def test_the_gradients_of_any_scalar_result_can_be_asked_for():
    names = {"train_step": train_step, "W": W, "XS": XS}
    session = Session(train_step, (W, XS), names=True, call="train_step(W, XS)", namespace=names)
    view = view_for(session)
    view.graph._handle_custom_msg({"do": "ask", "question": "flow", "of": "out[1][1]"}, [])
    assert view.wait(100)
    answer = view.graph.answer
    assert answer["headline"].endswith("gradients of out[1][1]")
    assert answer["of"] == "out[1][1]"
    assert answer["code"].splitlines()[-1] == "taxpr.flow(train_step, of='out[1][1]')(W, XS)"
    rows = {row["cells"][0]: row["cells"] for row in answer["rows"]}
    flow = taxpr.flow(loss)(W, XS)
    [root] = [row for row in flow.texts() if row[0] == "root"]
    assert rows["root"][3:5] == root[3:5]
    view.close()


def test_of_a_function_with_states_too():
    state = taxpr.State(jnp.float32(0), name="state")

    def counting(x):
        y = x * 2
        state.value += y.sum()
        return {"n": x, "loss": y.sum()}

    names = {"counting": counting, "XS": XS, "state": state}
    session = Session(counting, (XS,), call="counting(XS)", namespace=names, names=True)
    [of] = session.losses()
    assert of == "out['loss']"
    *rest, last = session.code("flow", of).splitlines()
    exec("\n".join(rest), names)
    assert str(eval(last, names).rows) == str(session.flow(of=of).rows)


def test_a_long_question_says_what_it_does_at_the_moment(session, monkeypatch):
    view = view_for(session)
    told, ask = [], session.ask

    def slow(question, cancel, of):
        task = view.jobs.of(ASKING)
        told.append(task.label)
        answer = ask(question, cancel=cancel, of=of)
        told.append(task.label)
        return answer

    monkeypatch.setattr(session, "ask", slow, raising=False)
    view.graph.view = "ask"
    view.graph._handle_custom_msg({"do": "ask", "question": "find_nan"}, [])
    assert view.wait(100)
    assert view.graph.answer["headline"]
    assert told[0] == "asking"
    assert told[1].startswith(("reading ", "looking for "))
    said = []
    with taxpr.introspect.stages_to(lambda words, done: said.append((words, done))):
        session.watch()
    assert re.fullmatch(r"compiling and running with \d+ values", said[0][0])
    assert said[0][1] is None


def test_the_panel_shows_how_much_of_an_answer_is_done(session, monkeypatch):
    view, ask, shares = view_for(session), session.ask, []

    def told(question, cancel, of):
        task, *_ = view.jobs.tasks()
        tell = task.tell
        task.tell = lambda *words: (tell(*words), shares.append((task.label, task.fraction)))
        with taxpr.introspect.stages_to(task.tell):
            return ask(question, cancel=cancel, of=of)

    monkeypatch.setattr(session, "ask", told, raising=False)
    view.graph._handle_custom_msg({"do": "ask", "question": "profile"}, [])
    assert view.wait(100)
    assert view.graph.answer["headline"]
    assert [share for _, share in shares if share] == [k / 10 for k in range(1, 11)]
    assert shares[-1] == ("profile: 10 of 10", 1.0)


def test_a_question_can_be_cancelled(session, monkeypatch):
    view, begun = view_for(session), threading.Event()

    def slow(task_cancelled):
        begun.set()
        assert task_cancelled.wait(60)
        raise CancelledError

    monkeypatch.setattr(session, "ask", lambda question, cancel, of: slow(cancel), raising=False)
    view.graph._handle_custom_msg({"do": "ask", "question": "flow"}, [])
    assert begun.wait(60)
    assert view.graph.progress["running"]
    view.graph._handle_custom_msg({"do": "cancel"}, [])
    assert view.wait(60)
    assert view.graph.message["text"] == "Cancelled."
    assert view.graph.answer == {}


def test_where_a_type_hurts_is_shown_although_nothing_is_beyond_what_is_tolerated(session, ask):
    found = session.first_difference("bfloat16")
    assert found.rows
    assert not found
    shown = ask("bfloat16")
    assert len(shown["rows"]) == len(found.rows)
    assert shown["headline"].startswith("where bfloat16 hurts most in loss: ")
    assert {"adds", "share", "error"} <= {*shown["columns"]}


def test_the_code_imports_jax_for_its_settings():
    with jax.default_matmul_precision("highest"):
        view = view_for(Session(loss, (W, XS)))
        view.graph._handle_custom_msg({"do": "ask", "question": "find_nan"}, [])
        assert view.wait(100)
        code = view.graph.answer["code"]
        assert "jax.config.update('jax_default_matmul_precision', 'highest')" in code
        names = {"loss": loss, "W": W, "XS": XS}
        try:
            exec(code, names)
        finally:
            jax.config.update("jax_default_matmul_precision", None)
        assert names["jax"] is jax


@pytest.mark.parametrize("question", ["find_nan", "flow", "check", "injectors", "op by op"])
def test_the_code_asks_the_same(session, ask, question):
    session.attach(address_of(session, "h"), "scale", factor=3.0)
    code = ask(question)["code"]
    *rest, last = code.splitlines()
    names = {"loss": loss, "W": W, "XS": XS}
    exec("\n".join(rest), names)
    answer = eval(last, names)
    assert [list(map(str, row["cells"])) for row in view_for(session).graph.answer["rows"]] == [
        [text for text, name in zip(row, answer.texts()[0], strict=True) if name != "address"]
        for row in answer.texts()[1:]
    ]


def test_code_with_static_arguments_and_states_asks_a_program():
    def powers(x, n):
        return jnp.log(x) ** n

    names = {"powers": powers, "XS": XS}
    session = Session(powers, (XS, 2), static_argnums=1, call="powers(XS, 2)", namespace=names)
    *rest, last = session.code("find_nan").splitlines()
    exec("\n".join(rest), names)
    assert eval(last, names).rows[0].what == session.find_nan().rows[0].what == "-inf"
    assert last.startswith("taxpr.find_nan(program)(XS")
    assert "session.ask('bfloat16')" in session.code("bfloat16")
    state = taxpr.State(jnp.float32(0), name="state")

    def counting(x):
        state.value += x.sum()
        return jnp.log(x - state.value)

    names = {"counting": counting, "XS": XS, "state": state}
    session = Session(counting, (XS,), call="counting(XS)", namespace=names)
    for question in ("find_nan", "check"):
        *rest, last = session.code(question).splitlines()
        exec("\n".join(rest), names)
        assert isinstance(eval(last, names), taxpr.Answer)


def test_memory_is_that_of_the_traced_program():
    def loss(x):
        wave = jnp.sin(x)
        return wave.sum()

    answer = Session(loss, (jnp.ones(1000),)).ask("memory")
    assert answer.total == taxpr.memory(loss)(jnp.ones(1000)).total
    assert answer.rows[0].why == "argument"
