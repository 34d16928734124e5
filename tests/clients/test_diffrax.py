"""Differential equations solved by diffrax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from client_checks import all_of, assert_same_bits, check_identity, check_scale, values
from real_programs import diffrax_solution as solution

import taxpr

Y0 = jax.random.normal(jax.random.key(1), (8,))


def solved(adjoint):
    return lambda y0: solution(y0, adjoint).ys


ADJOINTS = [
    diffrax.RecursiveCheckpointAdjoint(),
    diffrax.DirectAdjoint(),
    diffrax.ForwardMode(),
]
adjoints = pytest.mark.parametrize("adjoint", ADJOINTS, ids=lambda a: type(a).__name__)


@pytest.mark.spread(2)
@adjoints
def test_a_solution(adjoint):
    check_identity(solved(adjoint), Y0)


@pytest.mark.slow
def test_a_gradient_by_checkpoints():
    check_identity(jax.grad(lambda y0: jnp.sum(solved(ADJOINTS[0])(y0) ** 2)), Y0)


@pytest.mark.slow
def test_a_gradient_through_the_solver():
    check_identity(jax.grad(lambda y0: jnp.sum(solved(ADJOINTS[1])(y0) ** 2)), Y0)


def test_a_forward_derivative():
    solve = solved(diffrax.ForwardMode())
    check_identity(lambda y0: jax.jvp(solve, (y0,), (jnp.ones(8),)), Y0)


@pytest.mark.spread(2)
@adjoints
def test_a_factor_in_the_field_does_what_inject_does(adjoint):
    def edited(factor, y0):
        return solution(y0, adjoint, factor).ys

    plain = solved(adjoint)
    program = taxpr.trace(plain)(Y0)
    (site,) = all_of(program, "tanh")
    if within_reach(program, site):
        # A solve by checkpoints has a derivative of its own, which runs the field anew: a rule
        # that is kept. Forward mode has no reverse derivative.
        reverse = isinstance(adjoint, diffrax.DirectAdjoint)
        check_scale(plain, edited, (Y0,), [site], gradient=reverse)


@pytest.mark.spread(2)
@adjoints
def test_a_tag_fires_as_often_as_the_field_is_evaluated(adjoint):
    program = taxpr.trace(lambda y0: solution(y0, adjoint).stats["num_steps"])(Y0)
    (site,) = all_of(program, "tanh")
    if within_reach(program, site):
        injected = program.tag_at(site, name="slope").inject(count, 0)
        steps, fired = jax.jit(injected)(injected.ctx, Y0)
        # Tsit5 has seven stages, and the last one of a step is the first of the next.
        assert fired == 1 + 6 * steps > 7


def tagged(y0):
    """The sum of squares of a solution by the default adjoint, whose field is tagged."""
    field = diffrax.ODETerm(lambda t, y, args: taxpr.tag(jnp.tanh(y), name="slope"))
    control = diffrax.PIDController(rtol=1e-3, atol=1e-4)
    solution = diffrax.diffeqsolve(
        field, diffrax.Tsit5(), 0.0, 1.0, 0.1, y0, stepsize_controller=control, max_steps=16
    )
    return jnp.sum(solution.ys**2)


@pytest.mark.slow
def test_what_looks_into_the_field_leaves_the_gradient_by_checkpoints():
    plain = jax.jit(jax.grad(tagged))(Y0)
    program = taxpr.trace(tagged)(Y0)
    gradient, values = jax.jit(jax.grad(program.collect(), has_aux=True))(Y0)
    assert_same_bits(gradient, plain)
    assert values["slope"].count > 7
    run = program.inject([taxpr.count(), taxpr.record(), taxpr.scale(1.0)])
    gradient, ctx = jax.jit(jax.grad(lambda y0: run(run.ctx, y0), has_aux=True))(Y0)
    assert_same_bits(gradient, plain)
    assert ctx[0]["state"] == {program.tags()[0].address: values["slope"].count}


@pytest.mark.slow
def test_a_gradient_by_checkpoints_of_a_changed_field():
    """The backward rule runs the field as it was, along the solution of the changed one."""
    run = taxpr.trace(tagged)(Y0).inject(taxpr.scale(0.5))
    found = jax.jit(jax.grad(lambda y0: run(run.ctx, y0)[0]))(Y0)
    backward = taxpr.trace(jax.grad(tagged))(Y0)
    forward, *again = backward.tags()
    assert again
    other = backward.inject(taxpr.scale(0.5), where=forward)
    assert_close(found, jax.jit(other)(other.ctx, Y0)[0])


def count(n, token, params):
    return token, n + 1


def within_reach(program, site):
    """Whether `taxpr.inject` can go there; where not, it must say so."""
    if f"{site}.0" in values(program):
        return True
    with pytest.raises(taxpr.RefusedError, match="does not inject into custom_vjp_call"):
        program.tag_at(site, name="slope").inject(count, 0)
    return False


def test_a_nan_of_a_step_is_found_in_its_line_and_iteration():
    class Field(eqx.Module):
        mlp: eqx.nn.MLP

        def __call__(self, t, y, args):
            damping = jnp.sqrt(0.5 - t)
            return self.mlp(y) - damping * y

    field = Field(eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0)))
    params, static = eqx.partition(field, eqx.is_array)

    def loss(params, y):
        term = diffrax.ODETerm(eqx.combine(params, static))
        found = diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.25, y, max_steps=8)
        return jnp.mean(found.ys**2)

    row = taxpr.find_nan(loss)(params, jnp.ones(2)).rows[0]
    # The fourth of the steps of a quarter begins at 0.75.
    assert (row.what, row.variable, row.iteration) == ("NaN", "damping", (3,))
    assert row.inputs[0].endswith(": -0.25")
