"""Several values are selected in a panel, with no browser attached."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import panel
from taxpr_jupyter._view.widget import view_for

SECONDS = 60
X = jnp.array([0.5, -1.0, 2.0])


def model(x):
    h = jnp.sin(x)
    y = h * 3.0
    z = taxpr.tag(jnp.cos(y), name="z")
    return (z**2).sum()


def grads(x):
    return jax.grad(model)(x)


def by_hand(x):
    h = 0.5 * jnp.sin(x)
    y = 0.5 * (h * 3.0)
    return (jnp.cos(y) ** 2).sum()


class Remote:
    """Does to a panel what a browser does, and keeps how often what is selected was shown."""

    def __init__(self, session, monkeypatch):
        self.session = session
        self.view = view_for(session)
        self.graph = self.view.graph
        self.shown = 0
        selected = self.view.showing.selected

        def counted():
            self.shown += 1
            selected()

        monkeypatch.setattr(self.view.showing, "selected", counted)

    def choose(self, *places):
        self.graph.set_state({"selected": places[-1], "chosen": list(places)})

    def send(self, do, **more):
        self.graph._handle_custom_msg({"do": do, **more}, [])
        assert self.view.wait(SECONDS)

    @property
    def keys(self):
        """The values that are selected, by what Python knows."""
        return [one["address"] for one in self.graph.several["values"]]


@pytest.fixture
def opened(monkeypatch):
    made = []

    def open_(fun):
        made.append(Remote(panel(fun)(X), monkeypatch))
        return made[-1]

    yield open_
    for one in made:
        one.view.close()


def places_of(session, *names):
    return [session.find(f'var("{name}")')[0].address for name in names]


@pytest.mark.parametrize("fun", [model, grads])
@pytest.mark.parametrize("names", ["hy", "yh"])
def test_they_stay_selected_where_the_program_is_traced_anew(opened, fun, names):
    remote = opened(fun)
    session, graph = remote.session, remote.graph
    remote.choose(*places_of(session, *names))
    remote.send("attachAll", addresses=graph.chosen, injector="scale")
    assert [one.edits for one in session.injectors.values()] == [fun is grads] * 2
    assert graph.selected == graph.chosen[-1]
    assert graph.chosen == places_of(session, *names)
    named = {site.key: site.name for site in session.sites()}
    assert [named[key] for key in remote.keys] == list(names)
    assert (graph.several["injected"], graph.several["bare"]) == (2, 0)
    assert graph.controls["injector"] == "scale"  # whose slider moves both
    wanted = by_hand(X) if fun is model else jax.grad(by_hand)(X)
    np.testing.assert_allclose(session.run().outputs, wanted, rtol=1e-5)
    remote.send("attachAll", addresses=graph.chosen, injector="")
    assert not session.injectors
    assert graph.chosen == places_of(session, *names)


@pytest.mark.parametrize("fun", [model, grads])
def test_a_tag_stays_selected_where_its_address_moves(opened, fun):
    remote = opened(fun)
    [z] = [site for site in remote.session.sites() if site.name == "z"]
    remote.choose(z.address, *places_of(remote.session, "h"))
    remote.send("tagAll", addresses=remote.graph.chosen)
    now = {site.name: site for site in remote.session.sites()}
    assert now["z"].address != z.address
    assert remote.graph.chosen == [now["z"].address, *places_of(remote.session, "h")]
    assert remote.keys == [now["z"].key, now["h"].key]
    remote.choose(*reversed(remote.graph.chosen))
    remote.send("untagAll", addresses=remote.graph.chosen)
    assert remote.graph.chosen == [*places_of(remote.session, "h"), z.address]


def test_one_value_of_two_places_counts_once(opened):
    remote = opened(model)
    [h, y] = places_of(remote.session, "h", "y")
    remote.choose(h, f"{h}.0")
    several = remote.graph.several
    assert (several["title"], several["bare"]) == ("1 value selected", 1)
    remote.choose(h, y, f"{h}.0")
    assert remote.graph.several["title"] == "2 values selected"
    remote.send("tagAll", addresses=remote.graph.chosen)
    assert remote.session.undoes == "tag 2 values"


def test_what_is_selected_is_looked_at_once(opened, monkeypatch):
    remote = opened(model)
    places = places_of(remote.session, "h", "y")
    looked, inspect = [], remote.session.inspect

    def counted(address):
        looked.append(address)
        return inspect(address)

    monkeypatch.setattr(remote.session, "inspect", counted)
    remote.choose(*places)
    assert remote.shown == 1
    assert looked == [places[-1], *places]
    remote.send("attachAll", addresses=places, injector="scale")
    looked.clear()
    remote.session.set_value("y", "factor", 0.25)
    assert looked == []  # else each move of a slider takes long
    texts = [one["injector"] for one in remote.graph.several["values"]]
    assert texts == ["scale(factor=0.5)", "scale(factor=0.25)"]


def test_another_one_alone_and_one_that_is_left(opened):
    remote = opened(model)
    places = places_of(remote.session, "h", "y")
    remote.choose(*places)
    remote.graph.set_state({"selected": "in0"})
    assert (remote.graph.chosen, remote.graph.several) == ([], {})
    assert remote.graph.inspection["address"] == "in0"
    assert remote.graph.controls["address"] == "in0"
