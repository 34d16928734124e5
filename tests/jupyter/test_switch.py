"""An injector is switched off and on: off, it stays with its values and does nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError

X = jnp.array([0.5, -1.0, 2.0])


def model(x):
    h = jnp.sin(x)
    y = h + x
    return (y**2).sum()


def grad(x):
    return jax.grad(model)(x)


def by_hand(h=1.0, y=1.0):
    return lambda x: ((y * (h * jnp.sin(x) + x)) ** 2).sum()


def opened(fun=model):
    session = Session(fun, (X,), namespace=globals(), call=f"{fun.__name__}(X)")
    session.attach("h", "scale", factor=0.5)
    session.attach("y", "scale", factor=3.0)
    return session


def outputs(session):
    return session.run().outputs


@pytest.mark.parametrize("fun", [model, grad])
def test_off_it_does_nothing_and_on_it_does_again(fun):
    wanted = (lambda f: f) if fun is model else jax.grad
    session = opened(fun)
    assert all(one.edits == (fun is grad) for one in session.injectors.values())
    both = outputs(session)
    np.testing.assert_allclose(both, wanted(by_hand(0.5, 3.0))(X), rtol=1e-5)
    session.switch("h", on=False)
    assert session.undoes == "scale at h off"
    assert session.stale
    np.testing.assert_allclose(outputs(session), wanted(by_hand(1.0, 3.0))(X), rtol=1e-5)
    space = dict(globals())
    exec(session.code(), space)
    np.testing.assert_allclose(space["out"], wanted(by_hand(1.0, 3.0))(X), rtol=1e-5)
    session.switch("y", on=False)
    np.testing.assert_allclose(outputs(session), fun(X), rtol=1e-5)
    assert not session.changes_values
    assert session.changes().diff.counts["added"] == 2  # the tags alone
    session.undo()
    session.undo()
    np.testing.assert_array_equal(outputs(session), both)
    session.redo()
    session.switch("h", on=True)
    assert session.undoes == "scale at h on"
    np.testing.assert_array_equal(outputs(session), both)


def test_it_keeps_its_values_and_shows_them():
    session = opened()
    session.switch("h", on=False)
    session.set_value("h", "factor", 0.25)
    [h, y] = session.sites()
    assert (str(h.injector), str(y.injector)) == ("scale(factor=0.25), off", "scale(factor=3)")
    assert "scale(factor=0.25), off" in session.tags_table()
    nodes = {node.address: node.kind for node in session.picture().nodes}
    session.switch("h", on=True)
    assert nodes != {node.address: node.kind for node in session.picture().nodes}
    np.testing.assert_allclose(outputs(session), by_hand(0.25, 3.0)(X), rtol=1e-5)


def test_several_are_switched_at_once():
    session = opened()
    session.switch(["h", "y"], on=False)
    np.testing.assert_allclose(outputs(session), model(X), rtol=1e-5)
    session.undo()
    np.testing.assert_allclose(outputs(session), by_hand(0.5, 3.0)(X), rtol=1e-5)


def test_one_that_cannot_work_stops_no_run_while_it_is_off():
    session = opened()
    session.attach("y", lambda ctx, token, params: (token.sum(), ctx))
    assert session.run().error
    session.switch("y", on=False)
    np.testing.assert_allclose(outputs(session), by_hand(0.5)(X), rtol=1e-5)


def test_it_is_saved_and_handed_over(tmp_path):
    session = opened()
    session.switch("h", on=False)
    session.save(tmp_path / "edits.json")
    again = Session(model, (X,), namespace=globals(), call="model(X)")
    again.load(tmp_path / "edits.json")
    later = Session(model, (X,), namespace=globals(), call="model(X)")
    later.take_over(session)
    for one in (again, later):
        assert [attached.off for attached in one.injectors.values()] == [True, False]
        np.testing.assert_allclose(outputs(one), by_hand(1.0, 3.0)(X), rtol=1e-5)


def test_an_injector_put_in_its_place_is_on():
    session = opened()
    session.switch("h", on=False)
    assert not session.attach("h", "clip", high=0.1).off


def test_there_must_be_one():
    session = opened()
    session.detach("h")
    with pytest.raises(PanelError, match="has no injector"):
        session.switch("h", on=False)
    with pytest.raises(PanelError, match="None of these values has an injector"):
        session.switch(["h"], on=False)
