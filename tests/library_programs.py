"""Programs of many sciences, each with a library of others, called as its documents do.

`PROGRAMS` makes each by name. What a program needs is imported where it is made, so that a library
that is missing takes only its own away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Made:
    """A function of a user, called as `fun(*args)`.

    `variables` are some that its lines bind, `functions` are the user's that the program calls.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    variables: tuple[str, ...]
    functions: tuple[str, ...] = ()


PROGRAMS: dict[str, Callable[[], Made]] = {}


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    PROGRAMS[make.__name__] = make
    return make


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


# ---- robots and molecules ------------------------------------------------------------------------


@program
def brax_rollout() -> Made:
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend="positional")
    state = env.reset(jax.random.PRNGKey(0))

    def rollout(state, gains):
        def step(state, _):
            action = jnp.tanh(state.obs @ gains)
            after = env.step(state, action)
            return after, after.reward

        _, rewards = jax.lax.scan(step, state, None, length=4)
        score = rewards.sum()
        return score

    return Made(rollout, (state, normal(4, 1) * 0.1), ("step.action", "rollout.score"), ("step",))


@program
def mjx_step() -> Made:
    import mujoco
    from mujoco import mjx

    xml = """
    <mujoco><option timestep="0.005"/><worldbody>
      <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/>
        <body pos="0 0 -0.5"><joint type="hinge" axis="0 1 0"/>
          <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/></body></body>
    </worldbody></mujoco>"""
    model = mjx.put_model(mujoco.MjModel.from_xml_string(xml))
    data = mjx.make_data(model)

    def swing(data, torque):
        pushed = data.replace(qfrc_applied=torque)
        after = mjx.step(model, pushed)
        energy = jnp.sum(after.qvel**2)
        return energy, after.qpos

    return Made(swing, (data, jnp.array([0.1, -0.2])), ("swing.energy",))


@program
def jax_md_nve() -> Made:
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(4.0)
    pair = energy.soft_sphere_pair(displacement)
    start = jax.random.uniform(jax.random.key(0), (12, 3)) * 4.0

    def potential(positions):
        total = pair(positions)
        return total

    init, apply = simulate.nve(potential, shift, 1e-3)

    def run(key, positions):
        state = init(key, positions, kT=0.1)
        state = jax.lax.fori_loop(0, 5, lambda _, s: apply(s), state)
        moved = state.position
        return moved

    return Made(run, (jax.random.key(1), start), ("potential.total", "run.moved"), ("potential",))


@program
def jaxlie_pose() -> Made:
    import jaxlie

    def residual(twist, points, seen):
        pose = jaxlie.SE3.exp(twist)
        moved = jax.vmap(pose.apply)(points)
        error = jnp.sum((moved - seen) ** 2)
        return error

    def fit(twist, points, seen):
        error, slope = jax.value_and_grad(residual)(twist, points, seen)
        twist = twist - 0.01 * slope
        return twist, error

    return Made(
        fit,
        (jnp.ones(6) * 0.1, normal(5, 3), normal(5, 3, seed=1)),
        ("residual.error",),
        ("residual",),
    )


# ---- samplers and inference ----------------------------------------------------------------------


def log_density(x):
    centred = x - 1.0
    log_p = -0.5 * jnp.sum(centred**2)
    return log_p


@program
def blackjax_nuts() -> Made:
    import blackjax

    nuts = blackjax.nuts(log_density, step_size=0.3, inverse_mass_matrix=jnp.ones(2))
    state = nuts.init(jnp.zeros(2))

    def sample(key, state):
        def one(state, key):
            state, _ = nuts.step(key, state)
            return state, state.position

        _, draws = jax.lax.scan(one, state, jax.random.split(key, 3))
        return draws

    return Made(
        sample,
        (jax.random.key(0), state),
        ("log_density.log_p", "sample.draws"),
        ("log_density", "one"),
    )


@program
def blackjax_smc() -> Made:
    import blackjax
    from blackjax.smc import resampling

    hmc = blackjax.hmc.build_kernel()
    smc = blackjax.adaptive_tempered_smc(
        lambda x: -0.5 * jnp.sum(x**2) / 9.0,
        log_density,
        hmc,
        blackjax.hmc.init,
        {
            "step_size": jnp.array([0.2]),
            "inverse_mass_matrix": jnp.ones((1, 2)),
            "num_integration_steps": jnp.array([3]),
        },
        resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=2,
    )
    state = smc.init(normal(16, 2))

    def temper(key, state):
        state, _ = smc.step(key, state)
        weights = state.weights
        return state.particles, weights

    return Made(temper, (jax.random.key(0), state), ("log_density.log_p",), ("log_density",))


@program
def numpyro_nuts() -> Made:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        spread = numpyro.sample("spread", dist.HalfNormal(1.0))
        mean = slope * x
        numpyro.sample("y", dist.Normal(mean, spread), obs=y)

    def infer(key, x, y):
        mcmc = MCMC(NUTS(model), num_warmup=3, num_samples=3, progress_bar=False)
        mcmc.run(key, x, y)
        slopes = mcmc.get_samples()["slope"]
        return slopes

    x = jnp.linspace(-1.0, 1.0, 8)
    return Made(infer, (jax.random.PRNGKey(0), x, 2.0 * x), ("model.mean",), ("model",))


@program
def numpyro_svi() -> Made:
    import numpyro
    import numpyro.distributions as dist
    import optax
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        mean = slope * x
        numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)

    svi = SVI(model, AutoNormal(model), optax.adam(0.1), Trace_ELBO())
    x = jnp.linspace(-1.0, 1.0, 8)
    state = svi.init(jax.random.PRNGKey(0), x, 2.0 * x)

    def step(state, x, y):
        state, loss = svi.update(state, x, y)
        return state, loss

    return Made(step, (state, x, 2.0 * x), ("model.mean",), ("model",))


@program
def distrax_flow() -> Made:
    import distrax

    def loss(params, x):
        base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
        bijector = distrax.Block(distrax.ScalarAffine(params["shift"], jnp.exp(params["scale"])), 1)
        flow = distrax.Transformed(base, bijector)
        likelihood = flow.log_prob(x)
        return -likelihood.mean()

    def step(params, x):
        value, slopes = jax.value_and_grad(loss)(params, x)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
        return params, value

    params = {"shift": jnp.zeros(2), "scale": jnp.zeros(2)}
    return Made(step, (params, normal(8, 2)), ("loss.likelihood",), ("loss",))


@program
def flowjax_flow() -> Made:
    import equinox as eqx
    from flowjax.bijections import Affine
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow

    flow = coupling_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(2)),
        transformer=Affine(),
        flow_layers=2,
        nn_width=8,
    )
    params, static = eqx.partition(flow, eqx.is_inexact_array)

    def loss(params, x):
        dist = eqx.combine(params, static)
        likelihood = dist.log_prob(x)
        return -likelihood.mean()

    def step(params, x):
        value, slopes = jax.value_and_grad(loss)(params, x)
        return value, slopes

    return Made(step, (params, normal(8, 2)), ("loss.likelihood",), ("loss",))


@program
def tfp_hmc() -> Made:
    from tensorflow_probability.substrates import jax as tfp

    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=0.2, num_leapfrog_steps=3)

    def sample(key, start):
        draws = tfp.mcmc.sample_chain(
            4, current_state=start, kernel=kernel, trace_fn=None, seed=key
        )
        return draws

    return Made(
        sample,
        (jax.random.PRNGKey(0), jnp.zeros(2)),
        ("log_density.log_p", "sample.draws"),
        ("log_density",),
    )


@program
def tinygp_loss() -> Made:
    from tinygp import GaussianProcess, kernels

    def loss(params, x, y):
        kernel = jnp.exp(params["amplitude"]) * kernels.Matern32(jnp.exp(params["scale"]))
        gp = GaussianProcess(kernel, x, diag=0.1)
        likelihood = gp.log_probability(y)
        return -likelihood

    def step(params, x, y):
        value, slopes = jax.value_and_grad(loss)(params, x, y)
        params = jax.tree.map(lambda p, g: p - 0.05 * g, params, slopes)
        return params, value

    x = jnp.linspace(0.0, 1.0, 6)
    params = {"amplitude": jnp.zeros(()), "scale": jnp.zeros(())}
    return Made(step, (params, x, jnp.sin(x)), ("loss.likelihood",), ("loss",))


@program
def gpjax_fit() -> Made:
    import gpjax as gpx

    x = jnp.linspace(0.0, 1.0, 6).reshape(-1, 1)

    def likelihood(lengthscale, x, y):
        kernel = gpx.kernels.RBF(lengthscale=lengthscale)
        gram = kernel.gram(x).as_matrix() + 0.1 * jnp.eye(x.shape[0])
        factor = jnp.linalg.cholesky(gram)
        solved = jax.scipy.linalg.cho_solve((factor, True), y)
        fit = -0.5 * jnp.sum(y * solved)
        return fit - jnp.log(jnp.diagonal(factor)).sum()

    return Made(
        likelihood, (jnp.array(0.5), x, jnp.sin(x)), ("likelihood.gram", "likelihood.solved")
    )


# ---- solvers and optimizers ----------------------------------------------------------------------


@program
def optimistix_root() -> Made:
    import optimistix as optx

    def balance(y, scale):
        wave = jnp.cos(y * scale)
        return y - wave

    def solve(scale, guess):
        found = optx.root_find(balance, optx.Newton(rtol=1e-4, atol=1e-4), guess, args=scale)
        root = found.value
        return root.sum()

    def sensitivity(scale, guess):
        root, slope = jax.value_and_grad(solve)(scale, guess)
        return root, slope

    return Made(
        sensitivity,
        (jnp.array(0.7), jnp.zeros(2)),
        ("balance.wave", "solve.root"),
        ("balance", "solve"),
    )


@program
def optimistix_least_squares() -> Made:
    import optimistix as optx

    def residuals(params, data):
        x, y = data
        predicted = params[0] * jnp.exp(params[1] * x)
        return predicted - y

    def fit(guess, x, y):
        solver = optx.LevenbergMarquardt(rtol=1e-3, atol=1e-3)
        found = optx.least_squares(residuals, solver, guess, args=(x, y), max_steps=16, throw=False)
        params = found.value
        return params

    x = jnp.linspace(0.0, 1.0, 6)
    return Made(
        fit,
        (jnp.array([1.0, 0.5]), x, 2.0 * jnp.exp(x)),
        ("residuals.predicted", "fit.params"),
        ("residuals",),
    )


@program
def lineax_cg() -> Made:
    import lineax as lx

    def solve(diagonal, rhs):
        def apply(v):
            Av = diagonal * v + 0.1 * jnp.roll(v, 1) + 0.1 * jnp.roll(v, -1)
            return Av

        operator = lx.FunctionLinearOperator(
            apply, jax.eval_shape(lambda: rhs), lx.positive_semidefinite_tag
        )
        solution = lx.linear_solve(operator, rhs, lx.CG(rtol=1e-5, atol=1e-5), throw=False)
        answer = solution.value
        return answer

    return Made(
        solve, (jnp.arange(1.0, 5.0), jnp.ones(4)), ("apply.Av", "solve.answer"), ("apply",)
    )


@program
def lineax_dense() -> Made:
    import lineax as lx

    def loss(matrix, rhs):
        operator = lx.MatrixLinearOperator(matrix)
        solution = lx.linear_solve(operator, rhs, solver=lx.LU())
        error = jnp.sum(solution.value**2)
        return error

    def step(matrix, rhs):
        error, slope = jax.value_and_grad(loss)(matrix, rhs)
        return matrix - 0.1 * slope, error

    return Made(step, (jnp.eye(3) * 2.0 + 0.1, jnp.ones(3)), ("loss.error",), ("loss",))


@program
def diffrax_explicit() -> Made:
    import diffrax

    def field(t, y, args):
        drag = args * y
        return -drag

    def loss(rate, start):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            0.0,
            1.0,
            0.1,
            start,
            args=rate,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
            max_steps=32,
        )
        end = found.ys[-1]
        return jnp.sum(end**2)

    def step(rate, start):
        value, slope = jax.value_and_grad(loss)(rate, start)
        return rate - 0.1 * slope, value

    return Made(step, (jnp.array(0.5), jnp.ones(2)), ("field.drag", "loss.end"), ("field", "loss"))


@program
def diffrax_implicit() -> Made:
    import diffrax

    def field(t, y, args):
        fast = -args * (y - jnp.cos(t))
        return fast

    def solve(rate, start):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Kvaerno3(),
            0.0,
            0.5,
            0.05,
            start,
            args=rate,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
            max_steps=32,
        )
        end = found.ys[-1]
        return end

    return Made(solve, (jnp.array(20.0), jnp.ones(2)), ("field.fast", "solve.end"), ("field",))


@program
def jaxopt_lbfgs() -> Made:
    import jaxopt

    def loss(w, x, y):
        predicted = x @ w
        error = jnp.mean((predicted - y) ** 2)
        return error

    def fit(w, x, y):
        solver = jaxopt.LBFGS(loss, maxiter=5)
        found = solver.run(w, x, y)
        best = found.params
        return best

    return Made(
        fit,
        (jnp.zeros(3), normal(8, 3), normal(8, seed=1)),
        ("loss.predicted", "loss.error", "fit.best"),
        ("loss",),
    )


@program
def optax_lbfgs() -> Made:
    import optax

    def loss(w):
        gap = w - jnp.arange(3.0)
        return jnp.sum(gap**4) + jnp.sum(w**2)

    def fit(w):
        optimizer = optax.lbfgs()
        state = optimizer.init(w)
        value_and_grad = optax.value_and_grad_from_state(loss)

        def step(carry, _):
            w, state = carry
            value, slope = value_and_grad(w, state=state)
            updates, state = optimizer.update(
                slope, state, w, value=value, grad=slope, value_fn=loss
            )
            w = optax.apply_updates(w, updates)
            return (w, state), value

        (w, state), values = jax.lax.scan(step, (w, state), None, length=3)
        return w, values

    return Made(fit, (jnp.ones(3),), ("loss.gap", "step.updates", "fit.values"), ("loss", "step"))


@program
def ott_sinkhorn() -> Made:
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def distance(x, y):
        geometry = pointcloud.PointCloud(x, y, epsilon=0.5)
        problem = linear_problem.LinearProblem(geometry)
        found = sinkhorn.Sinkhorn(max_iterations=20)(problem)
        cost = found.reg_ot_cost
        return cost

    def step(x, y):
        cost, slope = jax.value_and_grad(distance)(x, y)
        moved = x - 0.1 * slope
        return moved, cost

    return Made(
        step, (normal(5, 2), normal(6, 2, seed=1)), ("distance.cost", "step.moved"), ("distance",)
    )


@program
def kfac_step() -> Made:
    import kfac_jax

    def loss(params, batch):
        x, y = batch
        hidden = jnp.tanh(kfac_jax_dense(x, params[0]))
        out = kfac_jax_dense(hidden, params[1])
        kfac_jax.register_squared_error_loss(out, y)
        error = jnp.mean((out - y) ** 2)
        return error

    def kfac_jax_dense(x, layer):
        return x @ layer["w"] + layer["b"]

    optimizer = kfac_jax.Optimizer(
        value_and_grad_func=jax.value_and_grad(loss),
        l2_reg=0.0,
        use_adaptive_learning_rate=True,
        use_adaptive_momentum=True,
        use_adaptive_damping=True,
        initial_damping=1.0,
        multi_device=False,
    )
    params = [
        {"w": normal(3, 4) * 0.3, "b": jnp.zeros(4)},
        {"w": normal(4, 1, seed=1) * 0.3, "b": jnp.zeros(1)},
    ]
    batch = (normal(8, 3, seed=2), normal(8, 1, seed=3))
    optimizer.init(params, jax.random.PRNGKey(0), batch)

    def step(params, batch):
        value, slopes = jax.value_and_grad(loss)(params, batch)
        return value, slopes

    return Made(step, (params, batch), ("loss.hidden", "loss.error"), ("loss",))


@program
def evosax_cma() -> Made:
    from evosax.algorithms import CMA_ES

    start = jnp.zeros(3)
    strategy = CMA_ES(population_size=8, solution=start)
    params = strategy.default_params
    state = strategy.init(jax.random.key(0), start, params)

    def fitness(x):
        gap = x - 1.0
        return jnp.sum(gap**2)

    def evolve(key, state):
        def generation(state, key):
            ask, tell = jax.random.split(key)
            population, state = strategy.ask(ask, state, params)
            scores = jax.vmap(fitness)(population)
            state, _ = strategy.tell(tell, population, scores, state, params)
            return state, scores.min()

        state, best = jax.lax.scan(generation, state, jax.random.split(key, 3))
        return best

    return Made(
        evolve,
        (jax.random.key(1), state),
        ("fitness.gap", "generation.scores"),
        ("fitness", "generation"),
    )


# ---- reinforcement learning ----------------------------------------------------------------------


@program
def mctx_search() -> Made:
    import mctx

    def network(params, hidden):
        logits = hidden @ params["policy"]
        value = jnp.tanh(hidden @ params["value"])
        return logits, value

    def dynamics(params, key, action, hidden):
        moved = jnp.tanh(hidden + action[:, None] * 0.1)
        logits, value = network(params, moved)
        reward = moved.sum(-1)
        out = mctx.RecurrentFnOutput(
            reward=reward, discount=jnp.full_like(reward, 0.9), prior_logits=logits, value=value
        )
        return out, moved

    def plan(params, key, observation):
        logits, value = network(params, observation)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=observation)
        found = mctx.muzero_policy(params, key, root, dynamics, num_simulations=4)
        action = found.action
        return action, found.action_weights

    params = {"policy": normal(3, 4), "value": normal(3, seed=1)}
    return Made(
        plan,
        (params, jax.random.key(0), normal(2, 3)),
        ("network.logits", "dynamics.moved"),
        ("network", "dynamics"),
    )


@program
def rlax_td() -> Made:
    import rlax

    def loss(params, before, action, reward, after):
        values = before @ params
        bootstrap = after @ params
        error = jax.vmap(rlax.q_learning)(
            values, action, reward, jnp.full_like(reward, 0.9), bootstrap
        )
        return jnp.mean(error**2)

    def step(params, *batch):
        value, slope = jax.value_and_grad(loss)(params, *batch)
        return params - 0.1 * slope, value

    args = (normal(4, 3), normal(6, 4), jnp.arange(6) % 3, jnp.ones(6), normal(6, 4, seed=1))
    return Made(step, args, ("loss.values", "loss.error"), ("loss",))


@program
def gymnax_ppo() -> Made:
    import gymnax
    import optax

    env, env_params = gymnax.make("CartPole-v1")
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3))
    params = {"policy": normal(4, 2) * 0.1, "value": normal(4, seed=1) * 0.1}

    def act(params, obs):
        logits = obs @ params["policy"]
        value = obs @ params["value"]
        return logits, value

    def loss_fn(params, traj, advantages, targets):
        obs, action, old, _ = traj
        logits, value = act(params, obs)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]
        ratio = jnp.exp(log_p - old)
        clipped = jnp.clip(ratio, 0.8, 1.2)
        gain = jnp.minimum(ratio * advantages, clipped * advantages)
        return -gain.mean() + 0.5 * jnp.mean((value - targets) ** 2)

    def update(params, opt_state, key):
        reset, key = jax.random.split(key)
        obs, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(reset, 4), env_params)

        def env_step(carry, key):
            obs, state = carry
            act_key, step_key = jax.random.split(key)
            logits, value = act(params, obs)
            action = jax.random.categorical(act_key, logits)
            old = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], -1)[:, 0]
            after, state, reward, done, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
                jax.random.split(step_key, 4), state, action, env_params
            )
            return (after, state), ((obs, action, old, value), reward, done)

        _, (traj, reward, done) = jax.lax.scan(env_step, (obs, state), jax.random.split(key, 5))

        def gae(carry, x):
            reward, done, _ = x
            carry = reward + 0.99 * (1.0 - done) * carry
            return carry, carry

        _, targets = jax.lax.scan(gae, jnp.zeros(4), (reward, done, traj[3]), reverse=True)
        advantages = targets - traj[3]
        loss, slopes = jax.value_and_grad(loss_fn)(params, traj, advantages, targets)
        updates, opt_state = optimizer.update(slopes, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    return Made(
        update,
        (params, optimizer.init(params), jax.random.key(0)),
        ("loss_fn.ratio", "update.advantages"),
        ("act", "loss_fn", "env_step", "gae"),
    )


# ---- physics, biology, signals -------------------------------------------------------------------


@program
def jaxley_cell() -> Made:
    import jaxley as jx
    from jaxley.channels import HH

    comp = jx.Compartment()
    branch = jx.Branch(comp, ncomp=2)
    cell = jx.Cell(branch, parents=[-1, 0])
    cell.insert(HH())
    cell.branch(0).comp(0).stimulate(jx.step_current(0.1, 0.2, 0.1, 0.025, 0.5), verbose=False)
    cell.branch(1).comp(0).record("v", verbose=False)
    cell.make_trainable("radius", verbose=False)
    params = cell.get_parameters()

    def loss(params):
        voltages = jx.integrate(cell, params=params)
        peak = voltages.max()
        return peak

    def step(params):
        value, slopes = jax.value_and_grad(loss)(params)
        return value, slopes

    return Made(step, (params,), ("loss.voltages", "loss.peak"), ("loss",))


@program
def dynamiqs_qubit() -> Made:
    import dynamiqs as dq

    def population(rate):
        H = dq.sigmaz() * 0.5
        jump = jnp.sqrt(rate) * dq.sigmam()
        found = dq.mesolve(
            H,
            [jump],
            dq.basis(2, 0),
            jnp.linspace(0.0, 1.0, 3),
        )
        last = found.states[-1].to_jax()[0, 0].real
        return last

    def sensitivity(rate):
        value, slope = jax.value_and_grad(population)(rate)
        return value, slope

    return Made(sensitivity, (jnp.array(0.5),), ("population.last",), ("population",))


@program
def e3nn_network() -> Made:
    import e3nn_jax as e3nn

    def energy(weights, positions):
        pairs = positions[:, None] - positions[None]
        edges = e3nn.IrrepsArray("1o", pairs.reshape(-1, 3) + 1e-3)
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", edges, normalize=True)
        mixed = e3nn.tensor_product(harmonics, harmonics, filter_ir_out=["0e"])
        total = jnp.sum(mixed.array @ weights)
        return total

    def forces(weights, positions):
        value, slope = jax.value_and_grad(energy, argnums=1)(weights, positions)
        return value, -slope

    size = e3nn.tensor_product("0e + 1o + 2e", "0e + 1o + 2e", filter_ir_out=["0e"]).dim
    return Made(
        forces, (normal(size), normal(3, 3, seed=1)), ("energy.pairs", "energy.total"), ("energy",)
    )


@program
def jraph_network() -> Made:
    import jraph

    graph = jraph.GraphsTuple(
        nodes=normal(4, 3),
        edges=normal(5, 2),
        senders=jnp.array([0, 1, 2, 3, 0]),
        receivers=jnp.array([1, 2, 3, 0, 2]),
        n_node=jnp.array([4]),
        n_edge=jnp.array([5]),
        globals=jnp.zeros((1, 1)),
    )

    def loss(w, graph):
        def update_node(nodes, sent, received, globals_):
            message = jnp.concatenate([nodes, received], -1) @ w
            return jax.nn.relu(message)

        network = jraph.GraphNetwork(update_edge_fn=None, update_node_fn=update_node)
        out = network(graph)
        score = jnp.mean(out.nodes**2)
        return score

    def step(w, graph):
        value, slope = jax.value_and_grad(loss)(w, graph)
        return w - 0.1 * slope, value

    return Made(
        step, (normal(5, 4), graph), ("update_node.message", "loss.score"), ("loss", "update_node")
    )


@program
def s2fft_roundtrip() -> Made:
    import s2fft

    def smooth(signal):
        coefficients = s2fft.forward_jax(signal, L=4, reality=True)
        damped = coefficients * jnp.exp(-jnp.arange(4.0))[:, None]
        back = s2fft.inverse_jax(damped, L=4, reality=True)
        return back.real

    return Made(smooth, (normal(4, 7),), ("smooth.damped", "smooth.back"))


@program
def pix_augment() -> Made:
    import dm_pix as pix

    def augment(key, image):
        bright = pix.random_brightness(key, image, 0.2)
        blurred = pix.gaussian_blur(bright, sigma=1.0, kernel_size=3)
        return jnp.clip(blurred, 0.0, 1.0)

    return Made(
        augment,
        (jax.random.key(0), jax.random.uniform(jax.random.key(1), (6, 6, 3))),
        ("augment.bright", "augment.blurred"),
    )


@program
def quax_lora() -> Made:
    import equinox as eqx
    import quax
    import quax.examples.lora as lora

    layer = eqx.nn.Linear(4, 4, key=jax.random.key(0))
    layer = lora.loraify(layer, rank=2, key=jax.random.key(1))
    params, static = eqx.partition(layer, eqx.is_array)

    def loss(params, x):
        model = eqx.combine(params, static)
        out = quax.quaxify(model)(x)
        error = jnp.sum(out**2)
        return error

    return Made(loss, (params, normal(4)), ("loss.out", "loss.error"))


# ---- neural networks -----------------------------------------------------------------------------


@program
def flax_nnx_step() -> Made:
    import optax
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(3, 8, rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.last = nnx.Linear(8, 1, rngs=rngs)

        def __call__(self, x):
            hidden = nnx.relu(self.norm(self.first(x)))
            return self.last(hidden)

    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    def loss_fn(model, x, y):
        predicted = model(x)
        error = jnp.mean((predicted - y) ** 2)
        return error

    def step(model, optimizer, x, y):
        loss, slopes = nnx.value_and_grad(loss_fn)(model, x, y)
        optimizer.update(model, slopes)
        return loss

    args = (model, optimizer, normal(8, 3), normal(8, 1, seed=1))
    return Made(step, args, ("__call__.hidden", "loss_fn.error"), ("loss_fn",))


@program
def flax_linen_step() -> Made:
    import flax.linen as nn
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            hidden = nn.gelu(nn.Dense(8)(x))
            return nn.Dense(1)(nn.LayerNorm()(hidden))

    net = Net()
    x, y = normal(8, 3), normal(8, 1, seed=1)
    params = net.init(jax.random.key(0), x)
    optimizer = optax.adamw(1e-3)

    def loss_fn(params, x, y):
        predicted = net.apply(params, x)
        return jnp.mean((predicted - y) ** 2)

    def step(params, opt_state, x, y):
        loss, slopes = jax.value_and_grad(loss_fn)(params, x, y)
        updates, opt_state = optimizer.update(slopes, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    return Made(
        step,
        (params, optimizer.init(params), x, y),
        ("__call__.hidden", "loss_fn.predicted"),
        ("loss_fn",),
    )


@program
def equinox_step() -> Made:
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss_fn(params, x, y):
        net = eqx.combine(params, static)
        predicted = jax.vmap(net)(x)
        return jnp.mean((predicted - y) ** 2)

    def step(params, opt_state, x, y):
        loss, slopes = jax.value_and_grad(loss_fn)(params, x, y)
        updates, opt_state = optimizer.update(slopes, opt_state)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    return Made(
        step,
        (params, optimizer.init(params), normal(8, 3), normal(8, 1, seed=1)),
        ("loss_fn.predicted",),
        ("loss_fn",),
    )


@program
def haiku_jmp_step() -> Made:
    import haiku as hk
    import jmp

    policy = jmp.get_policy("params=float32,compute=bfloat16,output=float32")

    def forward(x):
        hidden = jax.nn.relu(hk.Linear(8)(x))
        return hk.Linear(1)(hidden)

    net = hk.without_apply_rng(hk.transform(forward))
    x, y = normal(8, 3), normal(8, 1, seed=1)
    params = net.init(jax.random.key(0), x)
    scaling = jmp.DynamicLossScale(jnp.float32(2.0**15))

    def loss_fn(params, scaling, x, y):
        params, x = policy.cast_to_compute((params, x))
        predicted = policy.cast_to_output(net.apply(params, x))
        error = jnp.mean((predicted - y) ** 2)
        return scaling.scale(error)

    def step(params, scaling, x, y):
        slopes = jax.grad(loss_fn)(params, scaling, x, y)
        slopes = scaling.unscale(slopes)
        finite = jmp.all_finite(slopes)
        scaling = scaling.adjust(finite)
        after = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
        params = jmp.select_tree(finite, after, params)
        return params, scaling

    return Made(
        step, (params, scaling, x, y), ("forward.hidden", "loss_fn.error"), ("forward", "loss_fn")
    )


@program
def penzai_net() -> Made:
    from penzai import pz
    from penzai.models import simple_mlp

    net = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 8, 1]
    )
    free, variables = pz.unbind_variables(net, freeze=True)

    def loss(variables, x):
        model = pz.bind_variables(free, variables)
        out = model(pz.nx.wrap(x, "batch", "features")).unwrap("batch", "features")
        error = jnp.mean(out**2)
        return error

    return Made(loss, (variables, normal(4, 3)), ("loss.error",))


@program
def brainstate_rnn() -> Made:
    import brainstate

    weights = normal(4, 4) * 0.3

    def run(weights, inputs):
        hidden = brainstate.State(jnp.zeros(4))

        def step(x):
            hidden.value = jnp.tanh(weights @ hidden.value + x)
            return hidden.value.sum()

        sums = brainstate.transform.for_loop(step, inputs)
        return sums

    return Made(run, (weights, normal(3, 4, seed=1)), ("run.sums",), ("step",))
