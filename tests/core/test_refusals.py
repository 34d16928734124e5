"""Every refusal of a higher-order primitive has a reason of its own, and says it."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases_hops import found
from checks import assert_close, check_types
from jax import lax
from reference import Reference

import taxpr
from taxpr import _compat, tag
from taxpr._errors import name_of
from taxpr._hops.table import registered

V = np.asarray([0.3, -0.8, 1.1], np.float32)
COMBINER = "its jaxpr combines pairs of elements, and XLA chooses their order"
PENDING = "it is a derivative that JAX has yet to transpose"
REASONS = {
    **{p.name: COMBINER for p in (*_compat.combiners, _compat.scatter_p)},
    "pallas_call": "its jaxpr is a kernel, whose instances run side by side",
    "core_map": "each core of the device runs its jaxpr, side by side with the others",
    "mpmd_map": "its jaxprs are kernels, which run side by side",
    "run_scoped": "it is a part of a kernel, and its memory exists only in there",
    "call_hi_primitive_linearized": PENDING,
}
KINDS = {name_of(kind): kind for kind in registered()}


def test_every_refusal_is_here_or_in_the_shared_table():
    refused = {name for name, kind in KINDS.items() if registered()[kind].refusal}
    in_table = {"shard_map", "xla_pmap", "custom_jvp_call", "custom_vjp_call"}
    in_test_until_error = {"failed", "unfinished"}
    assert refused <= set(REASONS) | in_table | in_test_until_error | set(HIJAX)


@pytest.mark.parametrize("name", [name for name in REASONS if name in KINDS])
def test_it_is_refused_for_its_own_reason(name):
    """With an equation made up, since most of them need a machine of their own."""
    inner = jax.make_jaxpr(lambda x: tag(x * 2, name="in there"))(V)
    outer = jax.make_jaxpr(lambda v: tag(v, name="a place"))(V)
    [eqn] = _compat.open_jaxpr(outer).eqns
    eqn = eqn.replace(primitive=KINDS[name], params={"jaxpr": _compat.open_jaxpr(inner)})
    jaxpr = _compat.rebuilt(outer, eqns=[eqn])
    assert [site.address for site in taxpr.find_tags(jaxpr)] == [f"0:{name}/jaxpr/t0"]
    with pytest.raises(taxpr.RefusedError, match=f"does not inject into {name}: {REASONS[name]}"):
        taxpr.inject(jaxpr, lambda c, t, p: (t, c), ())


def window(v):
    def pair(a, b):
        return tag(a + b * b, name="in there")

    return lax.reduce_window(v, np.float32(0), pair, (2,), (1,), "VALID")


def kernel(v):
    pallas = pytest.importorskip("jax.experimental.pallas")

    def body(x_ref, o_ref):
        o_ref[...] = tag(x_ref[...] * 2, name="in there")

    return pallas.pallas_call(body, out_shape=jax.ShapeDtypeStruct(v.shape, v.dtype))(v)


@pytest.mark.parametrize(("fn", "name"), [(window, "reduce_window"), (kernel, "pallas_call")])
def test_it_is_refused_where_jax_makes_one(fn, name):
    with pytest.raises(taxpr.RefusedError, match=f"does not inject into {name}: {REASONS[name]}"):
        taxpr.trace(fn)(V).inject(taxpr.count())


def test_callbacks_hold_no_tags():
    """Their functions run in Python, where a tag is the identity and leaves nothing to find."""

    def on_host(v):
        return np.asarray(v) * 2

    def f(v):
        shape = jax.ShapeDtypeStruct((3,), np.float32)
        return tag(jax.pure_callback(on_host, shape, tag(v, name="before")), name="after")

    program = taxpr.trace(f)(V)
    assert [site.name for site in program.tags()] == ["before", "after"]
    injected = program.inject(taxpr.scale(3.0))
    assert_close(injected(injected.ctx, V)[0], 18 * V)


# ---- what the flags of JAX for hijax make, from 0.12 -------------------------

HIJAX = {
    "CustomJVPTraced": "made by the flag jax_custom_jvp3, .* an ordinary custom_jvp",
    "CustomVJPTraced": "made by the flag jax_custom_vjp3, .* an ordinary custom_vjp",
    "Scan3": "jax_scan3 makes a loop that this JAX has not finished",
}
new_only = pytest.mark.skipif("CustomJVPTraced" not in KINDS, reason="from 0.12")


@pytest.fixture
def flag():
    switched = []

    def switch(name):
        if not hasattr(jax.config, name):
            pytest.skip("this JAX has no such flag")
        jax.config.update(name, True)
        switched.append(name)

    yield switch
    for name in switched:
        jax.config.update(name, False)


def with_jvp(v):
    @jax.custom_jvp
    def f(x):
        return tag(jnp.sin(x), name="t")

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(v)


def with_vjp(v):
    @jax.custom_vjp
    def f(x):
        return tag(jnp.sin(x), name="t")

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    return f(v)


def with_scan(v):
    return lax.scan(lambda c, x: (tag(c + x, name="t"), c), jnp.float32(0), v)


@pytest.mark.parametrize(
    ("switch", "fn", "reason"),
    [
        ("jax_custom_jvp3", with_jvp, HIJAX["CustomJVPTraced"]),
        ("jax_custom_vjp3", with_vjp, HIJAX["CustomVJPTraced"]),
        ("jax_custom_vjp3", jax.vmap(with_vjp), f"{HIJAX['CustomVJPTraced']}|no rule for this"),
        ("jax_scan3", with_scan, HIJAX["Scan3"]),
    ],
)
def test_what_a_flag_makes_is_walked_and_refused(flag, switch, fn, reason):
    flag(switch)
    jaxpr = jax.make_jaxpr(fn)(V)
    sites = taxpr.find_tags(jaxpr)
    assert {site.name for site in sites} == {"t"}
    with pytest.raises(taxpr.RefusedError, match=f"into call_hi_primitive: .*({reason})"):
        taxpr.inject(jaxpr, lambda c, t, p: (t, c), ())


@new_only
def test_an_unknown_hijax_class_is_refused(flag):
    hijax = found("jax.experimental", "hijax") or found("jax._src", "hijax")
    inner = jax.make_jaxpr(lambda x: tag(x * 2, name="in there"))(V)

    class Unknown(hijax.HiPrim):
        def __init__(self):
            self.in_avals, self.out_aval = (jax.typeof(V),), jax.typeof(V)
            self.params = {"body": inner}
            super().__init__()

    jaxpr = jax.make_jaxpr(Unknown())(V)
    assert [s.address for s in taxpr.find_tags(jaxpr)] == ["0:call_hi_primitive/body/t0"]
    with pytest.raises(taxpr.RefusedError, match="call_hi_primitive: taxpr has no rule for this"):
        taxpr.inject(jaxpr, lambda c, t, p: (t, c), ())


@pytest.mark.spread(2)
@pytest.mark.parametrize("cse", [True, False, (False,)], ids=str)
def test_the_remat_of_the_flag_is_injected(flag, cse):
    flag("jax_remat3")
    w = jnp.arange(3.0)

    def mixing(s, token, params):
        return token * 1.5 + s, s * 0.5 + token.mean()

    def f(v):
        def body(v):
            return jnp.sin(tag(v * w, name="r")) * w

        return jax.checkpoint(body, prevent_cse=cse)(tag(v, name="before"))

    jaxpr = jax.make_jaxpr(f)(V)
    assert [s.address for s in taxpr.find_tags(jaxpr)] == ["t0", "0:call_hi_primitive/call/t0"]
    new = taxpr.inject(jaxpr, mixing, jnp.float32(0))
    check_types(new)
    [eqn] = [e for e in _compat.open_jaxpr(new).eqns if taxpr.is_hop(e)]
    assert type(eqn.params["_prim"]) is _compat.RematTraced
    program = taxpr.trace(f)(V)
    message = "keeps hidden, and which cannot be replaced"
    hidden = [v.address for v in taxpr.find_values(program) if "call_hi_primitive/" in v.address]
    skipped = program.tag_at("*", name="every value").skipped
    found = [one for one in skipped if "is hidden, and cannot be replaced" in one.reason]
    assert sum(len(one.addresses) for one in found) == len(hidden) > 0
    for address in hidden:
        with pytest.raises(taxpr.RefusedError, match=message):
            program.tag_at(address, name="added")
    with pytest.raises(taxpr.RefusedError, match=message):
        taxpr.dissolve_tags(jaxpr)

    def ours(s, v):
        return jex.jaxpr_as_fun(new)(s, v)

    def theirs(s, v):
        reference = Reference(mixing, s)
        return [*reference(jaxpr, v), reference.ctx]

    at = (jnp.float32(0.3), V)
    assert_close(ours(*at), theirs(*at))
    assert_close(jax.jit(ours)(*at), theirs(*at))
    for argnum in (0, 1):
        grads = [
            jax.grad(lambda *at, g=g: sum(map(jnp.sum, g(*at))), argnum)(*at)
            for g in (ours, theirs)
        ]
        assert_close(*grads)
    assert_close(jax.vmap(lambda s: ours(s, V))(jnp.arange(2.0))[1][1], theirs(1.0, V)[1])
