"""Tags and injectors for several values at once: each is one step to undo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._view.widget import view_for

X = jnp.array([0.5, -1.0, 2.0])


def model(x):
    h = jnp.sin(x)
    h = h * 2.0
    h = h + x
    y = taxpr.tag(h**2, name="y")
    return y.sum()


def scaled(x, factor=0.5):
    """The model with each `h` scaled, by hand."""
    h = factor * jnp.sin(x)
    h = factor * (h * 2.0)
    h = factor * (h + x)
    return (h**2).sum()


def step(w, x):
    value, grad = jax.value_and_grad(lambda w: model(w * x))(w)
    return value, w - 0.1 * grad


@pytest.fixture
def session():
    return Session(model, (X,), namespace=globals(), call="model(X)")


def names(session):
    return [(site.name, site.added, str(site.injector or "")) for site in session.sites()]


BARE = [("y", False, "")]
TAGGED = [("h", True, ""), ("h2", True, ""), ("h3", True, ""), *BARE]


def test_which_one_is_asked_with_the_names_to_type(session):
    line = model.__code__.co_firstlineno
    named = ", ".join(rf"h#{k} \(test_several.py:{line + 1 + k}\)" for k in range(3))
    for act in (
        session.tag,
        session.untag,
        session.detach,
        lambda one: session.attach(one, "zero"),
    ):
        with pytest.raises(
            PanelError, match=rf"^'h' means 3 values. Say which: {named}. A list mea"
        ):
            act("h")
    session.tag("h#1")
    assert list(session.tags) == ["1:mul.0"]


def test_a_list_tags_all_its_values_in_one_step(session):
    assert session.tag(["h"]) == ["0:sin.0", "1:mul.0", "2:add.0"]
    assert names(session) == TAGGED
    assert session.undoes == "tag 3 values"
    assert session.tag(["h#0", "y", "in0"]) == ["0:sin.0", session.sites()[-1].key, "in0"]
    assert session.undo() == "tag 1 value"
    session.undo()
    assert names(session) == BARE
    session.redo()
    assert names(session) == TAGGED


def test_a_name_for_several_gets_numbers(session):
    session.tag(["h"], name="act", layer=1)
    assert [site.name for site in session.sites()] == ["act", "act2", "act3", "y"]
    assert {params["layer"] for params in session.tags.values()} == {1}


def test_an_injector_at_several_values_does_what_it_does_at_each(session):
    attached = session.attach(["h"], "scale", factor=0.5)
    assert [one.key for one in attached] == ["0:sin.0", "1:mul.0", "2:add.0"]
    np.testing.assert_allclose(session.run().outputs, scaled(X), rtol=1e-6)
    assert session.undoes == "scale at 3 values"
    session.undo()
    assert names(session) == BARE
    session.redo()
    np.testing.assert_allclose(session.run().outputs, scaled(X), rtol=1e-6)
    session.detach(["h", "in0"])
    assert session.undoes == "no injector at 3 values"
    assert not session.injectors
    np.testing.assert_allclose(session.run().outputs, model(X), rtol=1e-6)
    session.undo()
    session.untag(["h", "y"])  # that of `y` is in the source, and stays
    assert session.undoes == "no tag at 3 values"
    assert names(session) == BARE
    session.undo()
    np.testing.assert_allclose(session.run().outputs, scaled(X), rtol=1e-6)


def test_several_edits_of_a_differentiated_program_are_one_step():
    def by_hand(w, x):
        value, grad = jax.value_and_grad(lambda w: scaled(w * x))(w)
        return value, w - 0.1 * grad

    session = Session(step, (jnp.float32(1.5), X), namespace=globals(), call="step(w, X)")
    places = [taxpr.var("model.h", occurrence=k) for k in range(3)]
    attached = session.attach(places, "scale", factor=0.5)
    assert [one.edits for one in attached] == [True] * 3
    for got, wanted in zip(session.run().outputs, by_hand(jnp.float32(1.5), X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert session.undoes == "scale at 3 values"
    session.undo()
    assert session.program is session.untouched
    assert not session.injectors


def twice(w, x):
    """Two tags of the source share a name, and an edit before them moves the second."""

    def loss(w):
        h = taxpr.tag(jnp.sin(w * x), name="h")
        y = h * 3.0
        return taxpr.tag(jnp.cos(y), name="h").sum()

    return jax.grad(loss)(w)


def test_tags_that_share_a_name_get_their_own_injectors():
    def shared(x):
        h = taxpr.tag(jnp.sin(x), name="h")
        return taxpr.tag(jnp.cos(h), name="h")

    session = Session(shared, (X,))
    keys = [site.key for site in session.sites()]
    for places in (keys, keys[::-1]):
        attached = session.attach(places, "scale")
        assert [one.key for one in attached] == places
        assert [session.injectors[key] for key in places] == attached


@pytest.mark.filterwarnings("ignore::taxpr.errors.StaleDerivativeWarning")
def test_injectors_are_found_again_where_the_program_is_traced_anew():
    session = Session(twice, (jnp.float32(1.5), X), namespace=globals())
    first, second = [site.key for site in session.sites() if site.name == "h"][:2]
    attached = session.attach([second, "y", first], "scale", factor=0.5)
    assert [one.edits for one in attached] == [False, True, False]
    assert [session.injectors[one.key] for one in attached] == attached
    assert attached[0].key != second  # it moved
    assert [site.key for site in session.sites() if site.name == "h"][:2] == [
        attached[2].key,
        attached[0].key,
    ]
    with session._store.following(one.key for one in attached) as now:
        session.undo()
        assert [session.sites()[k].key for k in (0, 1)] == [now[2], now[0]]
    assert now[1] == ""


def test_what_is_wrong_changes_nothing(session):
    wrong = {
        "no value is called so": lambda: session.tag(["h", "nope"]),
        "no such injector": lambda: session.attach(["h"], "nope"),
        "no such parameter": lambda: session.attach(["h"], "scale", by=2.0),
        "None of these values has an injector": lambda: session.detach(["h"]),
        "None of these values has a tag that was added": lambda: session.untag(["h", "y"]),
    }
    for act in wrong.values():
        with pytest.raises(PanelError):
            act()
        assert names(session) == BARE
        assert session.undoes == ""
    with pytest.raises(PanelError, match="None of these values has an injector"):
        wrong["None of these values has an injector"]()


def test_a_line_in_a_cell_means_all_by_a_list(notebook):
    notebook.good(
        "%%taxpr --name p\ndef f(x):\n    h = jnp.sin(x)\n    h = h * 2\n    return h\nf(x)"
    )
    assert notebook.good("%taxpr tag ['h']") == ["0:sin.0", "1:mul.0"]
    assert len(notebook.good("%taxpr inject ['h'] scale factor=0.5")) == 2


SELECTORS = {
    'var("h")': ["0:sin", "1:mul", "2:add"],
    'taxpr.var("h", occurrence=1)': ["1:mul"],
    '{"name": "y"}': ["t0"],
    '["h#0", var("x")]': ["in0", "0:sin"],
    'scope("nope")': "None has a named scope",
    'var("g")': "no variable has that name. There are: h, x, y",
    'var("h': "This selector in Python is not complete",
    'var("h", k=1)': "got an unexpected keyword argument 'k'. Selectors are var(",
    "var(h)": 'h needs quotes, as in var("h")',
    'var("h", function=f)': 'f needs quotes, as in var("f")',
    '{"name": y}': 'y needs quotes, as in var("y")',
    "var()": "var(text, line=None, occurrence=None, inside=None): missing a required arg",
    'var(h.x + 1, line="3")': "h.x + 1 is no text and no number. Selectors are var(",
    'var("h", **{"line": 3})': "{'line': 3}: give arguments one by one",
    "var(" + "-" * 5000 + "1)": "recursion depth exceeded",
    'tag("y")': 'tag marks values. Type tag:loss, or {"name": "loss"}',
    "h#1": ["1:mul"],
    "model.h#2": ["2:add"],
    "h#7": [],
}


@pytest.mark.parametrize("text", SELECTORS)
def test_a_search_takes_selectors_in_python(session, text):
    wanted = SELECTORS[text]
    if isinstance(wanted, list):
        assert [hit.address for hit in session.find(text)] == wanted
        return
    with pytest.raises(PanelError) as error:
        session.find(text)
    assert wanted in str(error.value)


def test_a_selector_in_a_search_runs_nothing(session):
    for text in ('var(print("no"))', 'var("h", line=int("3"))', "[var].append(3)"):
        with pytest.raises(PanelError):
            session.find(f"{text}" if text.startswith("var") else f'["x", {text}]')


# ---- one value for all -----------------------------------------------------------


def test_a_parameter_is_set_at_several_values_as_one_step(session):
    places = ["0:sin", "1:mul", "2:add"]
    session.attach(places, "scale", factor=0.5)
    told = []
    session.on_change(told.append)
    for factor in (0.25, 0.125):
        session.set_value(places, "factor", factor)
    np.testing.assert_allclose(session.run().outputs, scaled(X, 0.125), rtol=1e-6)
    assert told.count("values") == 2
    session.undo()  # both moves of the slider
    assert {str(one) for one in session.injectors.values()} == {"scale(factor=0.5)"}


def test_a_parameter_is_set_at_all_of_several_values_or_at_none(session):
    session.attach(["0:sin", "1:mul"], "scale", factor=0.5)
    session.attach("2:add", "add", value=1.0)
    before = {key: str(one) for key, one in session.injectors.items()}
    with pytest.raises(PanelError, match="add has value, and no parameter 'factor' to set"):
        session.set_value(["0:sin", "1:mul", "2:add"], "factor", 2.0)
    assert {key: str(one) for key, one in session.injectors.items()} == before
    with pytest.raises(PanelError, match="None of these values has an injector"):
        session.set_value(["3:integer_pow"], "factor", 2.0)


def test_one_slider_moves_the_injectors_of_all_selected_values(session):
    view = view_for(session)
    places = ["0:sin", "1:mul", "2:add"]
    session.attach(places, "scale", factor=0.5)
    view.graph.set_state({"chosen": places, "selected": places[-1]})
    shown = view.graph.controls
    assert (shown["injector"], [one["name"] for one in shown["fields"]]) == ("scale", ["factor"])
    message = {"do": "value", "address": shown["address"], "param": "factor", "text": "0.25"}
    view.graph._handle_custom_msg(message, [])
    assert view.wait(60)
    assert {str(one) for one in session.injectors.values()} == {"scale(factor=0.25)"}
    assert view.graph.controls["fields"][0]["text"] == "0.25"
    np.testing.assert_allclose(session.run().outputs, scaled(X, 0.25), rtol=1e-6)
    view.graph._handle_custom_msg({"do": "switch", "address": shown["address"], "on": False}, [])
    assert view.wait(60)
    np.testing.assert_allclose(session.run().outputs, model(X), rtol=1e-6)
    session.attach("2:add", "add", value=1.0)
    view.graph.set_state({"chosen": places[:2], "selected": places[1]})
    view.graph.set_state({"chosen": places, "selected": places[2]})
    assert view.graph.controls == {}  # of two kinds
    view.close()


def counted(ctx, token, params):
    return ctx * token, ctx


def test_one_field_sets_the_ctx_of_all_selected_values(session):
    view = view_for(session)
    places = ["0:sin", "1:mul", "2:add"]
    session.attach(places, counted, ctx=jnp.float32(0.5))
    view.graph.set_state({"chosen": places, "selected": places[-1]})
    shown = view.graph.controls
    assert [one["name"] for one in shown["fields"]] == ["ctx"]
    message = {
        "do": "value",
        "address": shown["address"],
        "param": "ctx",
        "text": "jnp.float32(0.25)",
    }
    view.graph._handle_custom_msg(message, [])
    assert view.wait(60)
    np.testing.assert_allclose(session.run().outputs, scaled(X, 0.25), rtol=1e-6)
    view.close()
