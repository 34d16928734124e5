"""`%taxpr tag`, `inject`, `edit`, `watch`, `run`, `find_nan`: words for a session's methods."""

import re
from pathlib import Path

import numpy as np
import pytest

from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._ipython import verbs

LOSS = """%%taxpr --name p
def loss(w, x):
    h = jnp.tanh(x * w)
    for _ in range(2):
        z = h * 2
        h = z + 1
    y = jnp.log(h - h)
    return (h**2).sum() + 0 * y.sum()
jax.value_and_grad(loss)(jnp.ones(3), jnp.ones(3))"""


@pytest.fixture
def with_p(notebook):
    notebook.good(LOSS)
    return notebook


def test_a_tag_is_what_the_session_makes(with_p):
    p = with_p.names["p"]
    assert with_p.good("%taxpr tag z#1") == with_p.good("%taxpr tag z#1")
    with_p.good("%taxpr tag loss.z#0 first")
    assert [site.name for site in p.sites()] == ["first", "z"]
    with_p.good("%taxpr tag in0;")
    assert len(p.tags) == 3


def test_names_may_stand_in_quotes(with_p):
    assert with_p.good("""%taxpr tag "z#1" 'my name'""") == with_p.good("%taxpr tag 'my name'")
    assert [site.name for site in with_p.names["p"].sites()] == ["my name"]


def test_a_verb_ends_at_any_space_and_before_a_semicolon(with_p):
    with_p.good("%taxpr tag\tz#1")
    assert len(with_p.names["p"].tags) == 1
    assert with_p.good("%taxpr run;") is None
    assert len(with_p.names["p"].runs) == 1


def test_an_injector_with_its_numbers_changes_the_run_and_the_gradient(with_p):
    with_p.good("half = 0.5")
    attached = with_p.good("%taxpr inject z#1 scale factor=half / 2")
    assert attached.values == {"factor": 0.25}
    assert attached.edits  # before it is differentiated
    run = with_p.good("%taxpr run")
    other = Session(*_changed(with_p), namespace=with_p.names).run()
    for ours, theirs in zip(run.outputs, other.outputs, strict=True):
        np.testing.assert_allclose(ours, theirs)
    again = with_p.good("%taxpr inject z#1 clip low=-1 high=1")
    assert (again.name, len(with_p.names["p"].injectors)) == ("clip", 1)


def _changed(notebook):
    """The program with the change made by hand."""
    notebook.good(
        LOSS.replace("%%taxpr --name p\n", "").replace(
            "z = h * 2", "z = h * 2 * (0.25 if _ else 1)"
        )
    )
    names = notebook.names
    ones = names["jnp"].ones(3)
    return names["jax"].value_and_grad(names["loss"]), (ones, ones)


def test_a_function_of_the_notebook_is_injected(with_p):
    with_p.good("def twice(ctx, token, params):\n    return token * 2, ctx")
    assert with_p.good("%taxpr inject z#0 twice").name == "twice"


@pytest.mark.parametrize("text", ["jnp.cos(x * w)", "= jnp.cos(x * w)", "= h = jnp.cos(x * w)"])
def test_a_line_gets_another_right_hand_side(with_p, text):
    line = next(one for one in with_p.names["p"].editable() if one.endswith(":3"))
    with_p.good(f"%taxpr edit {line} {text}")
    assert with_p.names["p"].edits()[line] == "h = jnp.cos(x * w)"
    with_p.good("%taxpr edit loss.y = jnp.where(h == h, h, 1)")
    assert "y = jnp.where(h == h, h, 1)" in with_p.names["p"].edits().values()


def test_questions_are_answered_for_the_session(with_p):
    assert "z#1" in with_p.good("%taxpr watch")
    np.testing.assert_allclose(with_p.good("%taxpr watch h#0").value, np.tanh(np.ones(3)), 1e-6)
    assert with_p.good("%taxpr watch taxpr.var('h', occurrence=0)").shape == (3,)
    assert with_p.good("%taxpr find_nan").rows[0].variable == "y"
    assert with_p.good("%taxpr run --device cpu:0").device == "cpu:0"
    assert with_p.run("%taxpr run;").result is None


def test_the_lines_of_the_cheat_sheet_run(notebook):
    page = Path(__file__).resolve().parents[2] / "docs" / "cheat-sheet.md"
    rows = re.findall(r"^\| (`%.*?) \|", page.read_text("utf-8"), re.MULTILINE)
    lines = [one for row in rows for one in re.findall(r"`(%taxpr [^`]+)`", row)]
    assert len(lines) == 9
    notebook.good("%%taxpr\ndef loss(x):\n    h = jnp.cos(x)\n    return h * 2\nf = loss\nf(x)")
    for line in lines:
        notebook.good(line)
        if line == "%taxpr f(x)":
            assert not notebook.good("%taxpr run").injectors
    assert verbs.CELLS.last.injectors
    assert verbs.CELLS.last.edits()


def test_the_session_is_the_last_one_or_a_named_one(with_p):
    last = with_p.good("%%taxpr --name q\njnp.sin(x)")
    with_p.good("%taxpr tag in0")
    with_p.good("%taxpr tag --name p in0")
    with_p.good("%taxpr --name p tag in1")
    assert (list(last.tags), list(with_p.names["p"].tags)) == (["in0"], ["in0", "in1"])


def test_a_call_of_a_function_of_that_name_is_a_call(notebook):
    notebook.good("def run(x):\n    return x + 1")
    assert notebook.good("%taxpr run(x)").call == "run(x)"
    assert notebook.good("%taxpr run (x)").call == "run (x)"
    assert notebook.good("%%taxpr\nrun(x)").call == "run(x)"


MISTAKES = {
    "tag": "%taxpr tag needs WHERE [NAME], as in `%taxpr tag h`",
    "tag a b c": "%taxpr tag takes WHERE [NAME] and nothing more: 'c' is too much",
    "tag nope": ". Tags: none. Variables: w, x, h, z, y",
    "tag h": "'h' means 3 values. Say which: h#0 (cell 3:3), h#1 (cell ",
    "inject z#1": "%taxpr inject needs WHERE INJECTOR [PARAM=VALUE ...], as in ",
    "inject z#1 nope": "There is no injector 'nope'. There are ",
    "inject z#1 scale 2": "'2' is no parameter: write name=value, such as factor=0.5",
    "inject z#1 scale factor=q": "'q' cannot be evaluated: NameError: name 'q' is not defined",
    "inject z#1 scale by=2": "got an unexpected keyword argument 'by'",
    "edit loss.y": "%taxpr edit needs WHERE = EXPRESSION, as in ",
    "edit = 3": "%taxpr edit needs WHERE = EXPRESSION, as in ",
    "edit loss.y = 1 +": "is no expression of Python",
    "edit nope = 1": "There is no line 'nope' that could be typed over. ",
    "watch nope": "has no 'nope'",
    "run f(x)": "%taxpr run takes nothing more: 'f(x)' is too much",
    "run --name nope": "There is no session 'nope'. Sessions: p",
    "run --budget 3": "%taxpr run takes no --budget, but --name and --device",
    "tag --device cpu:0 h": "%taxpr tag takes no --device, but --name",
}


@pytest.mark.spread(4)
@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_one_line(with_p, line):
    cell = with_p.run(f"%taxpr {line}")
    assert cell.error is not None
    assert MISTAKES[line] in cell.shown
    assert cell.shown.strip().count("\n") == 0
    assert (with_p.names["p"].tags, with_p.names["p"].injectors) == ({}, {})


def test_without_a_session_and_in_a_cell(notebook):
    cell = notebook.run("%taxpr run")
    assert isinstance(cell.error, PanelError)
    assert "There is no session yet" in cell.shown
    assert "%%taxpr run takes no cell: write" in notebook.run("%%taxpr run\nx").shown


@pytest.mark.parametrize("name", verbs.VERBS)
def test_each_has_help(notebook, capsys, name):
    verb = verbs.VERBS[name]
    shown = notebook.run(f"%taxpr {name} --help").shown
    assert shown.startswith(f"usage: %taxpr {name} [--name NAME]")
    assert verb.example in shown
    assert ("--device" in shown) == verb.runs
    whole = notebook.run("%taxpr --help").shown
    assert " ".join(f"%taxpr {name} {verb.usage}".split()) in " ".join(whole.split())


def _completed(notebook, line):
    token = line.split(" ")[-1].rpartition(":")[2]
    return notebook.shell.complete(token, line, len(line))[1]


def test_completion(with_p):
    p = with_p.names["p"]
    assert "run" in _completed(with_p, "%taxpr ru")
    assert {"tag", "inject", "why"} <= set(_completed(with_p, "%taxpr "))
    assert _completed(with_p, "%taxpr tag z") == ["z#0", "z#1"]
    p.tag("z#1", "zebra")
    assert _completed(with_p, "%taxpr inject z") == ["z#0", "z#1", "zebra"]
    assert _completed(with_p, "%taxpr watch z") == ["z#0", "z#1"]
    assert _completed(with_p, "%taxpr watch --name p z") == ["z#0", "z#1"]
    assert _completed(with_p, "%taxpr inject z#1 sca") == ["scale"]
    assert _completed(with_p, "%taxpr inject z#1 clip low=0 ") == ["high="]
    assert set(_completed(with_p, "%taxpr edit loss.")) == {"loss.y", "loss.z", "loss.return"}
    assert _completed(with_p, "%taxpr run --n")[:1] == ["--name"]
    assert "z#0" not in _completed(with_p, "%taxpr run ")


def nested_alike(x):
    def inner(x):
        h = x * 2
        return h

    first = inner(x)
    twice = lambda y: y * 2
    thrice = lambda y: y * 3
    return twice(first) + thrice(other_alike(x))


def other_alike(x):
    def inner(x):
        h = x * 3
        return h

    z = inner(x)
    z = z + 1
    return z


def test_each_completion_names_one_value():
    session = Session(nested_alike, (np.ones(3, np.float32),))
    _, names = verbs.next_words("tag", "", session)
    assert {"nested_alike.inner.h", "other_alike.inner.h", "z#0", "z#1"} <= set(names)
    for name in names:
        assert session.tag(name)
