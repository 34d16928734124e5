"""`draw(..., names="library")` and ``%%taxpr --names library``: the library in words."""

import importlib
import linecache
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session, draw
from taxpr_jupyter._ipython.options import asked_names, split

X = np.float32(0.7)
LAYERS = """
import jax
import jax.numpy as jnp

def attend(x, w):
    scores = jnp.sin(x) @ w
    weights = jax.nn.softmax(scores)
    mixed = weights @ jnp.cos(w) + x
    return mixed * 2

def walked(x, w):
    def step(carry, row):
        moved = attend(carry, w) + row
        return moved, moved.sum()
    last, sums = jax.lax.scan(step, x, jnp.ones((3, 4)))
    return last * sums.mean()

@jax.custom_vjp
def clipped(x):
    return jnp.tanh(x)

def clipped_fwd(x):
    kept = jnp.cos(x) * 3
    return jnp.tanh(x), kept

def clipped_bwd(kept, ct):
    scaled = kept * ct
    return (scaled + 1,)

clipped.defvjp(clipped_fwd, clipped_bwd)

@jax.jit
def normed(x):
    size = jnp.sqrt((x * x).sum())
    return x / size

def looped(step, state, rows):
    def run(*args):
        (held, _), row = args
        return (held * normed(held * step(row)), held.sum()), held.sum()

    run.__wrapped__ = step  # so that JAX says that it traced the user's function
    (last, _), sums = jax.lax.scan(run, (state, 0.0), rows)
    return last, sums

class Block:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        rows = [clipped(x @ self.w) for _ in range(2)]
        total = sum(rows)
        found = jax.lax.while_loop(lambda s: s.sum() < 9, lambda s: s + jnp.abs(s) + 1, jnp.ones(4))
        kept = jax.lax.cond(x[0] > 0, lambda t: normed(t) * 2, lambda t: t - 1, total)
        return kept + found
"""


@pytest.fixture
def module_in(tmp_path, monkeypatch):
    """Makes a module with the text of the library in a folder."""
    made = []

    def module(folder, name):
        home = tmp_path / folder
        home.mkdir(parents=True, exist_ok=True)
        (home / f"{name}.py").write_text(LAYERS)
        monkeypatch.syspath_prepend(str(home))
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield module
    for name in made:
        del sys.modules[name]
    linecache.clearcache()


@pytest.fixture
def library(module_in):
    return module_in("lib/site-packages", "shownlib")


def words(drawing):
    picture = drawing.picture
    lines = [line for one in picture.nodes for line in one.lines]
    return [*lines, *(line for one in picture.clusters for line in one.lines)]


def called(module):
    def f(x, w):
        for _ in range(3):
            x = module.attend(x, w)
        x = module.Block(w)(x)
        return module.walked(module.normed(x), w).sum()

    return f


ARGS = jnp.ones(4), jnp.ones((4, 4))


@pytest.mark.parametrize("budget", [8, 20, 60])
def test_a_library_is_drawn_as_if_its_text_were_the_user_s(library, module_in, budget):
    mine = called(module_in("home", "shownmine"))
    f = called(library)
    expected = words(draw(mine, *ARGS, budget=budget))
    plain = words(draw(f, *ARGS, budget=budget))
    own = words(draw(f, *ARGS, budget=budget, names="shownlib"))
    assert own == expected
    assert own != plain
    # Drawn again in the other order, each is the same, also from its program.
    program = taxpr.trace(f, names=["shownlib"])(*ARGS)
    assert words(draw(f, *ARGS, budget=budget)) == plain
    assert words(draw(program, budget=budget)) == expected
    assert words(draw(mine, *ARGS, budget=budget)) == expected


def test_the_derivative_in_a_library_is_drawn_as_the_user_s(library, module_in):
    mine = called(module_in("home", "shownmine"))
    expected = words(draw(jax.grad(mine, argnums=1), *ARGS))
    assert words(draw(jax.grad(called(library), argnums=1), *ARGS, names=("shownlib",))) == expected
    assert words(draw(jax.grad(called(library), argnums=1), *ARGS)) != expected


def test_a_session_has_the_variables_of_the_library(library):
    def f(x, w):
        return library.attend(x, w)

    session = Session(f, (jnp.ones(4), jnp.ones((4, 4))), names=("shownlib",))
    held = {one.text for one in session.program.variables()}
    assert {"scores", "weights", "mixed"} < held
    files = {part.file for part in session.program.listing().parts}
    assert library.__file__ in files
    key = session.tag(taxpr.var("weights"))
    code = session.code()
    assert "names=('shownlib',)" in code
    session.attach(taxpr.var("scores"), "zero")
    run = session.run()
    assert run is not None
    assert key


def test_names_of_what_is_traced_belong_to_its_trace(library):
    program = taxpr.trace(jnp.sin)(X)
    with pytest.raises(PanelError, match="draw takes no names with it"):
        draw(program, names="shownlib")
    with pytest.raises(taxpr.ArgumentError, match="there is no module shown"):
        draw(jnp.sin, X, names="shown")


@pytest.mark.parametrize(
    ("line", "names", "call"),
    [
        ("--names step(W, XS)", True, "step(W, XS)"),
        ("--names step (W, XS)", True, "step (W, XS)"),
        ("--names layers.step(W)", True, "layers.step(W)"),
        ("--names y = f(x)", True, "y = f(x)"),
        ("--names", True, ""),
        ("--names brax", ("brax",), ""),
        ("--names brax.envs,jax_md f(x)", ("brax.envs", "jax_md"), "f(x)"),
        ("--names=brax --names jax_md --text f(x)", ("brax", "jax_md"), "f(x)"),
        ("--names='brax, jax_md' f(x)", ("brax", "jax_md"), "f(x)"),
        ("--text --names f(x)", True, "f(x)"),
        ("f(x)", None, "f(x)"),
    ],
)
def test_the_magic_tells_modules_from_the_call(line, names, call):
    given, rest = split(line)
    found = [w.partition("=")[2] for w in given if w.partition("=")[0] == "--names"]
    assert (asked_names(found), rest) == (names, call)


def test_the_magic_shows_a_library(library, notebook):
    notebook.good("import shownlib, jax.numpy as jnp")
    session = notebook.good("%taxpr --names shownlib shownlib.attend(jnp.ones(4), jnp.eye(4))")
    assert "weights" in {one.text for one in session.program.variables()}
    session = notebook.good("%taxpr --names shownlib.attend(jnp.ones(4), jnp.eye(4))")
    assert "weights" not in {one.text for one in session.program.variables()}
    cell = notebook.run("%taxpr --names=shwn shownlib.attend(jnp.ones(4), jnp.eye(4))")
    assert "there is no module shwn" in str(cell.error)


def test_a_library_s_own_arguments_are_no_names_of_what_a_loop_carries(library):
    def f(x):
        memory = jnp.sin(x)

        def step(row):
            return row * 2

        last, sums = library.looped(step, memory, jnp.ones((3, 4)))
        return last.sum() + sums.sum()

    said = words(draw(f, jnp.ones(4)))
    assert "carry memory f32[4]" in said
    assert not any("args[0][0]" in line for line in said)
