"""`session.save("x.json")` and `load`: the same edits, refused by name where they do not fit."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session

X = jnp.arange(3.0)
MODULE = """
import jax
import jax.numpy as jnp

def loss(w):
    h = jnp.sin(w)
    k = h * 2.0
    return k.sum()

step = jax.value_and_grad(loss)
"""


def net(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    return h * 2.0 + jnp.cos(x)


def double(ctx, token, params):
    return token * 2.0, ctx


@pytest.fixture
def file(tmp_path):
    return tmp_path / "edits.json"


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "model_of_edits.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import model_of_edits

    return model_of_edits


def again(session, file, made):
    """The session that loads what another one saved."""
    session.save(file)
    made.load(file)
    np.testing.assert_array_equal(made.run().outputs, session.run().outputs)
    return made


def test_tags_injectors_and_views_come_back(file):
    session = Session(net, (X,), namespace={"double": double})
    session.attach("h", "scale", factor=0.5)
    session.tag("2:cos", name="other", note=("mine", (1, 2)))
    session.attach("other", "double")
    session.keep_view("all of it")
    made = again(session, file, Session(net, (X,), namespace={"double": double}))
    np.testing.assert_allclose(made.last.outputs, np.sin(X) + 2 * np.cos(X), rtol=1e-6)
    assert made.tags == session.tags == {"2:cos.0": {"name": "other", "note": ("mine", (1, 2))}}
    assert {key: (one.name, one.values) for key, one in made.injectors.items()} == {
        key: (one.name, one.values) for key, one in session.injectors.items()
    }
    assert list(made.views) == ["all of it"]
    made.view("all of it")
    made.set_value("h", "factor", 1.0)  # it is a session as any other


def test_what_was_there_before_goes(file):
    session = Session(net, (X,))
    session.attach("h", "scale", factor=0.5)
    session.save(file)
    made = Session(net, (X,))
    made.tag("2:cos", name="mine")
    made.attach("mine", "zero")
    made.load(file)
    assert made.tags == {}
    assert [one.name for one in made.injectors.values()] == ["scale"]


def test_lines_and_injectors_that_edit_come_back_with_their_gradients(file, module):
    session = Session(module.step, (X,))
    session.edit("loss.k", "h * 3.0")
    session.attach(taxpr.var("loss.h"), "scale", factor=0.5)
    [attached] = session.injectors.values()
    assert attached.edits
    session.save(file)
    made = Session(module.step, (X,))
    made.load(file)
    assert made.edits() == session.edits()
    assert made.tags == session.tags
    value, slope = made.run().outputs
    np.testing.assert_allclose(value, (1.5 * np.sin(X)).sum(), rtol=1e-6)
    np.testing.assert_allclose(slope, 1.5 * np.cos(X), rtol=1e-6)


def test_a_function_that_is_missing_is_named_and_nothing_is_changed(file):
    session = Session(net, (X,), namespace={"double": double, "twice": double})
    session.attach("h", "double")
    session.tag("2:cos", name="other")
    session.attach("other", "twice")
    session.save(file)
    made = Session(net, (X,))
    made.attach("h", "scale", factor=3.0)
    made.tag("2:cos", name="mine")
    made.undo()
    before = made.undoes, made.redoes
    both = r"lacks 2 functions: 'double', injected at h; 'twice', injected at other\. Run the cells"
    with pytest.raises(PanelError, match=both):
        made.load(file)
    assert [(one.name, one.values) for one in made.injectors.values()] == [
        ("scale", {"factor": 3.0})
    ]
    assert (made.undoes, made.redoes) == before
    made.undo()
    assert (made.injectors, made.tags) == ({}, {})


def test_a_loaded_file_is_one_step(file):
    session = Session(net, (X,))
    session.tag("2:cos", name="other")
    session.attach("other", "scale", factor=0.5)
    session.save(file)
    made = Session(net, (X,))
    made.attach("h", "scale", factor=3.0)
    made.load(file)
    assert made.undo() == "edits.json loaded"
    assert ([one.values for one in made.injectors.values()], made.tags) == ([{"factor": 3.0}], {})
    made.redo()
    assert list(made.tags) == list(made.injectors) == ["2:cos.0"]


def test_another_program_is_refused(file):
    session = Session(net, (X,))
    session.attach("h", "scale", factor=0.5)
    session.save(file)

    def other(x):
        first = jnp.sin(x)
        return taxpr.tag(jnp.tanh(first), name="h")

    with pytest.raises(PanelError, match="The program is another one: "):
        Session(other, (X,)).load(file)


@pytest.mark.parametrize(
    "injector", [lambda ctx, token, params: (token, ctx), taxpr.noise(jax.random.key(0))]
)
def test_what_cannot_be_found_again_is_not_saved(file, injector):
    session = Session(net, (X,))
    session.attach("h", injector)
    with pytest.raises(PanelError, match=r"at h cannot be saved: it has no name in the notebook"):
        session.save(file)
    assert not file.exists()


def test_files_that_are_none(file):
    session = Session(net, (X,))
    for text in ("{", "[]", json.dumps({"format": "another"})):
        file.write_text(text)
        with pytest.raises(PanelError, match=r"edits.json is no file of edits"):
            session.load(file)
    session.tag("2:cos", name="other", note=frozenset({1}))
    with pytest.raises(PanelError, match="A param of a tag cannot be saved"):
        session.save(file)


def test_watched_states_come_back(file):
    total = taxpr.State(0.0, name="total")

    def add(x):
        total.value += x
        return total.value * 2.0

    session = Session(add, (2.0,))
    keys = session.watch_state("total")
    session.save(file)
    made = Session(add, (2.0,))
    made.load(file)
    assert made.tags == session.tags
    assert made.run().records[keys[0]].value == 2.0


def test_initial_values_of_states_come_back(file):
    norm = taxpr.State({"mean": jnp.zeros(2), "n": jnp.int32(0)}, name="norm")

    def add(x):
        norm.value = {"mean": norm.value["mean"] + x, "n": norm.value["n"] + 1}
        return norm.value["mean"]

    session = Session(add, (2.0,))
    session.set_state("norm['mean']", [0.1, float("inf")])
    session.set_state("norm['n']", 7)
    made = again(session, file, Session(add, (2.0,)))
    assert made.last.setup == session.last.setup
    assert made.last.final_states["norm"]["n"] == 8


def test_an_initial_value_that_a_file_cannot_have(file):
    state = taxpr.State(jax.random.key(0), name="key")

    def draw():
        state.value, used = jax.random.split(state.value)
        return jax.random.normal(used)

    session = Session(draw, ())
    session.set_state("key", jax.random.key(1))
    with pytest.raises(
        PanelError, match=r"The initial value of key cannot be saved: a file has no"
    ):
        session.save(file)


@pytest.mark.parametrize("key", ["made_by", "lines", "views"])
def test_a_file_that_lacks_a_part_is_refused(file, key):
    session = Session(net, (X,))
    session.attach("h", "scale", factor=0.5)
    session.save(file)
    data = json.loads(file.read_text())
    del data[key]
    file.write_text(json.dumps(data))
    with pytest.raises(PanelError, match=f"it lacks '{key}'"):
        session.load(file)
    assert list(session.injectors)
