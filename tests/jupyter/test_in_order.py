"""Several injectors at one tag run in order; each has a switch, and the order can be changed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import Session
from taxpr_jupyter._errors import PanelError

X = jnp.array([0.5, -1.0, 2.0])
K = 2.0


def model(x):
    h = jnp.sin(x)
    return (h**2).sum()


def grad(x):
    return jax.grad(model)(x)


def times(ctx, token, params, by=1.5):
    return by * K * token, ctx


PARTS = {
    "scale": lambda h: 0.5 * h,
    "2 - x": lambda h: 2 - h,
    "times": lambda h: 1.5 * K * h,
}


def by_hand(fun, names):
    def changed(x):
        h = jnp.sin(x)
        for name in names:
            h = PARTS[name](h)
        return (h**2).sum()

    return (changed if fun is model else jax.grad(changed))(X)


def opened(fun=model, names=PARTS):
    session = Session(fun, (X,), namespace=globals(), call=f"{fun.__name__}(X)")
    for name in names:
        session.append("h", name)
    return session


def same(session, fun, names):
    np.testing.assert_allclose(session.run().outputs, by_hand(fun, names), rtol=1e-5)
    space = dict(globals())
    exec(session.code(), space)
    np.testing.assert_allclose(space["out"], by_hand(fun, names), rtol=1e-5)


@pytest.mark.parametrize("fun", [model, grad])
def test_they_run_in_order_and_the_order_can_be_changed(fun):
    session = opened(fun)
    [attached] = session.injectors.values()
    assert (attached.edits, attached.error) == (fun is grad, None)
    assert str(attached) == "scale(factor=0.5), 2 - x, times(by=1.5)"
    same(session, fun, ["scale", "2 - x", "times"])
    session.arrange("h", [2, 0, 1])
    same(session, fun, ["times", "scale", "2 - x"])
    session.arrange("h", [0, 2])
    same(session, fun, ["times", "2 - x"])
    session.undo()
    same(session, fun, ["times", "scale", "2 - x"])
    session.arrange("h", [1])
    same(session, fun, ["scale"])
    assert [one.name for one in session.injectors.values()] == ["scale"]
    for _ in range(2):
        session.undo()
    same(session, fun, ["scale", "2 - x", "times"])
    session.redo()
    same(session, fun, ["times", "scale", "2 - x"])


@pytest.mark.parametrize("fun", [model, grad])
def test_each_has_a_switch(fun):
    session = opened(fun)
    session.switch("h", on=False, part=1)
    same(session, fun, ["scale", "times"])
    assert str(session.sites()[0].injector) == "scale(factor=0.5), 2 - x, off, times(by=1.5)"
    session.switch("h", on=False, part=0)
    session.switch("h", on=False, part=2)
    np.testing.assert_allclose(session.run().outputs, fun(X), rtol=1e-6)
    session.switch("h", on=True, part=1)
    same(session, fun, ["2 - x"])
    session.switch("h", on=False)
    np.testing.assert_allclose(session.run().outputs, fun(X), rtol=1e-6)
    session.switch("h", on=True)
    same(session, fun, ["2 - x"])
    session.undo()
    session.undo()
    same(session, fun, ["2 - x"])


def test_values_are_those_of_each_and_stay_in_another_order():
    session = opened()
    session.set_value("h", "scale.factor", 3.0)
    session.set_value("h", "times.by", 0.25)
    wanted = ((0.25 * K * (2 - 3 * jnp.sin(X))) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)
    session.arrange("h", [1, 0, 2])
    wanted = ((0.25 * K * 3 * (2 - jnp.sin(X))) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)


def test_two_of_a_kind_have_numbers():
    session = opened(names=["scale", "scale"])
    [attached] = session.injectors.values()
    assert attached.values == {"scale.factor": 0.5, "scale2.factor": 0.5}
    same(session, model, ["scale", "scale"])


def test_one_with_a_state_and_a_report():
    session = opened(names=["count", "scale"])
    session.append("h", "noise", key=0, stddev=0.0)
    run = session.run()
    np.testing.assert_allclose(run.outputs, by_hand(model, ["scale"]), rtol=1e-5)
    [record] = run.records.values()
    assert int(record.report["count.count"]) == 1


def test_a_function_defined_anew_and_a_global_are_taken_up(monkeypatch):
    session = opened()
    monkeypatch.setitem(globals(), "K", 5.0)
    same(session, model, ["scale", "2 - x", "times"])
    monkeypatch.setitem(globals(), "times", lambda ctx, token, params, by=1.5: (token - by, ctx))
    wanted = ((2 - 0.5 * jnp.sin(X) - 1.5) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)


@pytest.mark.parametrize("fun", [model, grad])
def test_they_are_saved_and_handed_over(tmp_path, fun):
    session = opened(fun)
    session.set_value("h", "scale.factor", 3.0)
    session.switch("h", on=False, part=1)
    session.save(tmp_path / "edits.json")
    again, later = opened(fun, names=()), opened(fun, names=())
    again.load(tmp_path / "edits.json")
    later.take_over(session)
    for one in (again, later):
        assert str(one.sites()[0].injector) == "scale(factor=3), 2 - x, off, times(by=1.5)"
        np.testing.assert_allclose(one.run().outputs, session.run().outputs, rtol=1e-6)


def test_mistakes():
    session = opened(names=["scale", "2 - x"])
    before = session.undoes
    for wrong in ([], [0, 0], [2], [-1]):
        with pytest.raises(PanelError, match=r"The tag has 2 injectors, from 0: .* is no order"):
            session.arrange("h", wrong)
    with pytest.raises(PanelError, match="and none number 2"):
        session.switch("h", on=False, part=2)
    with pytest.raises(PanelError, match="cannot stand among several injectors"):
        session.append("h", taxpr.switched(taxpr.zero()))
    assert session.undoes == before
    same(session, model, ["scale", "2 - x"])


def several(x):
    h = jnp.sin(x)
    h = h * 2.0
    return (h**2).sum()


def several_by_hand(x):
    h = 1 - 0.5 * jnp.sin(x)
    h = 1 - h * 2.0
    return (h**2).sum()


def test_a_list_gets_one_more_at_each_in_one_step():
    session = Session(several, (X,), namespace=globals(), call="several(X)")
    session.attach("h#0", "scale")
    made = session.append(["h"], "1 - x")
    assert [str(one) for one in made] == ["scale(factor=0.5), 1 - x", "1 - x"]
    np.testing.assert_allclose(session.run().outputs, several_by_hand(X), rtol=1e-5)
    session.undo()
    assert [str(one) for one in session.injectors.values()] == ["scale(factor=0.5)"]


def test_what_takes_one_value_advises_no_list():
    session = Session(several, (X,), namespace=globals(), call="several(X)")
    session.attach(["h"], "scale")
    session.untag("h#0")  # so that `h` names no tag
    session.rename("h#1", "other")
    acts = (
        lambda place: session.arrange(place, [0]),
        lambda place: session.switch(place, on=False, part=0),
        lambda place: session.set_value(place, "factor", 2.0),
        lambda place: session.set_ctx(place, 2.0),
        lambda place: session.rename(place, "new"),
    )
    for act, place in itertools.product(acts, ("h", ["h"])):
        with pytest.raises(PanelError, match=r"means 2 values\. Say which: ") as error:
            act(place)
        assert "A list means" not in str(error.value)
    with pytest.raises(PanelError, match=r"A list means all of them: \['h'\]\.$"):
        session.append("h", "scale")


def meanwhile(monkeypatch, session, act):
    """Has another thread act after the next call has begun, and before it has the lock."""
    trials, attach = session._trials, session._trials.attach

    def late(*args, **kwargs):
        monkeypatch.setattr(trials, "attach", attach)
        act()
        return attach(*args, **kwargs)

    monkeypatch.setattr(trials, "attach", late)


def test_what_another_thread_does_meanwhile_stays(monkeypatch):
    session = opened(names=())
    meanwhile(monkeypatch, session, lambda: session.append("h", "scale"))
    session.append("h", "2 - x")
    same(session, model, ["scale", "2 - x"])
    meanwhile(monkeypatch, session, lambda: session.arrange("h", [1]))
    with pytest.raises(PanelError, match=r"The tag has 1 injector, from 0: \[1, 0\] is no order"):
        session.arrange("h", [1, 0])
    same(session, model, ["2 - x"])


def tagged_grad(x):
    return jax.grad(lambda x: (taxpr.tag(jnp.sin(x), name="s") ** 2).sum())(x)


def test_one_more_warns_as_the_first_one_does():
    session = Session(tagged_grad, (X,), namespace=globals(), call="tagged_grad(X)")
    for name in ("scale", "add"):
        with pytest.warns(taxpr.errors.StaleDerivativeWarning) as warned:
            session.append("s", name)
        assert {one.filename for one in warned} == {__file__}
