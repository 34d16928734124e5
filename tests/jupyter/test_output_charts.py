"""Charts and relative differences of the outputs of a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taxpr_jupyter import Session
from taxpr_jupyter._runs.outputs.array_diff import compare
from taxpr_jupyter._runs.outputs.output_charts import BINS, POINTS, output_chart
from taxpr_jupyter._view.wire import results_state, summary


def test_a_relative_difference_is_that_of_the_means():
    before, after = jnp.array([1.0, -3.0, jnp.nan]), jnp.array([1.0, -4.0, jnp.nan])
    assert compare("x", before, after).relative == pytest.approx((1 / 3) / 2)  # NaN equals NaN
    assert compare("x", jnp.zeros(3), jnp.ones(3)).relative == np.inf
    assert compare("x", before, before).relative == 0
    assert compare("x", jax.random.key(0), jax.random.key(1)).relative is None


def test_a_line_is_of_means_of_neighbours():
    chart = output_chart(jnp.zeros(1000), jnp.arange(1000.0))
    assert chart.kind == "line"
    assert len(chart.before) == len(chart.after) == POINTS
    assert set(chart.before) == {0.0}
    assert chart.after == sorted(chart.after)
    assert chart.high == 999


def test_bars_count_the_elements_of_each_bin():
    values = jax.random.normal(jax.random.key(0), (40, 30))
    chart = output_chart(values, values + 1)
    counts = [np.histogram(one, BINS, (chart.low, chart.high))[0] for one in (values, values + 1)]
    most = max(one.max() for one in counts)
    np.testing.assert_allclose(chart.before, counts[0] / most, atol=1e-3)
    np.testing.assert_allclose(chart.after, counts[1] / most, atol=1e-3)


@pytest.mark.parametrize(
    "value",
    [
        jax.random.split(jax.random.key(0), 8),
        jnp.full(8, jnp.nan),
        jnp.ones(3),
        jnp.ones(8, jnp.complex64),
        np.zeros(8, jax.dtypes.float0),
    ],
    ids=["keys", "nan", "few", "complex", "float0"],
)
def test_no_chart_where_there_is_none(value):
    assert output_chart(value, value) is None


@pytest.mark.parametrize(
    "dtype", [jnp.bfloat16, jnp.float8_e4m3fn, jnp.int8, jnp.uint32, jnp.bool_]
)
def test_charts_of_other_dtypes(dtype):
    value = jnp.array([[0, 1], [1, 0]], dtype)
    assert output_chart(value, value).before[0] == 1.0


def test_what_is_not_finite_is_left_out():
    value = jnp.array([0.0, 1.0, jnp.inf, jnp.nan, 2.0])
    assert output_chart(value, value).before == [0.0, 0.5, None, None, 1.0]  # at their places


@pytest.mark.parametrize("ends", [(1e20, 1e20), (0.1, np.nextafter(0.1, 1)), (-1.7e308, 1.7e308)])
def test_bars_of_numbers_that_are_close_or_far_apart(ends):
    low, high = (np.full((2, 2), end) for end in ends)
    chart = output_chart(low, high)
    assert max(chart.before) == max(chart.after) == 1.0
    assert (chart.before == chart.after) == (ends[0] == ends[1])


def test_a_run_of_large_equal_numbers_has_a_result():
    run = Session(lambda x: x * jnp.full((2, 2), 1e20), (jnp.float32(1.0),)).run()
    assert run.error is None
    assert list(run.charts) == ["out"]


def scaled_by(factor, rest, x):
    def fun(x):
        y = x * 1.0
        return rest(y)

    session = Session(fun, (x,))
    [y] = [one for one in session.program.variables() if one.name == "y"]
    session.tag(y.address, name="y")
    session.attach("y", "scale", factor=factor)
    return session.run()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (0.0, "4 → 0 (−100 %)"),
        (10.0, "4 → 10 (+150 %)"),
        (3.0, "4 → 3 (−25 %)"),
        (4.03, "4 → 4.03 (+0.75 %)"),
        (80.0, "4 → 80 (+1,900 %)"),
        (4e6, "4 → 4e+06 (+1e+08 %)"),
        (jnp.nan, "4 → nan"),
    ],
)
def test_the_headline_of_a_run_says_the_change(after, words):
    run = scaled_by(after / 4, lambda z: z, jnp.float32(4.0))
    assert results_state(run)["headline"] == f"out {words}"


def test_where_nan_ends_nothing_changes_by_zero():
    run = scaled_by(jnp.inf, lambda z: jnp.log(z - 9.0), jnp.array([-1.0, 1.0]))
    assert summary(run) == "1 of 1 output not finite, 1 changed"


def test_a_run_has_its_loss_first():
    def fun(x):
        return {"a": jnp.sin(x), "n": jnp.int32(3), "z": jnp.sum(x)}

    run = Session(fun, (jnp.arange(6.0),)).run()
    assert run.plain
    assert run.headline.name == "out['z']"
    assert list(run.charts) == ["out['a']"]
