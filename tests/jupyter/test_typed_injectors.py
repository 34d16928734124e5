"""A line of Python is an injector: `2 * x`, or a lambda of the value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError

X = jnp.array([0.5, -1.0, 2.0])
K = 3.0


def model(x):
    h = jnp.sin(x)
    return (h**2).sum()


def grad(x):
    return jax.grad(model)(x)


def opened(fun=model):
    return Session(fun, (X,), namespace=globals(), call=f"{fun.__name__}(X)")


LINES = {
    "2 * x": lambda h: 2 * h,
    "lambda h: jnp.tanh(h) * K": lambda h: jnp.tanh(h) * K,
    "lambda h, by=0.5: h + by": lambda h: h + 0.5,
    "lambda c, t, p: (t * t, c)": lambda h: h * h,
    "lambda ctx: -ctx": lambda h: -h,
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_does_what_it_says_also_as_code(line):
    session = opened()
    attached = session.attach("h", line)
    assert attached.error is None
    wanted = (LINES[line](jnp.sin(X)) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-6)
    space = dict(globals())
    exec(session.code(), space)
    np.testing.assert_allclose(space["out"], wanted, rtol=1e-6)


def test_its_numbers_are_parameters_and_it_is_undone():
    session = opened()
    session.attach("h", "lambda h, by=0.5: h + by")
    session.set_value("h", "by", 2.0)
    np.testing.assert_allclose(session.run().outputs, ((jnp.sin(X) + 2) ** 2).sum(), rtol=1e-6)
    session.undo()
    assert [dict(one.values) for one in session.injectors.values()] == [{"by": 0.5}]
    assert session.undo() == "lambda h, by=0.5: h + by at h"
    assert not session.injectors


def test_it_edits_a_differentiated_program():
    session = opened(grad)
    assert session.attach("h", "2 * x").edits
    wanted = jax.grad(lambda x: ((2 * jnp.sin(x)) ** 2).sum())(X)
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-6)


def test_it_is_saved_and_loaded(tmp_path):
    session = opened()
    session.attach("h", "lambda h, by=0.5: h + by", by=1.5)
    session.save(tmp_path / "edits.json")
    again = opened()
    again.load(tmp_path / "edits.json")
    np.testing.assert_allclose(again.run().outputs, ((jnp.sin(X) + 1.5) ** 2).sum(), rtol=1e-6)


def test_a_name_that_the_notebook_defines_anew_is_taken_up(monkeypatch):
    session = opened()
    session.attach("h", "K * x")
    monkeypatch.setitem(globals(), "K", 5.0)
    np.testing.assert_allclose(session.run().outputs, ((5 * jnp.sin(X)) ** 2).sum(), rtol=1e-6)


MISTAKES = {
    "2 *": "'2 *' is no expression of Python: invalid syntax. Write an expression of x, as in 2",
    "2 * h": "'2 * h' has no x, which is the value. Write",
    "lambda a, b: a": "takes 2 values, and gets one",
    "lambda *a: a": "takes 0 values, and gets one",
    "lambda h, by=K: h * by": "the default of by is no literal, such as 3.0: K. Write an",
    "lambda h, *, q=[print(1)]: h": "the default of q is no literal, such as 3.0: [print(1)]",
    "lambda h, observes=2.0: h": "taxpr.from_function has an argument 'observes'; call the",
    "lambda h, *, ctx=2.0: h": "taxpr.from_function has an argument 'ctx'; call the",
    "await x": "'await x' is no expression of Python: 'await' outside async function. Write",
    "-" * 3000 + "x": "is no expression of Python: RecursionError: ",
    "x + '\0'": "is no expression of Python: ",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_say_how_to_write_it(line):
    session = opened()
    with pytest.raises(PanelError) as error:
        session.attach("h", line)
    assert MISTAKES[line] in str(error.value)
    assert not session.injectors
    assert session.undoes == ""


def test_a_file_evaluates_no_default_when_it_is_loaded(tmp_path, capsys):
    session, path = opened(), tmp_path / "edits.json"
    session.attach("h", "lambda h, by=0.5: h + by")
    session.save(path)
    path.write_text(path.read_text().replace("by=0.5", "by=0.5, q=[print('evaluated')]"))
    again = opened()
    with pytest.raises(PanelError, match="the default of q is no literal"):
        again.load(path)
    assert capsys.readouterr().out == ""
    assert not again.injectors


def test_names_are_live_in_a_namespace_of_ones_own_which_stays_as_it_is():
    space = {"c0": 2.0}
    session = Session(model, (X,), namespace=space)
    session.attach("h", "c0 * abs(x)")
    np.testing.assert_allclose(session.run().outputs, ((2 * jnp.sin(X)) ** 2).sum(), rtol=1e-6)
    space["c0"] = 100.0
    np.testing.assert_allclose(session.run().outputs, ((100 * jnp.sin(X)) ** 2).sum(), rtol=1e-6)
    assert space == {"c0": 100.0}


def test_without_a_namespace_an_unknown_name_says_how_to_give_one():
    attached = Session(model, (X,)).attach("h", "jnp.sin(x)")
    assert "name 'jnp' is not defined" in attached.error
    assert "the session has none: make it by Session(..., namespace=globals())" in attached.error
    assert "namespace=" not in opened().attach("h", "nope(x)").error


def test_an_unknown_name_stays_with_the_reason():
    attached = opened().attach("h", "nope(x)")
    assert "NameError: name 'nope' is not defined" in attached.error
    with pytest.raises(PanelError, match="There is no injector 'nope'"):
        opened().attach("h", "nope")


def test_a_line_in_a_cell(notebook):
    notebook.good("%%taxpr --name p\ndef f(x):\n    h = jnp.sin(x)\n    return h\nf(0.5)")
    for line in ("2*x", '"lambda h: 2 * h"'):
        assert notebook.good(f"%taxpr inject h {line}").error is None
        assert float(notebook.good("%taxpr run").outputs) == pytest.approx(2 * np.sin(0.5))
