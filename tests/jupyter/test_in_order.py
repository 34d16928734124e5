"""Several injectors at one tag run in order; each has a switch, and the order can be changed."""

import itertools
import json

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


def counts(ctx, token, params):
    return token * (ctx + 2), ctx + 1


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


def test_a_name_that_means_an_injector_that_stands_alone_is_said_with_the_tag(monkeypatch):
    session = opened(names=["scale", "times"])
    monkeypatch.setitem(globals(), "times", taxpr.switched(taxpr.zero()))
    for _ in range(2):
        run = session.run()
        assert run.error is not None
        assert "The injector 'scale, times' at the tag 'h'" in run.error
        assert "times cannot stand among several injectors of one tag" in run.error
    monkeypatch.undo()
    same(session, model, ["scale", "times"])


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


def test_the_ctx_of_one_is_set():
    session = Session(model, (X,), namespace=globals())
    session.attach("h", "counts", ctx=0.0)
    session.append("h", "scale")
    session.append("h", "2 - x")
    session.set_ctx("h", 5.0)
    wanted = ((2 - 0.5 * 7 * jnp.sin(X)) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)
    session.undo()
    wanted = ((2 - 0.5 * 2 * jnp.sin(X)) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)
    session.append("h", "counts", ctx=1.0)
    with pytest.raises(PanelError, match="have 2 contexts: give part=, one of 0, 3"):
        session.set_ctx("h", 5.0)
    session.set_ctx("h", 5.0, part=3)
    wanted = ((7 * (2 - 0.5 * 2 * jnp.sin(X))) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)
    for part, message in ((1, "scale has a context of its own"), (7, "and none number 7")):
        with pytest.raises(PanelError, match=message):
            session.set_ctx("h", 5, part=part)


def test_a_function_without_its_ctx_says_how_to_give_one():
    session = opened(names=["scale"])
    attached = session.append("h", "counts")
    assert "Its ctx is (): give another by session.set_ctx(address, ctx, part=1)" in attached.error
    session.set_ctx("h", 1.0, part=1)
    wanted = ((0.5 * 3 * jnp.sin(X)) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)


def test_with_a_ctx_they_are_no_edit_of_a_line():
    session = opened(grad, names=["scale"])
    with pytest.warns(taxpr.errors.StaleDerivativeWarning):
        attached = session.append("h", "counts", ctx=0.0)
    assert not attached.edits
    assert "a function of yours is called with a context" in attached.note


def test_an_order_and_switches_are_steps_of_their_own_names():
    session = opened()
    names = "scale, 2 - x, times"
    assert session.undoes == f"{names} at h"
    session.arrange("h", [2, 0, 1])
    assert session.undoes == "times, scale, 2 - x at h in another order"
    session.switch("h", on=False, part=1)
    assert session.undoes == "scale at h off"
    session.switch("h", on=True, part=1)
    assert session.undoes == "scale at h on"
    session.set_value("h", "scale.factor", 3.0)
    assert session.undoes == "times, scale, 2 - x(scale.factor=3.0) at h"
    session.arrange("h", [1, 2])
    assert session.undoes == "no times at h"
    session.arrange("h", [1])
    assert session.undoes == "no scale at h"


def test_names_of_parameters_stay_with_their_injectors():
    session = opened(names=["scale", "scale"])
    session.set_value("h", "scale2.factor", 4.0)
    session.arrange("h", [1, 0])
    assert session.injectors["0:sin.0"].values == {"scale2.factor": 4.0, "scale.factor": 0.5}
    session.set_value("h", "scale2.factor", 8.0)
    assert [one.values["factor"] for one in session.injectors["0:sin.0"].each] == [8.0, 0.5]
    session.append("h", "scale", factor=2.0)
    assert list(session.injectors["0:sin.0"].values) == [
        *("scale2.factor", "scale.factor", "scale3.factor")
    ]
    session.arrange("h", [0, 2])
    session.append("h", "scale", factor=0.25)
    session.switch("h", on=False, part=1)
    assert list(session.injectors["0:sin.0"].values) == [
        *("scale2.factor", "scale3.factor", "scale.factor")
    ]
    wanted = ((8 * 0.25 * jnp.sin(X)) ** 2).sum()
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)


def test_names_of_parameters_stay_in_a_file(tmp_path):
    session, again = opened(names=["scale", "scale"]), opened(names=())
    session.set_value("h", "scale2.factor", 4.0)
    session.arrange("h", [1, 0])
    session.switch("h", on=False, part=0)
    session.save(tmp_path / "edits.json")
    again.load(tmp_path / "edits.json")
    assert list(again.injectors["0:sin.0"].values) == ["scale2.factor", "scale.factor"]
    assert str(again.sites()[0].injector) == "scale(factor=4), off, scale(factor=0.5)"
    same(again, model, ["scale"])
    data = json.loads((tmp_path / "edits.json").read_text())
    del data["injectors"][0]["labels"]  # as older files are
    (tmp_path / "edits.json").write_text(json.dumps(data))
    again.load(tmp_path / "edits.json")
    assert list(again.injectors["0:sin.0"].values) == ["scale.factor", "scale2.factor"]
    same(again, model, ["scale"])


def test_the_same_kind_with_further_values_is_a_step():
    session = opened(names=["zero"])
    session.attach("h", taxpr.switched(taxpr.zero()))
    assert session.undoes == "zero at h"
    with pytest.raises(PanelError, match="zero cannot stand among several injectors of one tag: "):
        session.append("h", "scale")


def test_names_of_parameters_stay_where_a_function_is_defined_anew(monkeypatch):
    session = opened(names=["times", "times"])
    session.arrange("h", [1, 0])
    monkeypatch.setitem(globals(), "times", lambda ctx, token, params, by=1.5: (token - by, ctx))
    session.run()
    assert list(session.injectors["0:sin.0"].values) == ["times2.by", "times.by"]


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
        lambda place: session.set_ctx(place, 2.0),
        lambda place: session.rename(place, "new"),
    )
    for act, place in itertools.product(acts, ("h", ["h"])):
        with pytest.raises(PanelError, match=r"means 2 values\. Say which: ") as error:
            act(place)
        assert "A list means" not in str(error.value)
    for act in (session.append, lambda place, _: session.set_value(place, "factor", 2.0)):
        with pytest.raises(PanelError, match=r"A list means all of them: \['h'\]\.$"):
            act("h", "scale")


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
