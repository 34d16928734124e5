"""What variables held in a run, beside the lines of the source."""

import jax
import jax.numpy as jnp
import pytest

from taxpr_jupyter import Session
from taxpr_jupyter._lines.values import NOT_RUN, LineValues
from taxpr_jupyter._view.parts.sourcing import WITHOUT
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


def test_texts_are_those_of_what_python_computes(session):
    inner, totals, halves = as_python()
    at = {f"{one.name} {one.occurrence}": one.address for one in session.program.variables()}
    values = LineValues(session.watch())
    assert values.steps == len(XS) > len(halves) > 0
    for step in range(values.steps):
        texts = values.texts(step)
        low, high = sorted(inner[step])
        assert texts[at["t 0"]] == f"{low:.4g} … {high:.4g}, mean {sum(inner[step]) / 2:.4g}"
        assert texts[at["total 1"]] == f"{totals[step]:.4g}"
        half = f"{halves[step]:.4g}" if step < len(halves) else NOT_RUN
        assert texts[at["half 0"]] == half
        taken = inner[step][-1] > LIMIT
        assert texts[at["wrong 0"]] == ("+inf" if taken else NOT_RUN)
        assert texts[at["vector 0"]] == values.texts()[at["vector 0"]]
    low, high = totals[-1], 3 * totals[-1]
    assert values.texts()[at["vector 0"]] == (
        f"{low:.4g} … {high:.4g}, mean {(low + high) / 2:.4g}, 33.3% +inf"
    )


def test_the_panel_records_once_and_shows_each_iteration(session):
    view = view_for(session)
    graph = view.graph

    def send(step):
        graph._handle_custom_msg({"do": "record", "step": step, "injectors": True}, [])
        assert view.wait(60)
        return graph.source_values

    everything = send(-1)
    assert (everything["step"], everything["steps"]) == (-1, 3)
    assert everything["note"] == WITHOUT
    assert send(2)["texts"] == LineValues(session.watch()).texts(2) != everything["texts"]


def test_what_cannot_be_recorded_is_said():
    session = Session(f, (XS, LIMIT), names=False)
    view = view_for(session)
    view.graph._handle_custom_msg({"do": "record", "step": -1, "injectors": True}, [])
    assert view.wait(60)
    assert "names=True" in view.graph.message["text"]
    assert view.graph.source_values == {}
    view.close()
