"""Models and inference of numpyro."""

import jax
import jax.numpy as jnp
import numpyro
import pytest
from checks import assert_close
from client_checks import all_of, check_identity, check_scale, collected_at
from numpyro.infer import HMC, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density
from real_programs import PROGRAMS
from real_programs import numpyro_model as model

import taxpr

X = jax.random.normal(jax.random.key(1), (4, 8))
Y = X[:, 0]
KEY = jax.random.key(0)
LATENT = {"w": X[0], "s": jnp.float32(1.2)}


def density(latent, x, y):
    return log_density(model, (x, y), {}, latent)[0]


def test_log_density_and_its_gradient():
    check_identity(jax.value_and_grad(density), LATENT, X, Y)


def test_predictive():
    predict = numpyro.infer.Predictive(model, num_samples=3)
    check_identity(lambda key, x: predict(key, x, None), KEY, X)


@pytest.mark.slow
def test_a_step_of_nuts():
    step, args = PROGRAMS["numpyro_nuts_step"]()
    check_identity(step, *args)


def test_a_step_of_hmc():
    kernel = HMC(model, step_size=0.1, num_steps=3, adapt_step_size=False)
    state = kernel.init(KEY, 10, None, (X, Y), {})
    check_identity(lambda state, x, y: kernel.sample(state, (x, y), {}), state, X, Y)


@pytest.mark.slow
def test_a_step_of_svi():
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
    state = svi.init(KEY, X, Y)
    check_identity(svi.update, state, X, Y)


def test_a_factor_in_the_model_does_what_inject_does():
    def edited(factor, latent, x, y):
        return log_density(model, (x, y, factor), {}, latent)[0]

    args = LATENT, X, Y
    sites = all_of(taxpr.trace(density)(*args), "tanh")
    check_scale(density, edited, args, sites)


def test_a_trace_of_the_model_has_what_collect_returns():
    def traced(latent, x, y):
        return log_density(model, (x, y), {}, latent)[1]["mean"]["value"]

    (site,) = all_of(taxpr.trace(density)(LATENT, X, Y), "tanh")
    found = collected_at(density, (LATENT, X, Y), {"mean": site})
    assert_close(found["mean"], jax.jit(traced)(LATENT, X, Y))
