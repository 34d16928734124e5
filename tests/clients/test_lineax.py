"""Linear solves of lineax, and what optimistix and diffrax do by them."""

import subprocess
import sys
import textwrap

import diffrax
import jax
import jax.numpy as jnp
import lineax
import optimistix
import pytest
from checks import assert_close, check_types
from client_checks import check_identity, total
from reference import Reference

import taxpr

A = jnp.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 4.0]])
B = jnp.array([1.0, 2.0, 3.0])
TIGHT = {"rtol": 1e-6, "atol": 1e-6}


def by_lu(a, b):
    return lineax.linear_solve(lineax.MatrixLinearOperator(a), b).value


def least_squares(a, b):
    return lineax.linear_solve(lineax.MatrixLinearOperator(a[:, :2]), b, lineax.QR()).value


def by_cg(a, b, factor=None):
    def operator(x):
        y = a @ x
        return taxpr.tag(y if factor is None else y * factor, name="A x")

    shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
    operator = lineax.FunctionLinearOperator(operator, shape, lineax.positive_semidefinite_tag)
    return lineax.linear_solve(operator, b, lineax.CG(**TIGHT)).value


def mapped_lu(a, b):
    return jax.vmap(lambda b: by_lu(a, b))(jnp.stack([b, 2 * b]))


def mapped_cg(a, b):
    return jax.vmap(by_cg)(jnp.stack([a, 2 * a]), jnp.stack([b, 2 * b]))


def root(a, b):
    solver = optimistix.Newton(rtol=1e-5, atol=1e-5)
    return optimistix.root_find(lambda y, _: jnp.tanh(a @ y) + y - b, solver, jnp.zeros(3)).value


def fit(a, b):
    solver = optimistix.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
    return optimistix.least_squares(lambda y, _: a @ y - b, solver, jnp.zeros(3)).value


def implicit_ode(a, b):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, _: -a @ y + jnp.sin(y)),
        diffrax.Kvaerno3(),
        0.0,
        0.2,
        0.1,
        b,
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-3),
        max_steps=32,
    ).ys


def gradient(fn):
    def of(a, b):
        return jax.grad(lambda a, b: total(fn(a, b)), (0, 1))(a, b)

    of.__name__ = f"gradient_{fn.__name__}"
    return of


SOLVES = [by_lu, least_squares, by_cg, mapped_lu, mapped_cg, root, fit]
PROGRAMS = [*SOLVES, implicit_ode, gradient(by_lu), gradient(by_cg), gradient(mapped_lu)]


@pytest.mark.spread(4)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_tags_at_random_places_change_nothing(fn):
    if "cg" in fn.__name__:  # its own tag has one name at several places
        program = taxpr.trace(fn)(A, B)
        check_identity(program.dissolve(), A, B)
    else:
        check_identity(fn, A, B)


@pytest.mark.spread(3)
@pytest.mark.parametrize("fn", SOLVES, ids=lambda fn: fn.__name__)
def test_all_values_can_be_looked_at_but_those_that_never_run(fn):
    program = taxpr.trace(fn)(A, B)
    tagged = program.tag_at("*", name="every value")
    assert all("does not run by itself" in one.reason for one in tagged.skipped)
    skipped = sum(len(one.addresses) for one in tagged.skipped)
    assert len(tagged.tags("every value")) + skipped == len(taxpr.find_values(program))
    assert 50 * skipped <= 3 * len(taxpr.find_values(program))
    counted = tagged.inject(taxpr.count(), where="every value")
    assert_close(jax.jit(counted)(counted.ctx, A, B)[0], jax.jit(fn)(A, B))


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", [by_lu, least_squares, by_cg, mapped_cg], ids=lambda f: f.__name__)
def test_to_look_costs_no_derivative(fn):
    program = taxpr.trace(fn)(A, B).dissolve()
    inside = [v.address for v in taxpr.find_values(program) if "/solve/" in v.address]
    looked = program
    for address in inside[:: len(inside) // 8]:
        looked = looked.tag_at(address, name=address)
    looked = looked.collect()
    found, expected = (
        jax.jit(jax.grad(lambda a, b, g=g: total(g(a, b)), (0, 1)))(A, B)
        for g in (lambda a, b: looked(a, b)[0], fn)
    )
    assert_close(found, expected)


# ---- questions ---------------------------------------------------------------


def spoiled(v, scale):
    """The user's function, with a NaN where the scale is below zero."""
    root = jnp.log(scale)
    return v + 0.0 * root


def faulty(solver, *, matrix=False, throw=False):
    def solved(scale):
        def matvec(v):
            Av = A @ v
            return Av if matrix else spoiled(Av, scale)

        shape = jax.ShapeDtypeStruct(B.shape, B.dtype)
        of_function = lineax.FunctionLinearOperator(matvec, shape, lineax.positive_semidefinite_tag)
        of_matrix = lineax.MatrixLinearOperator(spoiled(A, scale) if matrix else A)
        operator = of_matrix if matrix else of_function
        found = lineax.linear_solve(operator, B, solver, throw=throw)
        return found.value

    return solved


def faulty_root(scale):
    def residual(y, _):
        rest = jnp.tanh(A @ spoiled(y, scale)) + y - B
        return rest

    solver = optimistix.Newton(**TIGHT)
    return optimistix.root_find(residual, solver, jnp.zeros(3), throw=False, max_steps=8).value


def faulty_fit(scale):
    def residual(y, _):
        rest = A @ spoiled(y, scale) - B
        return rest

    solver = optimistix.LevenbergMarquardt(**TIGHT)
    return optimistix.least_squares(residual, solver, jnp.ones(3), throw=False, max_steps=8).value


def faulty_minimum(scale):
    def loss(y, _):
        return jnp.sum((spoiled(y, scale) - B) ** 2)

    solver = optimistix.BFGS(**TIGHT)
    return optimistix.minimise(loss, solver, jnp.ones(3), throw=False, max_steps=8).value


def faulty_fixed_point(scale):
    def again(y, _):
        return 0.5 * jnp.cos(spoiled(y, scale))

    solver = optimistix.FixedPointIteration(**TIGHT)
    return optimistix.fixed_point(again, solver, jnp.ones(3), throw=False, max_steps=8).value


FAULTY = {
    "LU": faulty(lineax.LU(), matrix=True),
    "QR": faulty(lineax.QR(), matrix=True),
    "auto": faulty(lineax.AutoLinearSolver(well_posed=True), matrix=True),
    "CG": faulty(lineax.CG(**TIGHT)),
    "GMRES": faulty(lineax.GMRES(**TIGHT)),
    "root": faulty_root,
    "fit": faulty_fit,
    "minimum": faulty_minimum,
    "fixed point": faulty_fixed_point,
}


def lines(fn):
    """The rows of what was found, and notes of what no result has, as one text."""
    return str(taxpr.find_nan(fn)(jnp.float32(-1.0)))


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", FAULTY)
def test_a_nan_in_a_function_of_the_user_s_is_found(name):
    fn = FAULTY[name]
    assert not taxpr.find_nan(fn)(jnp.float32(2.0))
    assert "root" in lines(fn)
    assert "Not read" not in lines(fn)
    assert not taxpr.first_difference(fn, jax.jit(fn))(jnp.float32(2.0))
    held = taxpr.watch(fn)(jnp.float32(2.0))
    assert any(name.partition("#")[0] == "root" for name in held)


@pytest.mark.parametrize("name", ["LU", "CG"])
def test_a_nan_is_found_through_transformations(name):
    fn = FAULTY[name]
    mapped = jax.vmap(fn)

    def scanned(scales):
        return jax.lax.scan(lambda c, scale: (c, fn(scale)), 0.0, scales)[1]

    def gradient(scale):
        return jax.grad(lambda scale: fn(scale).sum())(scale)

    scale = jnp.float32(2.0)
    assert taxpr.find_nan(jax.jit(fn))(-scale).out.shape == (3,)
    assert "root" in str(taxpr.find_nan(jax.jit(fn))(-scale))
    assert not taxpr.find_nan(gradient)(scale)
    scales = jnp.stack([scale, -scale])
    for of in (mapped, scanned):
        assert "root" in str(taxpr.find_nan(of)(scales))
        assert_close(taxpr.find_nan(of)(scales[:1]).out, fn(scale)[None])


def test_variables_of_a_function_that_closes_over_nothing():
    def matvec(v):
        Av = A @ v
        return 2.0 * Av

    def solved(b):
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        operator = lineax.FunctionLinearOperator(matvec, shape, lineax.positive_semidefinite_tag)
        return lineax.linear_solve(operator, b, lineax.CG(**TIGHT)).value

    program = taxpr.trace(solved, names=True)(B)
    assert program.jaxpr is taxpr.trace(solved, names=True)(B).jaxpr
    assert len(program.variables()) == 6  # v, Av: before the loop, in it, where it starts again
    check_types(program.jaxpr)
    assert_close(program(B), solved(B))
    assert_close(jax.grad(lambda b: program(b).sum())(B), jax.grad(lambda b: solved(b).sum())(B))
    halved = program.inject(taxpr.scale(2.0), where=taxpr.var("Av"))
    assert_close(halved(halved.ctx, B)[0], solved(B) / 2, tolerance=1e-4)
    twice = jax.vmap(lambda b: halved(halved.ctx, b)[0])
    derivative = jax.jacobian(lambda bs: twice(bs).sum(0))(jnp.stack([B, 2 * B]))
    # The derivative is that of the equation, which the injection does not change.
    inverse = jnp.linalg.inv(2.0 * A)
    assert_close(derivative, jnp.stack([inverse, inverse], 1), tolerance=1e-4)


class WithSolves(Reference):
    def eqn(self, eqn, args):
        if eqn.primitive.name in ("linear_solve", "vprim"):
            [solve, *_] = taxpr.nested_jaxprs(eqn)
            return self(solve.stored, *args)
        return super().eqn(eqn, args)


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", [by_cg, mapped_cg], ids=lambda fn: fn.__name__)
def test_the_operator_is_changed_where_the_solver_calls_it(fn):
    def grow(n, token, params):
        return token * 2.0, n + 1

    program = taxpr.trace(fn)(A, B)
    assert {site.idle for site in program.tags("A x")} == {True, False}
    injected = program.inject(grow, 0, where="A x")
    check_types(injected.jaxpr)
    assert_close(jax.jit(injected)(0, A, B)[0], fn(A, B) / 2, tolerance=1e-4)
    reference = WithSolves(grow, jnp.int32(0))
    out, n = injected(0, A, B)
    assert_close([out], reference(program.jaxpr, A, B), tolerance=1e-4)
    assert n == reference.ctx > 2


def test_the_derivative_is_that_of_the_equation_at_the_solution_that_is_given():
    program = taxpr.trace(by_lu)(A, B)
    [solve] = [
        a for a, eqn in taxpr.iter_eqns(program.jaxpr) if eqn.primitive.name == "linear_solve"
    ]
    tagged = program.tag_at(f"{solve}/solve/out0", name="x")
    moved = tagged.inject(taxpr.add(0.5), where="x")
    x = jnp.linalg.solve(A, B) + 0.5
    assert_close(moved(moved.ctx, A, B)[0], x)
    weights = jnp.array([1.0, -2.0, 0.5])
    found = jax.jit(jax.grad(lambda a, b: moved(moved.ctx, a, b)[0] @ weights, (0, 1)))(A, B)
    back = jnp.linalg.solve(A.T, weights)
    assert_close(found, (-jnp.outer(back, x), back), tolerance=1e-4)
    with pytest.raises(
        taxpr.RefusedError, match=r"linear_solve.* \(.*\) has a derivative of its own"
    ):
        jax.grad(lambda c: moved(c, A, B)[0].sum())(moved.ctx)


def test_the_derivative_of_the_solve_itself_is_not_to_be_had():
    with pytest.raises(
        taxpr.RefusedError, match="lineax stops the derivative of the solver's state"
    ):
        taxpr.trace(by_cg)(A, B).inject(taxpr.count(), where="A x", custom_rules="drop")


def test_a_solve_that_is_mapped_after_an_injection():
    program = taxpr.trace(by_cg)(A, B)
    injected = program.inject(taxpr.scale(2.0), where="A x")
    found = jax.vmap(lambda b: injected(injected.ctx, A, b)[0])(jnp.stack([B, 2 * B]))
    assert_close(found, jnp.stack([by_cg(A, B), by_cg(A, 2 * B)]) / 2, tolerance=1e-4)


def test_a_tag_in_a_nonlinear_system_fires_wherever_it_is_evaluated():
    def system(a, b):
        def residual(y, _):
            return taxpr.tag(jnp.tanh(a @ y) + y - b, name="residual")

        solver = optimistix.Newton(rtol=1e-6, atol=1e-6)
        return optimistix.root_find(residual, solver, jnp.zeros(3)).value

    program = taxpr.trace(system)(A, B)
    _, evaluated = program.inject(lambda n, token, params: (token, n + 1), 0)(0, A, B)
    # The solver's own derivative stays, so that its steps are half as long: the root is the same.
    with pytest.warns(taxpr.StaleDerivativeWarning, match="'residual'"):
        halved = program.inject(lambda n, token, params: (token / 2, n + 1), 0)
    out, more = halved(0, A, B)
    assert_close(out, system(A, B), tolerance=1e-4)
    assert more > evaluated > 1


@pytest.mark.slow
def test_nothing_is_imported_for_it():
    code = """
        import sys, jax, jax.numpy as jnp, taxpr
        program = taxpr.trace(lambda x: jnp.sin(x))(1.0)
        assert not program.tags()
        assert not any(name in sys.modules for name in ("lineax", "equinox"))
        import lineax
        a = jnp.eye(3) * 2
        solve = lambda b: lineax.linear_solve(lineax.MatrixLinearOperator(a), b).value
        program = taxpr.trace(solve)(jnp.ones(3))
        eqns = dict(taxpr.iter_eqns(program.jaxpr))
        [address] = [one for one, eqn in eqns.items() if eqn.primitive.name == "linear_solve"]
        assert taxpr.injectable(eqns[address]) is None
        value = program.tag_at(f"{address}/solve/out0", name="x").collect()(jnp.ones(3))[1]["x"]
        print(value.tolist())
    """
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "[0.5, 0.5, 0.5]", found.stderr
