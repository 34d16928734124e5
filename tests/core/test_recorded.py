"""What a recording kept by one name is an array to use; several values say how to choose one."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import ArgumentError

X = jnp.arange(6.0).reshape(2, 3)


def growing(x):
    h = x
    for _ in range(2):
        h = jnp.concatenate([h, x])
    new = jnp.sin(x) + 2
    flag = new > 0
    count = jnp.argmax(x[:, 0]) + 1
    both = {"a": x, "b": new.sum()}
    return h.sum() + both["b"], jnp.where(flag, count, 0)


REC = taxpr.watch(growing)(X)
NEW = REC["new"].value


def test_a_value_is_indexed_and_computed_with_as_its_array():
    new = REC["new"]
    for got, wanted in [
        (new[1], NEW[1]),
        (new[0, 1:], NEW[0, 1:]),
        (new[..., None], NEW[..., None]),
        (new[REC["flag"]], NEW[NEW > 0]),
        (new + 1, NEW + 1),
        (1 - new, 1 - NEW),
        (new * new, NEW * NEW),
        (2**new, 2**NEW),
        (new @ X.T, NEW @ X.T),
        (X + new, X + NEW),
        (np.ones((2, 3), np.float32) + new, NEW + 1),
        (-new, -NEW),
        (abs(new), NEW),
        (~REC["flag"], NEW <= 0),
        (new // 2, NEW // 2),
        (new == NEW, NEW == NEW),
        (new != NEW, NEW != NEW),
        (new < 2.5, NEW < 2.5),
        (jnp.sin(new), jnp.sin(NEW)),
        (np.sin(new), np.sin(NEW)),
        (jnp.asarray(new), NEW),
        (new.mean(), NEW.mean()),
        (new.T, NEW.T),
        (new.reshape(-1), NEW.reshape(-1)),
        (jnp.stack(list(new)), NEW),
        (jax.jit(lambda x: x * 2)(new), NEW * 2),
        (jax.grad(lambda x: (x**2).sum())(new), NEW * 2),
        (jax.vmap(lambda x: x.sum())(new), NEW.sum(1)),
        (taxpr.watch(growing)(REC["x"])["new"], NEW),
    ]:
        assert jnp.array_equal(got, wanted)
    assert (new.shape, new.ndim, new.size, new.dtype, len(new)) == ((2, 3), 2, 6, jnp.float32, 2)
    assert new.value.shape == new.shape
    assert new.at(0) is new.value


def test_an_element_is_set_as_that_of_an_array():
    new, count = REC["new"], REC["count"]
    assert jnp.array_equal(new.at[0].set(1.0), NEW.at[0].set(1.0))
    assert jnp.array_equal(new.at[0, 1:].add(new[1, 1:]), NEW.at[0, 1:].add(NEW[1, 1:]))
    assert jnp.array_equal(new.at[count - 2].multiply(2), NEW.at[0].multiply(2))
    assert jnp.array_equal(new.at[0, count].get(), NEW[0, 2])


def test_a_number_is_a_number():
    one = REC["both['b']"]
    assert float(one) == float(one.value) == one.item()
    assert f"{one:.2f}" == f"{one.value:.2f}"
    assert int(REC["count"]) == range(9)[REC["count"]] == 2
    assert complex(one) == complex(one.value)
    assert bool(one)
    assert one == one.value
    with pytest.raises(TypeError):  # as of the array itself
        len(one)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(REC["new"])


def test_it_has_no_other_attributes_and_is_copied():
    with pytest.raises(AttributeError, match="'Recorded' object has no attribute 'meen'"):
        REC["new"].meen  # noqa: B018
    assert copy.copy(REC["new"]).shape == (2, 3)
    assert len({REC["new"], REC["new"]}) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda h: h.shape,
        lambda h: h.dtype,
        lambda h: h.ndim,
        lambda h: h.size,
        lambda h: h[0],
        lambda h: h.at[0].set(1),
        lambda h: h + 1,
        lambda h: 1 + h,
        lambda h: h == 1,
        len,
        float,
        jnp.sin,
        np.asarray,
        lambda h: h.mean(),
    ],
)
def test_several_values_say_how_one_is_chosen(use):
    with pytest.raises(
        ArgumentError,
        match=r"h is 3 arrays of different shapes, .*float32\[2, 3\] test_recorded\.py:\d+, float32"
        r"\[4, 3\] .*\.at\(k\), where k is 0, 1, 2; all of them are the tuple \.value",
    ):
        use(REC["h"])
    with pytest.raises(ArgumentError, match=r"both is 2 arrays .*rec\[\"both\['a'\]\"\]; .* dict"):
        use(REC["both"])


def test_one_of_several_values():
    assert [REC["h"].at(k).shape for k in range(3)] == [(2, 3), (4, 3), (6, 3)]
    assert [one.shape for one in REC["h"].value] == [(2, 3), (4, 3), (6, 3)]
    with pytest.raises(ArgumentError, match=r"at: occurrence 3: h has 3 values, from 0"):
        REC["h"].at(3)
    with pytest.raises(ArgumentError, match=r"at: occurrence 'a': h has 3 values, from 0"):
        REC["h"].at("a")


def test_a_value_is_listed_as_its_array():
    assert REC["new"].tolist() == NEW.tolist()


def test_values_of_one_shape_are_one_array():
    def f(x):
        for _ in range(2):
            x = jnp.sin(x)
        return x

    x = taxpr.watch(f)(X)["x"]
    assert x.shape == x.value.shape == (3, 2, 3)
    assert jnp.array_equal(x[-1], jnp.sin(jnp.sin(X)))
    assert jnp.array_equal(x.at(1), jnp.sin(X))


def test_the_number_of_an_iteration_is_given_by_its_keyword():
    def f(xs):
        def step(c, x):
            d = c + x
            return d, None

        return jax.lax.scan(step, 0.0, xs)[0]

    d = taxpr.watch(f)(jnp.arange(4.0))["d"]
    assert (d[2], d.at(step=2), d.shape) == (3, 3, (4,))
    with pytest.raises(ArgumentError, match=r"d has 1 value, from 0. An iteration is at\(step=3\)"):
        d.at(3)
    for step in ("a", (1, 2), 4, 1.0, True):
        with pytest.raises(ArgumentError, match=r"d has 4 iterations"):
            d.at(step=step)


def test_statistics_alone_have_a_shape_and_no_values():
    one = taxpr.watch(growing, keep="stats")(X)["new"]
    assert (one.shape, one.dtype) == ((2, 3), jnp.float32)
    with pytest.raises(ArgumentError, match="only statistics"):
        one + 1


@pytest.mark.parametrize("line", [("model.py",), ("model.py:",), (3,), ("a.py", "b"), (None, 3)])
def test_a_line_without_a_number(line):
    with pytest.raises(ArgumentError, match=r"at_line: .* is no line of a file.*at_line\('model"):
        REC.at_line(*line)
