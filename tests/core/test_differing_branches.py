"""`first_difference` of runs that take other branches, or have other numbers of iterations."""

import json

import jax
import jax.numpy as jnp
import pytest

from taxpr import first_difference

XS = jnp.arange(7.0)


def tripled(v):
    big = v * 3
    return big


def lowered(v):
    small = v - 1
    return small


def halved(v):
    big = v * 0.5
    return big


def raised(v):
    small = v + 1
    return small


def looping(limit, *, named):
    """Of a while loop, with branches in it."""

    def f(x):
        def body(state):
            k, v = state
            if named:
                hot = v > limit
                v = jax.lax.cond(hot, halved, raised, v)
            else:
                v = jax.lax.cond(v > limit, halved, raised, v)
            return k + 1, v

        _, v = jax.lax.while_loop(lambda state: state[0] < 7, body, (0, x))
        return v

    return f


def scanning(limit):
    def f(xs):
        def body(c, x):
            score = x * 2
            up = jax.lax.cond(score > limit, tripled, lowered, x)
            c = c + up
            return c, up

        last, _ = jax.lax.scan(body, jnp.float32(0), xs)
        return last

    return f


def switching(more):
    def f(x):
        k = jnp.int32(x)
        y = jax.lax.switch(k % 3 + more, [raised, tripled, lowered], x)
        return y

    return f


def said(row):
    return row.variable, row.iteration, row.what


@pytest.mark.parametrize("named", [True, False])
def test_a_branch_that_one_run_never_takes_comes_where_they_part(named):
    limits = 100.0, 4.0  # 1, 2, 3, 4, 5 and then half of it
    for turned in (False, True):
        one, two = (looping(limit, named=named) for limit in limits[:: -1 if turned else 1])
        found = first_difference(one, two)(jnp.float32(1))
        predicate = "hot" if named else "0:while/body/0:gt.0"
        assert said(found.first) == (predicate, (4,), "")
        assert (bool(found.first.a), bool(found.first.b)) == (turned, not turned)
        rows = {row.variable: row for row in found.rows}
        small = "in this iteration, ran {} times in all".format("6 and 7" if turned else "7 and 6")
        big = "ran {} times".format("1 and 0" if turned else "0 and 1")
        both = ("small", f" {small}"), ("big", f", {big}")
        for of, (name, times) in zip("ba" if turned else "ab", both, strict=True):
            assert said(rows[name]) == (name, (4,), f"was computed in {of} only{times}")
            assert rows[name].difference is None
        assert json.loads(found.to_json())["rows"][1]["difference"] is None
        assert "nan" not in str(found)
        assert found.chart().text()
        assert "<svg" in found._repr_mimebundle_()["text/html"]


def test_what_runs_first_in_one_and_then_never_is_counted():
    found = first_difference(looping(100.0, named=True), looping(0.0, named=True))(jnp.float32(7.5))
    rows = {row.variable: said(row) for row in found.rows}
    assert found.first.variable == "hot"
    both = rows["small"], rows["big"]
    assert both == (("small", (0,), "ran 7 and 0 times"), ("big", (0,), "ran 0 and 7 times"))


def test_what_chooses_a_branch_comes_first_where_no_variable_holds_it():
    found = first_difference(scanning(100.0), scanning(5.0))(XS)
    assert said(found.first) == ("0:scan/body/1:gt.0", (3,), "")
    assert found.first.statement.startswith("up = jax.lax.cond(score > limit")
    rows = {row.variable: row.what for row in found.rows}
    assert rows["small"] == "ran 7 and 3 times"
    assert rows["big"] == "was computed in b only, ran 0 and 4 times"
    found = first_difference(switching(0), switching(1))(jnp.float32(1))
    assert [row.variable for row in found.rows[:1]] == ["2:add.0"]
    assert (found.first.a, found.first.b, found.first.difference) == (1, 2, 1.0)
    assert "was computed in a only" in {row.what for row in found.rows}


def test_what_chooses_the_same_branch_is_no_difference():
    found = first_difference(scanning(5.0), scanning(5.5))(XS)
    assert not found
    assert "Values in one of them only" not in str(found)


def test_inner_loops_are_counted_where_they_part():
    def of(limit):
        def f(xs):
            def body(c, x):
                def doubled(v):
                    w = v * 2
                    return w

                y = jax.lax.while_loop(lambda v: v < limit, doubled, x)
                return c + y, y

            return jax.lax.scan(body, jnp.float32(0), xs)

        return f

    found = first_difference(of(10.0), of(17.0))(jnp.asarray([9.0, 4.5, 3.0]))
    rows = {row.variable: row for row in found.rows}
    assert said(rows["w"]) == ("w", (2, 2), "ran 2 and 3 times")
    assert found.first.iteration == (2, 2)
