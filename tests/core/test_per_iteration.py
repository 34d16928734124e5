"""Injectors with a row for each iteration of the loops around their tag, by the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE
from loops import OWN, XS, Indexed, scan_in_while, while_in_scan

import taxpr
from taxpr import tag
from taxpr._engine import iterations

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")

PROGRAMS = [
    *(pytest.param(case.fn, case.args, 2, id=case.name) for case in INJECTABLE),
    *(pytest.param(f, (XS,), steps, id=f"{f.__name__}-{steps}") for f in OWN for steps in (2, 5)),
]


@pytest.mark.spread(33)
@pytest.mark.parametrize(("fn", "args", "max_steps"), PROGRAMS)
def test_rows_are_those_of_the_iterations(fn, args, max_steps):
    p = taxpr.trace(fn)(*args)
    reference = Indexed()
    expected = reference(p.jaxpr, *args)
    names = [site.name for site in p.tags()]
    # The reference tells tags apart by name.
    chosen = [s for s in p.tags() if names.count(s.name) == 1 and not s.idle and can_count(s)]
    if not any(map(iterations.loops_around, chosen)):
        return
    options = {"per": "iteration", "max_steps": max_steps}
    watched = p.inject(
        {s: [taxpr.count(**options), *([taxpr.stats(**options)] * is_numeric(s))] for s in chosen},
        shards="stack",
    )
    out, ctx = jax.jit(watched)(watched.ctx, *args)
    loose = 2e-2 if "bf16" in fn.__name__ else 1e-4
    for a, b in zip(jax.tree.leaves(out), expected, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=loose)
    for site in chosen:
        found, *moments = (report[site.address] for report in watched.report(ctx)[site.address])
        fired = reference.seen[site.name]
        if isinstance(found, list):  # one for each device of a shard_map, of which there is one
            [found], moments = found, [of_device for [of_device] in moments]
            fired = {index[1:]: token for index, token in fired.items()}
        trips = [step.nested.trips for _, step in iterations.loops_around(site)]
        sizes = tuple(max_steps if n is None else n for n in trips)
        kept = {i: token for i, token in fired.items() if np.all(np.less(i, sizes))}
        rows = np.zeros(sizes, np.int32)
        for index in kept:
            rows[index] += 1
        assert np.array_equal(found["count"], rows)
        for report in (found, *moments):
            assert report.get("beyond") == (len(fired) - len(kept) if None in trips else None)
        for index, token in kept.items() if moments else ():
            values = np.concatenate([numbers(x).ravel() for x in jax.tree.leaves(token)])
            for name in ("mean", "max") if values.size else ():
                expected = getattr(values, name)()
                assert np.isclose(moments[0][name][index], expected, loose, 1e-5)


def can_count(site):
    """Whether a counter can be put into every loop around a site."""
    loops = [k for k, step in enumerate(site.steps) if step.local.endswith((":scan", ":while"))]
    return all(step.nested.replaceable for step in site.steps[: max(loops, default=0)])


def is_numeric(site):
    return all(jnp.issubdtype(x.dtype, np.number) for x in jax.tree.leaves(site.avals))


def numbers(x):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.abs(x) if np.iscomplexobj(x) else np.asarray(x).astype(np.float64)


BODY = "0:while/body/t0"


def twice(x):
    return jax.lax.while_loop(lambda x: x < 9, lambda x: tag(2 * x, name="x"), x)


def test_a_loop_of_unknown_length_needs_max_steps():
    message = (
        r"stats: the tag 'x' \(test_per_iteration.py:\d+ in \S+, at 0:while/body/t0\) is in the "
        r"loop while \(test_per_iteration.py:\d+ in twice, at 0:while\), and only a run can tell "
        r"how often that iterates\. .*first ones: "
        r'stats\(per="iteration", max_steps=100\); or select other tags'
    )
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(twice)(1).inject(taxpr.stats(per="iteration"))


@pytest.mark.parametrize("kind", [taxpr.count, taxpr.stats, taxpr.check_finite], ids=repr)
def test_what_per_and_max_steps_may_be(kind):
    with pytest.raises(taxpr.InjectorError, match=r"per='iter'; it is \"iteration\", for one row"):
        kind(per="iter")
    for wrong in (0, -1, 2.0, "3", True):
        with pytest.raises(taxpr.InjectorError, match=r"max_steps=.*; it is a number from 1 on"):
            kind(per="iteration", max_steps=wrong)
    with pytest.raises(taxpr.InjectorError, match=r"\(per=\"iteration\", max_steps=5\)"):
        kind(max_steps=5)
    assert repr(kind(per="iteration", max_steps=5)) == (
        f"{kind.name}(per='iteration', max_steps=5)"
    )


def test_a_loop_in_a_rule_that_is_kept_is_counted():
    @jax.custom_jvp
    def f(xs):
        return jax.lax.map(lambda x: tag(jnp.sin(x), name="s"), xs)

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(*primals) * tangents[0]))
    for custom_rules in ("keep", "drop"):
        p = taxpr.trace(f)(XS).inject(taxpr.count(per="iteration"), custom_rules=custom_rules)
        [report] = p.report(p(p.ctx, XS)[1]).values()
        assert report["count"].tolist() == [1, 1, 1]


def test_a_rule_inside_of_the_loop_is_no_obstacle():
    p = taxpr.trace(lambda xs: jax.lax.map(jax.nn.relu, xs))(XS)
    p = p.tag_at(jax.lax.max_p, name="h").inject(taxpr.stats(per="iteration"))
    [report] = p.report(p(p.ctx, XS)[1]).values()
    assert report["mean"].tolist() == XS.tolist()


def test_outside_of_loops_there_is_one_row():
    for fn in (lambda x: tag(x, name="x"), jax.vmap(lambda x: tag(x, name="x"))):
        p = taxpr.trace(fn)(XS).inject(taxpr.stats(per="iteration"))
        assert p.report(p(p.ctx, XS)[1])["t0"]["max"].tolist() == 3.0


def test_a_scan_of_no_iterations_has_no_rows():
    none = XS[:0]
    p = taxpr.trace(lambda xs: jax.lax.map(lambda x: tag(x, name="x"), xs))(none)
    p = p.inject(taxpr.stats(per="iteration"))
    assert p.report(p(p.ctx, none)[1])["0:scan/body/t0"]["mean"].shape == (0,)


def test_under_vmap_each_lane_has_its_rows():
    options = {"per": "iteration", "max_steps": 3}
    p = taxpr.trace(twice)(1).inject(taxpr.count(**options))
    xs = jnp.asarray([1, 3, 9])
    _, ctx = jax.vmap(p, in_axes=(None, 0))(p.ctx, xs)
    report = p.report(ctx)[BODY]
    assert report["count"].tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    assert report["beyond"].tolist() == [1, 0, 0]
    # Within the program the loop goes on for all lanes, and one firing is that of the batch.
    p = taxpr.trace(jax.vmap(twice))(xs).inject(taxpr.count(**options))
    report = p.report(p(p.ctx, xs)[1])[BODY]
    assert (report["count"].tolist(), int(report["beyond"])) == ([1, 1, 1], 1)


def test_each_example_has_its_rows():
    @jax.vmap
    def f(xs):
        return jax.lax.map(lambda x: tag(x, name="x"), xs)

    x = jnp.arange(6.0).reshape(2, 3)
    p = taxpr.trace(f)(x).inject(taxpr.per_example(taxpr.stats(per="iteration")))
    [report] = p.report(jax.jit(p)(p.ctx, x)[1]).values()
    assert report["mean"].tolist() == x.tolist()
    # In one loop for all of them, examples that have ended go on, as without rows.
    xs = jnp.asarray([1, 3])
    rows = taxpr.per_example(taxpr.stats(per="iteration", max_steps=2))
    p = taxpr.trace(jax.vmap(twice))(xs).inject(rows)
    report = p.report(p(p.ctx, xs)[1])[BODY]
    assert report["mean"].tolist() == [[2.0, 4.0], [6.0, 12.0]]
    assert report["beyond"].tolist() == [2, 2]


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", [while_in_scan, scan_in_while])
def test_the_rows_change_no_result_and_no_derivative(fn):
    p = taxpr.trace(fn)(XS)
    watched = p.inject([taxpr.stats(per="iteration", max_steps=2), taxpr.count()])
    through = lambda run: jax.jvp(run, (XS,), (jnp.ones_like(XS),))
    found = through(lambda xs: watched(watched.ctx, xs)[0])
    assert jax.tree.map(np.array_equal, found, through(fn)) == (True, True)


def test_gradients_go_through_loops_with_rows():
    def f(xs):
        return jax.lax.scan(lambda c, x: (tag(c * x, name="c"), None), jnp.float32(1), xs)[0]

    xs = XS + 1
    watched = taxpr.trace(f)(xs).inject(taxpr.stats(per="iteration"))
    run = jax.value_and_grad(lambda xs: watched(watched.ctx, xs), has_aux=True)
    (_, ctx), grad = jax.jit(run)(xs)
    assert np.allclose(grad, jax.grad(f)(xs))
    assert watched.report(ctx)["0:scan/body/t0"]["mean"].tolist() == jnp.cumprod(xs).tolist()


def test_devices_add_up_counts_of_iterations():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    loop = lambda xs: jax.lax.map(lambda x: tag(x, name="x"), xs)
    p = taxpr.trace(jax.shard_map(loop, mesh=mesh, in_specs=spec, out_specs=spec))(XS)
    summed = p.inject(taxpr.count(per="iteration"), shards="psum")
    [report] = summed.report(summed(summed.ctx, XS)[1]).values()
    assert report["count"].tolist() == [1, 1, 1]
    with pytest.raises(taxpr.InjectorError, match=r"stats in .* is no sum"):
        p.inject(taxpr.stats(per="iteration"), shards="psum")


def test_a_loop_whose_body_has_no_equation():
    def f(a):
        again = lambda s: tag(s[0], name="p")
        return jax.lax.while_loop(again, lambda s: (s[1], s[0]), (a, jnp.array(False)))

    counted = taxpr.trace(f)(True).inject(taxpr.count(per="iteration", max_steps=4))
    [counts] = counted.report(counted(counted.ctx, True)[1]).values()
    assert counts["count"].tolist() == [1, 1, 0, 0]
