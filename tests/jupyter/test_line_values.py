"""What variables held in a run, beside the lines of the source."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._lines.values import NOT_RUN, ValuesAt
from taxpr_jupyter._view.parts.recorded_view import WITHOUT, held_by
from taxpr_jupyter._view.widget import view_for


def f(xs, limit):
    def outer(total, x):
        def inner(s, k):
            t = s * x + k
            return t, None

        last, _ = jax.lax.scan(inner, x, jnp.arange(2.0))

        def large(v):
            wrong = v / 0.0
            return jnp.where(wrong > 0, v, 0)

        total = total + jax.lax.cond(last > limit, large, lambda v: v, last)
        return total, None

    def shrink(v):
        half = v / 2
        return half

    total, _ = jax.lax.scan(outer, jnp.zeros(()), xs)
    vector = jnp.array([jnp.inf, 1.0, 3.0]) * total
    return jax.lax.while_loop(lambda v: v > limit, shrink, total) + vector.sum()


XS, LIMIT = jnp.array([1.0, 2.0, 0.5]), 6.0


def as_python():
    """The values of `t` by iteration, of `total` after each, and of `half`."""
    inner, totals, halves, total = [], [], [], 0.0
    for x in XS.tolist():
        s = x
        inner.append([s := s * x + k for k in (0.0, 1.0)])
        totals.append(total := total + s)
    while total > LIMIT:
        halves.append(total := total / 2)
    return inner, totals, halves


@pytest.fixture
def session():
    session = Session(f, (XS, LIMIT), names=True)
    yield session
    view_for(session).close()


def test_chips_are_those_of_what_python_computes(session):
    inner, totals, halves = as_python()
    at = {f"{one.name} {one.occurrence}": one.address for one in session.program.variables()}
    session.watch()
    everything = session.recorded.chips
    assert session.recorded.iterations == len(XS) > len(halves) > 0
    for step in range(session.recorded.iterations):
        chips = session.at(iteration=step).chips
        of = np.array(inner[step])
        assert chips[at["t 0"]].words == f"{of.mean():.4g} ± {of.std():.3g}"
        assert chips[at["t 0"]].span == f"{of.min():.4g} … {of.max():.4g}"
        assert str(chips[at["total 1"]]) == f"{totals[step]:.4g}"
        half = f"{halves[step]:.4g}" if step < len(halves) else NOT_RUN
        assert str(chips[at["half 0"]]) == half
        taken = inner[step][-1] > LIMIT
        assert str(chips[at["wrong 0"]]) == ("+inf" if taken else NOT_RUN)
        assert chips[at["vector 0"]] == everything[at["vector 0"]]
    vector, every = totals[-1] * np.array([1.0, 3.0]), np.array(inner)
    assert str(everything[at["vector 0"]]) == (
        f"{vector.mean():.4g} ± {vector.std():.3g} ({vector[0]:.4g} … {vector[1]:.4g}) 33.3% +inf"
    )
    assert everything[at["t 0"]].words == f"{every.mean():.4g} ± {every.std():.3g}"
    curve, means = everything[at["t 0"]].curve, every.mean(1)
    expected = (means - means.min()) / (means.max() - means.min())
    np.testing.assert_allclose(curve.points, expected, atol=1e-3)
    assert (curve.wrong, curve.iterations) == ((), 3)
    wrong = everything[at["wrong 0"]].curve
    assert wrong.points == (None, None, None)
    assert wrong.wrong == tuple(k for k, of in enumerate(inner) if of[-1] > LIMIT)


def falling(x):
    def step(state, k):
        state = state * x - k
        root = jnp.sqrt(state)
        return state, root

    return jax.lax.scan(step, x + 1.0, jnp.arange(3.0))


def alone(x):
    """The values of `state` and `root` for one example, by iteration."""
    state, states, roots = np.float32(x + 1.0), [], []
    with np.errstate(invalid="ignore"):
        for k in range(3):
            states.append(state := state * np.float32(x) - k)
            roots.append(np.sqrt(state))
    return states, roots


@pytest.mark.parametrize("where", ["outer", "inner"])
def test_an_example_is_what_the_function_gives_for_it_alone(where):
    """Of two `jax.vmap` the outermost counts, and further axes are averaged over."""
    xs = np.array([0.5, 2.0, 3.0, 0.1, 1.5, 2.5], np.float32)
    mapped, given = jax.vmap(falling), xs
    if where == "outer":
        mapped, given = jax.vmap(mapped, in_axes=1), np.stack([xs, xs])
    session = Session(mapped, (given,), names=True)
    session.watch()
    assert (session.recorded.examples, session.recorded.iterations) == (6, 3)
    for example, x in enumerate(xs):
        states, roots = alone(x)
        for step in range(3):
            values = session.at(step, example)
            text = f"{roots[step]:.4g}" if np.isfinite(roots[step]) else "NaN"
            state, root = values["state"][-1], values["root"][0]
            both = "all " if where == "outer" else ""
            assert str(state) == f"{both}{states[step]:.4g}"
            many = "100% NaN" if where == "outer" else "NaN"
            assert str(root) == (many if text == "NaN" else f"{both}{text}")
            wrong = tuple(k for k, one in enumerate(roots) if np.isnan(one))
            assert root.curve.wrong == wrong


def test_an_example_of_a_loop_that_ended_for_it():
    def halved(x):
        def body(v):
            half = v / 2
            return half

        return jax.lax.while_loop(lambda v: v > 1, body, x)

    session = Session(jax.vmap(halved), (jnp.array([3.0, 9.0]),), names=True)
    session.watch()
    assert [str(session.at(k, 0)["half"][0]) for k in range(2)] == ["1.5", "0.75"]
    assert str(session.at(2, 0)["half"][0]) == NOT_RUN
    assert str(session.at(2, 1)["half"][0]) == "1.125"


def test_where_only_statistics_were_kept_an_example_is_not_told_apart():
    def f(x):
        wide = x * jnp.ones(100)
        return wide

    recording = taxpr.watch(jax.vmap(f), keep="stats")(jnp.arange(4.0))
    values = ValuesAt(recording).at(example=1)  # the numbers of `x` take no more than statistics
    assert str(values["x"][0]) == "1"
    assert str(values["wide"][0]) == "all examples: 1.5 ± 1.12 (0 … 3)"


def test_vmaps_of_other_sizes_are_not_mixed_up():
    def f(xs, ys):
        def doubled(x):
            one = x * 2
            return one

        def tripled(y):
            other = y * 3
            return other

        return jax.vmap(doubled)(xs), jax.vmap(tripled)(ys)

    session = Session(f, (jnp.arange(2.0), jnp.arange(3.0)), names=True)
    session.watch()
    values = session.at(example=1)
    assert str(values["one"][0]) == "2"
    assert values["other"][0].words == "all examples: 3 ± 2.45"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"iteration": 3}, "There is no iteration 3: there are 3, from 0; None means all of them"),
        ({"iteration": -1}, "There is no iteration -1: there are 3"),
        ({"iteration": True}, "There is no iteration True: there are 3"),
        ({"iteration": "a"}, "There is no iteration 'a': there are 3"),
        ({"example": 0}, "There is no example 0: no value is in a jax.vmap, or only statistics"),
    ],
)
def test_a_cursor_that_is_nowhere_is_refused(session, given, message):
    session.watch()
    before = session.at(iteration=1)
    with pytest.raises(PanelError, match=message):
        session.at(**given)
    assert session.recorded is before


def test_nothing_is_shown_of_a_program_that_is_another_now(session):
    with pytest.raises(PanelError, match="Nothing is recorded of the program as it is"):
        session.at()
    session.watch()
    session.at(iteration=1)
    [last] = [one.address for one in session.program.variables() if one.name == "vector"]
    session.attach(last, "scale", factor=2.0)
    assert session.recorded is None
    session.watch()
    assert session.recorded.iteration == 1  # the cursor stays
    assert session.recorded.changed
    with pytest.raises(PanelError, match="has no 'nothing'"):
        session.recorded["nothing"]


def test_with_a_line_typed_over_each_value_is_of_its_own_variable(tmp_path, monkeypatch):
    """The same addresses are other values in the program without the change."""
    (tmp_path / "typed.py").write_text(
        "def f(x):\n    y = x + 1.0\n    z = y * 2.0\n    return z\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import typed

    session = Session(typed.f, (jnp.ones(3),), names=True)
    session.edit("typed.py:2", "(x * 5.0 - 2.0) * x")
    view = view_for(session)

    def chips(injectors):
        message = {
            "do": "record",
            "iteration": -1,
            "example": -1,
            "injectors": injectors,
            "cotangents": False,
        }
        view.graph._handle_custom_msg(message, [])
        assert view.wait(60)
        shown = view.graph.recorded
        assert shown["injectors"] is injectors
        names = {one.address: one.name for one in session.program.variables()}
        return {names[address]: chip["words"] for address, chip in shown["chips"].items()}

    assert chips(True) == {"x": "all 1", "y": "all 3", "z": "all 6"}
    assert chips(False) == {"x": "all 1", "y": "all 2", "z": "all 4"}
    view.close()


def test_the_panel_records_once_and_shows_each_cursor(session, monkeypatch):
    view = view_for(session)
    graph = view.graph

    def send(iteration):
        message = {
            "do": "record",
            "iteration": iteration,
            "example": -1,
            "injectors": True,
            "cotangents": False,
        }
        graph._handle_custom_msg(message, [])
        assert view.wait(60)
        return graph.recorded

    everything = send(-1)
    assert (everything["iteration"], everything["iterations"]) == (-1, 3)
    assert (everything["example"], everything["examples"]) == (-1, 0)
    assert everything["note"] == WITHOUT
    monkeypatch.setattr(Session, "watch", None)
    second = send(2)
    assert second["iteration"] == 2
    words = {at: one.words for at, one in session.recorded.at(iteration=2).chips.items()}
    assert {at: one["words"] for at, one in second["chips"].items()} == words
    assert second["chips"] != everything["chips"]
    assert set(graph.curves) == set(session.recorded.curves)
    session.at(iteration=1)  # from Python
    assert graph.recorded["iteration"] == 1


def test_nodes_give_their_own_values_and_groups_the_last_of_theirs(session):
    session.watch()
    chips = session.recorded.chips
    picture = session.picture()
    held = held_by(picture, chips)
    assert held
    for element, value in held.items():
        assert value in chips
        place = taxpr.Address(value)
        if element not in (value, place.eqn):
            assert picture.element_of(value).address == element
            assert taxpr.Address(element).home == place.home
    # Nothing that a node gives is left out.
    for node in picture.nodes:
        if node.kind == "eqn" and f"{node.address}.0" in chips:
            assert held[node.address] == f"{node.address}.0"


def test_what_cannot_be_recorded_is_said():
    session = Session(f, (XS, LIMIT), names=False)
    view = view_for(session)
    view.graph._handle_custom_msg(
        {"do": "record", "iteration": -1, "example": -1, "injectors": True, "cotangents": False}, []
    )
    assert view.wait(60)
    assert "names=True" in view.graph.message["text"]
    assert view.graph.recorded == {}
    view.close()


def layers(w, x):
    def layer(h, wi):
        z = h @ wi
        h = jnp.tanh(z)
        return h, h.mean()

    last, _ = jax.lax.scan(layer, x, w)
    error = last - 1.0
    return (error**2).mean()


def train_step(w, x):
    value, grads = jax.value_and_grad(layers)(w, x)
    new = w - 0.1 * grads
    return new, value


WEIGHTS = 0.3 * jnp.arange(48.0).reshape(3, 4, 4) / 24
INPUTS = jnp.linspace(-1.0, 1.0, 8).reshape(2, 4)


def by_hand_at_z():
    """The gradient at `z` of each layer, by what is added to it there."""

    def unrolled(more):
        h = INPUTS
        for k in range(3):
            h = jnp.tanh(h @ WEIGHTS[k] + more[k])
        return ((h - 1.0) ** 2).mean()

    return np.asarray(jax.grad(unrolled)(jnp.zeros((3, 2, 4))))


@pytest.mark.parametrize("function", [layers, train_step])
def test_a_value_has_its_cotangent_beside_it(function):
    """That of the program's result, or of the derivative that the program takes."""
    session = Session(function, (WEIGHTS, INPUTS), names=True)
    assert session.has_cotangents
    assert not session.has_recorded(False, grads=True)
    session.watch(grads=True)
    assert session.has_recorded(True, grads=True)
    expected = by_hand_at_z()
    [z] = [one.address for one in session.program.variables() if one.name == "z"]
    for k in range(3):
        values = session.at(iteration=k)
        found, [named] = values.chips[f"∂ {z}"], values["∂ z"]
        assert found == named
        assert found.words == f"{expected[k].mean():.4g} ± {expected[k].std():.3g}"
    gradient = np.asarray(jax.grad(layers)(WEIGHTS, INPUTS))
    assert values.chips["∂ in0"].words == f"{gradient.mean():.4g} ± {gradient.std():.3g}"
    assert z in values.values()
    assert not any("∂" in one for one in values.values())
    view = view_for(session)
    assert view.graph.recorded["cotangents"]
    assert view.graph.cotangents
    assert view.graph.recorded["chips"][f"∂ {z}"]["words"] == found.words
    assert f"∂ {z}" in view.graph.curves
    assert not any("∂" in one for one in view.graph.held.values())
    view.close()


def test_the_cotangent_of_an_example_is_that_of_the_whole_loss_there():
    def squared(x):
        y = x * 3.0
        return y**2

    def loss(xs):
        return jax.vmap(squared)(xs).sum()

    session = Session(loss, (jnp.array([1.0, 2.0]),), names=True)
    session.watch(grads=True)
    assert [str(session.at(example=k)["∂ y"][0]) for k in (0, 1)] == ["6", "12"]

    def each(xs):
        return jax.vmap(jax.grad(squared))(xs)

    session = Session(each, (jnp.array([1.0, 2.0]),), names=True)
    session.watch(grads=True)
    shown = session.at(example=1)
    assert str(shown["y"][0]) == "6"
    assert shown["∂ y"][0].words == "all examples: 9 ± 3"


def test_of_two_derivatives_neither_is_taken_for_the_other():
    def first(w):
        y = w * 2.0
        return (y**2).sum()

    def second(w):
        z = w * 3.0
        return (z**3).sum()

    def both(w):
        return jax.grad(first)(w), jax.grad(second)(w)

    session = Session(both, (jnp.ones(2),), names=True)
    session.watch(grads=True)
    chips = session.recorded.chips
    assert "in0" in chips
    assert "∂ in0" not in chips
    assert (str(session.recorded["∂ y"][0]), str(session.recorded["∂ z"][0])) == ("all 4", "all 27")


def test_where_there_are_no_cotangents_it_is_said():
    session = Session(lambda x: x * 2, (jnp.ones(2),), names=True)
    assert not session.has_cotangents
    session = Session(squares, (jnp.ones(2),), names=True)
    with pytest.raises(PanelError, match="squares has no cotangents: it takes no derivative, and"):
        session.watch(grads=True)


def squares(x):
    y = x * x
    return y
