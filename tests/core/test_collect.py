"""`collect` in loops, by name, and what its axes are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE
from checks import assert_close
from loops import OWN, XS, Indexed, levels, while_in_scan

import taxpr
from taxpr import tag

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")

PROGRAMS = [
    *(pytest.param(case.fn, case.args, 2, id=case.name) for case in INJECTABLE),
    *(pytest.param(f, (XS,), steps, id=f"{f.__name__}-{steps}") for f in OWN for steps in (2, 5)),
]


@pytest.mark.spread(16)
@pytest.mark.parametrize(("fn", "args", "max_steps"), PROGRAMS)
def test_values_stand_at_the_iterations_in_which_they_fired(fn, args, max_steps):
    p = taxpr.trace(fn)(*args)
    reference = Indexed()
    names = [site.name for site in p.tags()]
    # the reference tells tags apart by name
    chosen = [site for site in p.tags() if names.count(site.name) == 1]
    expected = reference(p.jaxpr, *args)
    collecting = p.collect(max_steps=max_steps, stack=True)
    out, values = jax.jit(collecting)(*args)
    assert_close(jax.tree.leaves(out), expected, 2e-2 if "bf16" in fn.__name__ else 2e-5)
    assert types_of(jax.eval_shape(collecting, *args)[1]) == types_of(values)
    all_axes = p.axes(max_steps=max_steps, stack=True)
    for site in chosen:
        value, fired = values[site.name], reference.seen[site.name]
        if isinstance(value, taxpr.Steps):
            leading = value.mask.shape
            assert_total(value.count, site, len(fired))
            mask, value = value.mask, value.value
        else:
            leading = tuple(s.nested.trips for s in levels(site))
            mask = jnp.ones(leading, bool)
            if isinstance(value, taxpr.Masked):
                mask, value = np.broadcast_to(prefix(value.mask, leading), leading), value.value
        kept = {i: token for i, token in fired.items() if np.all(np.less(i, leading))}
        assert {tuple(map(int, i)) for i in np.argwhere(mask)} == set(kept)
        for index, token in kept.items():
            assert_close(jax.tree.map(lambda x, i=index: x[i], value), token)
        ranks = jax.tree.map(lambda x: ("",) * x.ndim, value)
        assert jax.tree.map(len, ranks, is_leaf=is_axes) == jax.tree.map(
            len, all_axes[site.name], is_leaf=is_axes
        )
        for leaf in jax.tree.leaves(value):
            if jnp.issubdtype(leaf.dtype, jnp.number):  # zeros where nothing fired
                assert not np.any(np.where(prefix(mask, leaf.shape), 0, leaf))


def is_axes(x):
    return type(x) is tuple and all(isinstance(name, str) for name in x)


def types_of(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


def prefix(x, leading):
    return np.asarray(x).reshape(x.shape + (1,) * (len(leading) - x.ndim))


def assert_total(count, site, expected):
    scans = [s.nested.trips for s in site.steps if s.nested.trips and s.nested.label == "body"]
    assert np.broadcast_to(prefix(count, scans), scans).sum() == expected


def test_what_does_not_fit_is_counted():
    def f(x):
        return jax.lax.while_loop(lambda c: c < 5, lambda c: tag(c + 1, name="c"), x)

    p = taxpr.trace(f)(0.0)
    found = p.collect("c", max_steps=3)(0.0)[1]["c"]
    assert found.value.tolist() == [1.0, 2.0, 3.0]
    assert (found.mask.tolist(), int(found.count)) == ([True] * 3, 5)
    found = p.collect("c", max_steps=3)(4.0)[1]["c"]
    assert found.value.tolist() == [5.0, 0.0, 0.0]
    assert (found.mask.tolist(), int(found.count)) == ([True, False, False], 1)
    assert jax.vmap(p.collect("c", max_steps=3))(jnp.arange(3.0))[1]["c"].count.tolist() == [
        5,
        4,
        3,
    ]
    # without a while loop there is nothing to limit
    assert taxpr.collect(lambda x: tag(x, name="x"), max_steps=3)(2.0)[1] == {"x": 2.0}


@pytest.mark.parametrize("max_steps", [0, -1, 2.0, "3"])
def test_max_steps_that_is_no_number_of_slots(max_steps):
    with pytest.raises(taxpr.ArgumentError, match="it is a number from 1 on, or None"):
        taxpr.trace(lambda x: tag(x, name="x"))(1.0).collect(max_steps=max_steps)


# ---- equal names -------------------------------------------------------------


def test_equal_names_are_stacked_where_they_agree():
    def f(x):
        def block(x):
            return tag(jax.lax.scan(lambda c, t: (tag(c + t, name="c"), None), x, x)[0], name="x")

        x = tag(x[:2] * 2, name="other")
        return block(tag(block(x) * 3, name="other")).sum()

    x = jnp.arange(3.0)
    with pytest.raises(taxpr.SelectorError, match=r"two tags have the name .* stack=True"):
        taxpr.collect(f)(x)
    _, values = jax.jit(taxpr.collect(f, stack=True))(x)
    assert {name: v.shape for name, v in values.items()} == {
        "c": (2, 2, 2),
        "x": (2, 2),
        "other": (2, 2),
    }
    assert values["other"].tolist() == [[0.0, 2.0], [6.0, 12.0]]
    axes = taxpr.trace(f)(x).axes(stack=True)
    assert axes["x"] == ("stack", "token 0")
    kind, loop, own = axes["c"]
    assert (kind, own) == ("stack", "token 0")
    assert len(loop.split(" | ")) == 2


def test_equal_names_that_do_not_agree_are_a_tuple():
    def f(x):
        y = jax.lax.cond(x.sum() > 0, lambda x: tag(x, name="h"), lambda x: x, x)
        return tag(y.sum(), name="h") + tag({"n": jnp.int32(1)}, name="n")["n"].astype(x.dtype)

    x = jnp.ones(2)
    _, values = taxpr.collect(f, stack=True)(x)
    masked, total = values["h"]
    assert bool(masked.mask)
    assert total == 2.0
    assert values["n"] == {"n": 1}
    axes = taxpr.trace(f)(x).axes(stack=True)
    assert axes == {"h": (("token 0",), ()), "n": {"n": ()}}


def test_equal_names_in_the_branches_of_a_cond():
    def f(x):
        return jax.lax.cond(x > 0, lambda x: tag(x, name="b"), lambda x: tag(-x, name="b"), x)

    found = taxpr.collect(f, stack=True)(3.0)[1]["b"]
    assert isinstance(found, taxpr.Masked)
    assert sorted(found.mask.tolist()) == [False, True]
    assert float(found.value.sum()) == 3.0


# ---- axes --------------------------------------------------------------------


def test_axes_of_vmaps_stand_where_the_data_has_them():
    def f(x, w):
        inner = jax.vmap(lambda a, w: tag({"a": a, "w": w}, name="h")["a"], in_axes=(1, None))
        return jax.lax.map(lambda x: jax.vmap(inner, in_axes=(0, 0))(x, w), x)

    x, w = jnp.zeros((7, 5, 2, 3)), jnp.zeros((5, 4))
    p = taxpr.trace(f)(x, w)
    axes = p.axes()["h"]
    shapes = jax.eval_shape(p.collect(), x, w)[1]["h"]
    sizes = {"0:scan": 7, "vmap 0": 5, "vmap 1": 3}
    for name, own in (("a", 2), ("w", 4)):
        assert tuple(sizes.get(axis, own) for axis in axes[name]) == shapes[name].shape
    assert "vmap 1" not in axes["w"]


def test_axes_of_while_loops_are_there_with_max_steps():
    p = taxpr.trace(while_in_scan)(XS)
    [scan] = {address for site in p.tags() for address in site.chain[:1]}
    assert p.axes("cond") == {"cond": (scan,)}
    found = p.axes("body", max_steps=4)["body"]
    assert found["c"] == found["n"]
    assert found["c"][0] == scan
    assert found["c"][1].startswith(f"{scan}/body/")


def test_a_tag_of_a_rule_and_another_of_its_name_elsewhere():
    @jax.custom_vjp
    def sin(x):
        return jnp.sin(x)

    sin.defvjp(lambda x: (taxpr.tag(jnp.sin(x), name="h"), x), lambda x, g: (g * jnp.cos(x),))

    def run(f, stack):
        program = taxpr.trace(f)(1.0)
        both = jax.value_and_grad(lambda x: program.collect("h", stack=stack)(x), has_aux=True)
        return both(1.0)[0][1]["h"]

    plain_first = lambda x: taxpr.tag(x * 2, name="h") + sin(x)
    rule_first = lambda x: sin(x) + taxpr.tag(x * 2, name="h")
    for f in (plain_first, rule_first):
        with pytest.raises(taxpr.SelectorError, match=r"two tags have the name 'h'.*stack=True"):
            run(f, stack=False)
    plain, of_rule = run(plain_first, stack=True)
    assert (plain, of_rule.mask) == (2.0, True)
    np.testing.assert_allclose(of_rule.value, np.sin(1.0), rtol=1e-6)
    of_rule, plain = run(rule_first, stack=True)
    assert (plain, of_rule.mask) == (2.0, True)
    np.testing.assert_allclose(of_rule.value, np.sin(1.0), rtol=1e-6)


def test_a_rule_has_the_tag_of_what_it_stands_for():
    @jax.custom_vjp
    def sin(x):
        return taxpr.tag(jnp.sin(x), name="h")

    def fwd(x):
        return taxpr.tag(jnp.sin(x), name="h", more=1), x  # other params: another tag

    sin.defvjp(fwd, lambda x, g: (g * jnp.cos(x),))
    program = taxpr.trace(sin)(1.0)
    assert len(program.tags()) == 2
    np.testing.assert_allclose(program.collect("h")(1.0)[1]["h"], np.sin(1.0), rtol=1e-6)
    plain, of_rule = program.collect("h", stack=True)(1.0)[1]["h"]
    assert not of_rule.mask
    np.testing.assert_allclose(plain, np.sin(1.0), rtol=1e-6)


# ---- many branches -----------------------------------------------------------


def many(n):
    """A switch of n branches, each with tags of its own: two of one type, one of another."""

    def branch(k):
        def run(x):
            a, b = tag(x * (k + 1), name=f"a{k}"), tag(x - k, name=f"b{k}")
            whole = tag(jnp.int32(k) + jnp.arange(2), name=f"c{k}") if k % 2 else jnp.zeros(2)
            return a * b + whole.sum().astype(x.dtype)

        return run

    return lambda index, x: jax.lax.switch(index, [branch(k) for k in range(n)], x)


@pytest.mark.slow
def test_each_branch_of_a_switch_hands_out_its_own():
    n, x = 5, jnp.float32(0.7)
    f = many(n)
    for index in range(n):
        out, values = jax.jit(taxpr.collect(f))(index, x)
        np.testing.assert_allclose(out, f(index, x))
        assert set(values) == {f"{c}{k}" for c in "abc" for k in range(n) if c != "c" or k % 2}
        for name, (value, mask) in values.items():
            k, ran = int(name[1:]), int(name[1:]) == index
            want = {"a": x * (k + 1), "b": x - k, "c": k + jnp.arange(2)}[name[0]]
            assert mask == ran
            np.testing.assert_allclose(value, want if ran else jnp.zeros_like(want))


@pytest.mark.slow
def test_branches_of_a_switch_in_a_loop_and_their_derivatives():
    f, n = many(3), 3
    order, x = jnp.asarray([2, 0, 1, 1, 0]), jnp.float32(0.7)

    def loop(x):
        return jax.lax.scan(lambda c, k: (jnp.tanh(f(k, c)), None), x, order)[0]

    out, values = taxpr.collect(loop)(x)
    carries = [x]
    for k in order:
        carries.append(jnp.tanh(f(k, carries[-1])))
    np.testing.assert_allclose(out, carries[-1], rtol=1e-5)
    for k in range(n):
        value, mask = values[f"a{k}"]
        np.testing.assert_array_equal(mask, order == k)
        want = [c * (k + 1) if one == k else 0 for c, one in zip(carries, order, strict=False)]
        np.testing.assert_allclose(value, jnp.stack(list(map(jnp.float32, want))), rtol=1e-5)

    for index in range(n):

        def handed_out(x, index=index):
            values = taxpr.collect(f)(index, x)[1]
            return [(values[f"a{k}"].value, values[f"b{k}"].value) for k in range(n)]

        want = [((k + 1) * (k == index), 1 * (k == index)) for k in range(n)]
        assert jax.jacrev(handed_out)(x) == want
        assert jax.jacfwd(handed_out)(x) == want


def test_what_a_branch_hands_out_does_not_grow_with_the_branches():
    def results(n):
        program = taxpr.trace(many(n))(0, 0.7).collect()
        [switch] = [eqn for eqn in program.eqns if "branches" in eqn.params]
        return len(switch.outvars)

    assert results(4) == results(12)
