"""The user's functions that a library runs in its loops stand beside the rest of the library."""

import jax
import jax.numpy as jnp
import pytest
from called_functions import called_functions, hidden_functions

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._model.kinds import COMPUTING

LIBRARY = """
import jax
import jax.numpy as jnp

def _controlled(step, y):
    for _ in range(5):
        step = jnp.clip(step * jnp.sqrt(1.0 + jnp.mean(y * y)), 0.01, 1.0)
    return step

def solve(field, y, args, steps=4):
    def one(state, _):
        y, step = state
        step = _controlled(step, y)
        middle = y + 0.5 * step * field(y, args)
        return (y + step * field(middle, args), step), y.sum()

    (y, _), sums = jax.lax.scan(one, (y, jnp.float32(0.1)), None, length=steps)
    return y, sums

def split(first, second, y, args):
    def one(state, _):
        y, step = state
        step = _controlled(step, y)
        after = y + 0.5 * step * first(y, args)
        return (after + step * second(after, args), step), None

    return jax.lax.scan(one, (y, jnp.float32(0.1)), None, length=4)[0][0]

@jax.jit
def smoothed(y):
    for _ in range(9):
        y = jnp.tanh(y) * jnp.cos(y) + y
    return y

def applied(field, y, args):
    for _ in range(9):
        y = jnp.tanh(y) * jnp.cos(y) + y
    return field(y, args)

applied = jax.jit(applied, static_argnums=0)

def twice(field, y, args):
    def one(state, _):
        y, step = state
        y = field(y, args)
        y = field(y, args)
        return (y, _controlled(step, y)), None

    return jax.lax.scan(one, (y, jnp.float32(0.1)), None, length=4)[0][0]

def steady(y):
    def one(y, _):
        times = jnp.sin(jnp.linspace(0.0, 1.0, 3)) * 2.0
        for _ in range(9):
            y = jnp.tanh(y * times) + jnp.cos(times)
        return y, None

    return jax.lax.scan(one, y, None, length=4)[0]

def total(y):
    for _ in range(9):
        y = jnp.tanh(y) * jnp.cos(y) + y
    return y.sum()

def until(field, y, args):
    def body(state):
        y, k = state
        y, sums = solve(field, y, args)
        return y / (1.0 + jnp.sum(y * y)), k + jnp.int32(1)

    return jax.lax.while_loop(lambda state: state[1] < 3, body, (y, jnp.int32(0)))[0]

def loosely(field, y, args):
    start = jnp.tanh(y) * jnp.cos(y) + y
    for k in range(9):
        start = jnp.sin(start) * (k + 1.5)
    found = solve(field, start, args)[0]
    first, second = jnp.split(jnp.concatenate([found, start]), 2)
    return jnp.where(jnp.max(first) > 3.0, first, second) - jnp.mean(first)
"""


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "site-packages" / "solving.py"
    path.parent.mkdir()
    path.write_text(LIBRARY)
    names = {"__name__": "solving"}
    exec(compile(LIBRARY, str(path), "exec"), names)
    return names


def field(y, args):
    drag = args["rate"] * y
    force = jnp.sin(drag) - args["force"]
    return force


Y, ARGS = jnp.ones(3), {"rate": jnp.float32(0.2), "force": jnp.ones(3)}


def drawn(library, name="solve"):
    def run(y, args):
        found = library[name](field, y * 2.0, args)
        return found

    return draw(run, Y, ARGS)


def titled(picture, title):
    shown = [*picture.clusters, *picture.nodes]
    return next(one for one in shown if " ".join(one.lines).startswith(title))


def edges(picture):
    names = {node.id: node.lines[0] for node in picture.nodes}
    return {(names[edge.source], names[edge.target]) for edge in picture.edges}


def eqns_in(picture):
    counts = picture.counts
    return counts.drawn + sum(counts.folded.values())


@pytest.mark.parametrize("name", ["solve", "until"])
def test_a_function_in_a_loop_of_a_library_is_seen(library, name):
    picture = drawn(library, name).picture
    call = titled(picture, "library[name](field, •, args)")
    frame = titled(picture, "field")
    rest = titled(picture, "rest of solving")
    assert frame.parent == call.id == rest.cluster
    loops = {"solve": "in scan ×4", "until": "in while › scan ×4"}[name]
    assert frame.lines == (f"field · {loops}, 1 of 2",)
    assert titled(picture, "drag = args").cluster == frame.id
    assert eqns_in(picture) == picture.counts.total


@pytest.mark.parametrize("jitted", [False, True])
def test_a_program_that_is_one_call_of_a_library_is_one_frame_with_one_rest(library, jitted):
    """However many statements of the library stand beside its loop."""

    def run(y, args):
        return library["loosely"](field, y, args)

    picture = draw(jax.jit(run) if jitted else run, Y, ARGS).picture
    rest, frame = titled(picture, "rest of solving"), titled(picture, "field")
    assert titled(picture, "return library").id == rest.cluster == frame.parent
    computing = [node.lines[0] for node in picture.nodes if node.kind in COMPUTING]
    assert computing == ["rest of solving", 'drag = args["rate"] * y', computing[-1]]
    assert computing[-1].startswith("force = ")
    assert eqns_in(picture) == picture.counts.total


def test_only_calls_that_run_functions_of_the_users_open_by_themselves(library):
    def run(y, args):
        smooth = library["smoothed"](y)
        moved = library["applied"](field, smooth * 2.0, args)
        return moved - smooth

    picture = draw(run, Y, ARGS).picture
    assert titled(picture, "smooth = library").kind == "hop"  # closed
    opened = titled(picture, "moved = library")
    assert opened in picture.clusters
    assert titled(picture, "drag =")


def test_the_users_own_jitted_program_is_no_call_of_a_library(library):
    def run(y, args):
        start = y * 2.0
        found = library["solve"](field, start, args)
        change = found[0] - start
        return change / jnp.sum(change**2)

    picture = draw(jax.jit(run), Y, ARGS).picture
    whole = titled(picture, "jit run")
    for title in ("start = y", "found = library", "change = found", "return change"):
        assert whole.id in (getattr(titled(picture, title), at, "") for at in ("cluster", "parent"))
    assert titled(picture, "rest of solving").cluster == titled(picture, "found = library").id


def test_two_calls_in_a_row_are_two(library):
    picture = drawn(library, "twice").picture
    frame = titled(picture, "field")
    assert frame.lines == ("field · in scan ×4, 1 of 2",)
    inside = [one.lines[0] for one in picture.nodes if one.cluster == frame.id]
    assert [title.split()[0] for title in inside] == ["drag", "force"]
    rest, drag, force = (titled(picture, title) for title in ("rest of", "drag =", "force ="))
    assert {(rest.id, drag.id), (force.id, rest.id)} <= {
        (edge.source, edge.target) for edge in picture.edges
    }
    assert eqns_in(picture) == picture.counts.total


@pytest.mark.parametrize("name", ["solve", "until"])
def test_its_lines_are_what_it_takes_and_returns(library, name):
    picture = drawn(library, name).picture
    rest, drag, force, rate, pull = (
        titled(picture, title)
        for title in ("rest of", "drag =", "force =", "args['rate']", "args['force']")
    )
    ends = {(edge.source, edge.target): edge.head for edge in picture.edges}
    assert ends[rest.id, drag.id] == "y"
    assert ends[force.id, rest.id] == "force"
    # No iteration changes these, so they come from outside of the loop.
    assert {(rate.id, drag.id), (pull.id, force.id), (drag.id, force.id)} <= ends.keys()
    assert (rest.id, force.id) not in ends


PIECES = """
import jax
import jax.numpy as jnp

def sample(y):
    return y * jnp.float32(2.0)

def run(model, y, steps=5):
    def one(y, _):
        value = jax.grad(lambda y: model(y, sample) ** 2)(y)
        for _ in range(9):
            value = jnp.tanh(value) + jnp.cos(value * y)
        return value, None

    y = model(y, sample) - jnp.float32(1.0)
    return jax.lax.scan(one, y, None, length=steps)[0]
"""


@pytest.fixture
def sampler(tmp_path):
    path = tmp_path / "site-packages" / "sampling.py"
    path.parent.mkdir()
    path.write_text(PIECES)
    names = {"__name__": "sampling"}
    exec(compile(PIECES, str(path), "exec"), names)
    return names["run"]


def test_a_function_that_calls_the_library_back_is_one_frame(sampler):
    def model(y, sample):
        drawn = sample(y)
        shifted = drawn - jnp.float32(3.0)
        return jnp.sin(shifted)

    picture = draw(lambda y: sampler(model, y), jnp.float32(0.5)).picture
    frames = [one.lines[0] for one in (*picture.clusters, *picture.nodes)]
    assert frames.count("model · in scan ×5") == 1
    assert frames.count("∂ model · in scan ×5") == 1
    assert "model" in frames  # which it calls outside of the loop, too
    assert eqns_in(picture) == picture.counts.total
    [frame] = [one for one in picture.clusters if one.lines[0] == "model · in scan ×5"]
    inside = [one.lines[0] for one in picture.nodes if one.cluster == frame.id]
    assert inside[0].startswith("drawn = sample(y)")
    assert any(title.startswith("shifted = drawn") for title in inside)


def test_a_function_of_one_statement_is_titled_by_it(library):
    def rate(y, args):
        return -args["rate"] * y

    picture = draw(lambda y, args: library["solve"](rate, y, args), Y, ARGS).picture
    node = titled(picture, 'return -args["rate"] * y')
    assert node.lines[1] == "rate, in scan ×4, 1 of 2"


def test_every_function_is_named(library):
    drawing = drawn(library, "until")
    program = drawing.builder.program
    assert [*called_functions(program)] == ["field"]
    assert hidden_functions(program, drawing.picture) == []


def test_the_call_closes_and_opens_in_two_steps(library):
    drawing = drawn(library)
    first = drawing.picture
    closed = drawing.fold(titled(first, "library[name]").fold).picture
    node = titled(closed, "library[name]")
    assert node.address == "1:scan"
    assert not closed.clusters
    assert eqns_in(closed) == closed.counts.total
    again = drawing.fold(node.fold).unfold(node.fold).picture
    lines = "field", "in scan ×4, 1 of 2", "3 equations", "f32[3]"
    assert titled(again, "field").lines == lines
    assert eqns_in(again) == again.counts.total
    whole = drawing.unfold(titled(first, "rest of solving").fold)
    frames = {one.id for one in whole.picture.clusters}
    assert {"1:scan/body", "1:scan/body/group:36-38"} <= frames
    assert eqns_in(whole.picture) == whole.picture.counts.total
    assert whole.fold("1:scan").picture == first


def test_every_address_stands_for_what_is_there(library):
    """Of the call that is seen the own nodes; of the other one, and all else, the rest."""
    drawing = drawn(library)
    picture, builder = drawing.picture, drawing.builder
    seen = {"36": "drag =", "37": "force =", "38": "force ="}
    for address, _ in taxpr.iter_eqns(builder.program):
        if address.startswith("1:scan"):
            title = seen.get(address.short, "rest of") if address.home else "rest of"
            assert picture.element_of(address) is titled(picture, title)


@pytest.mark.parametrize("name", ["solve", "until"])
def test_an_equation_of_it_is_revealed_where_it_stands(library, name):
    builder = drawn(library, name).builder
    first = builder.picture()
    sub = next(n.address for n in first.nodes if n.lines[0].startswith("drag"))
    inner = sub.replace("36:mul", "37:sin")
    found = builder.reveal(inner, first.unfolded)
    picture = builder.picture(found.unfolded)
    assert picture.find(inner).cluster == titled(picture, "force =").id
    assert titled(picture, "force =").parent == titled(picture, "field").id
    assert titled(picture, "rest of solving")  # which stays closed
    assert builder.path_to(inner)[0] == titled(first, "library[name]").fold
    # What is not lifted needs the whole call.
    other = inner.replace("37:sin", "0:mul")
    opened = builder.picture(builder.reveal(other, first.unfolded).unfolded)
    assert opened.find(other) is not None


def test_parts_of_a_saved_page_are_those_of_the_picture(library):
    builder = drawn(library).builder
    picture = builder.picture()
    call, force = titled(picture, "library[name]"), titled(picture, "force =")
    path = [call.fold, titled(picture, "field").fold, force.fold]
    part = builder.part(force.fold, path)
    whole = builder.picture({*picture.unfolded, force.fold})
    own = [node for node in whole.nodes if node.cluster == force.fold]
    assert own
    assert [n for n in part.nodes if n.cluster == force.fold] == own
    part = builder.part("1:scan", [call.fold, "1:scan"])
    assert {n.address for n in part.nodes} >= {"1:scan/body/37:sin"} or part.clusters


def test_costs_count_each_iteration(library):
    picture = drawn(library).picture
    drag = titled(picture, "drag =")
    assert "in all 4 runs" in drag.tooltip
    assert "with the functions beside it" in titled(picture, "rest of").tooltip


OPTIMIZER = """
import jax
import jax.numpy as jnp

def chain(*parts):
    def update_fn(updates, scale):
        for part in parts:
            updates = part(updates, scale)
        return updates

    return update_fn

def clip_all(bound):
    def update_fn(updates, scale):
        return jax.tree.map(lambda u: jnp.clip(u * scale, -bound, bound), updates)

    return update_fn

def scale_all(factor):
    def update_fn(updates, scale):
        return jax.tree.map(lambda u: factor * u / (scale + 1.0), updates)

    return update_fn
"""


def test_an_optimizer_is_titled_by_the_users_line_and_says_its_parts(tmp_path):
    path = tmp_path / "site-packages" / "optimizing.py"
    path.parent.mkdir()
    path.write_text(OPTIMIZER)
    names = {"__name__": "optimizing"}
    exec(compile(OPTIMIZER, str(path), "exec"), names)
    parts = names["clip_all"](1.0), names["scale_all"](0.1)
    update = names["chain"](names["chain"](*parts))

    def loss(w, x):
        hidden = jnp.tanh(x @ w["in"])
        return jnp.mean((hidden @ w["out"]) ** 2)

    def step(w, x):
        slopes = jax.grad(loss)(w, x)
        return update(slopes, 0.5)

    w = {"in": jnp.ones((3, 4)), "out": jnp.ones((4, 2))}
    program = taxpr.trace(step)(w, jnp.ones((5, 3)))
    picture = draw(program, budget=20).picture
    node = titled(picture, "return update(slopes")
    assert node.lines[1] == "clip_all → scale_all"
    assert eqns_in(picture) == picture.counts.total


class Drift:
    def field(self, y, args):
        pulled = y * args["rate"]
        return pulled - args["force"]


class Kick:
    def field(self, y, args):
        turned = jnp.sin(y)
        return jnp.exp(turned) * args["rate"]


def test_methods_of_one_name_are_two_functions(library):
    def run(y, args):
        found = library["split"](Drift().field, Kick().field, y * 2.0, args)
        return found

    picture = draw(run, Y, ARGS).picture
    frames = [one.address for one in picture.clusters if ".field · " in one.lines[0]]
    names = [picture.element_of(frame).lines[0].partition(" · ")[0] for frame in frames]
    assert names == ["Drift.field", "Kick.field"]
    inside = {
        frame: [
            one.lines[0] for one in picture.nodes if one.cluster == picture.element_of(frame).id
        ]
        for frame in frames
    }
    assert [*map(len, inside.values())] == [2, 2]


def test_what_moves_out_of_a_loop_of_a_library_stands_in_the_users_statement(library):
    steady = library["steady"]

    def loss(y):
        end = steady(jnp.sin(y) * jnp.cos(y))
        cost = jnp.sum(jnp.exp(end) * end)
        return cost

    def fit(y):
        value, slope = jax.value_and_grad(loss)(y)
        return y - 0.1 * slope, value

    picture = draw(fit, Y).picture
    shown = [one.lines[0] for one in (*picture.nodes, *picture.clusters)]
    assert [text for text in shown if text.startswith("forward")] == ["forward pass of loss"]
    assert sum(text.startswith("end = steady(") for text in shown) == 1


def test_the_rest_is_called_by_the_library_of_the_called_function(library, tmp_path):
    path = tmp_path / "site-packages" / "wrapping.py"
    path.write_text("def wrapped(fun):\n    return lambda *args: fun(*args)\n")
    names = {"__name__": "wrapping"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    solve = names["wrapped"](library["solve"])

    def run(y, args):
        found = solve(field, y * 2.0, args)
        return found

    assert titled(draw(run, Y, ARGS).picture, "rest of solving")


def test_a_long_note_on_where_a_function_runs_is_not_cut(library):
    def potential_of_the_long_name(y, args):
        return -jnp.sum(jnp.sin(y) * args["rate"]) * args["force"]

    def run(y, args):
        found = library["until"](potential_of_the_long_name, y * 2.0, args)
        return found

    node = titled(draw(run, Y, ARGS).picture, "return -jnp.sum(")
    assert "in while › scan ×4, 1 of 2" in node.lines
    assert "potential_of_the_long_name" in node.lines


def test_a_function_that_is_one_call_of_a_library_is_told_with_its_line(library):
    def cost(y):
        end = library["total"](y)
        return end

    def fit(y):
        value, slope = jax.value_and_grad(cost)(y)
        return y - 0.1 * slope, value

    picture = draw(fit, Y).picture
    assert titled(picture, 'forward pass of cost · end = library["total"](y)')
    assert titled(picture, 'backward pass of cost · end = library["total"](y)')


def test_layers_without_a_name_are_told_by_their_class(tmp_path):
    path = tmp_path / "site-packages" / "layered.py"
    path.parent.mkdir()
    path.write_text(LAYERS)
    names = {"__name__": "layered"}
    exec(compile(LAYERS, str(path), "exec"), names)
    net = names["Chain"]()

    def run(x):
        out = net(x)
        return jnp.mean(out**2)

    titles = [one.lines[0] for one in draw(run, Y).picture.clusters]
    assert titles == ["0 · Wave", "1 · Bump"]


LAYERS = """
import jax
import jax.numpy as jnp

class Wave:
    def __call__(self, x):
        return jnp.sin(x) * jnp.cos(x)

class Bump:
    def __call__(self, x):
        return jnp.exp(-x * x)

class Chain:
    def __call__(self, x):
        for k, layer in enumerate((Wave(), Bump())):
            with jax.named_scope(str(k)):
                x = layer(x)
        return x
"""


PREPARED = f"""{PIECES}
def prepared(model, y):
    y = jnp.tanh(y) * jnp.float32(2.0)
    y = y / (jnp.float32(1.0) + jnp.abs(y))
    return run(model, y)

def choosing(fun, y):
    bad = jnp.isnan(y) | jnp.isinf(y)
    bad = jnp.logical_not(jnp.logical_not(bad)) & (jnp.abs(y) > 0)
    return jax.lax.cond(bad, fun, lambda y: y, y)
"""


def installed(text, folder):
    path = folder / "site-packages" / "preparing.py"
    path.parent.mkdir()
    path.write_text(text)
    names = {"__name__": "preparing"}
    exec(compile(text, str(path), "exec"), names)
    return names


def test_no_frame_has_the_title_of_the_one_around_it(tmp_path):
    library = installed(PREPARED, tmp_path)

    def model(y, sample):
        drawn = sample(y)
        shifted = drawn - jnp.float32(3.0)
        return jnp.sin(shifted)

    def fit(y):
        end = library["prepared"](model, y)
        return end * jnp.float32(2.0)

    frames = {one.id: one for one in draw(fit, jnp.float32(0.5)).picture.clusters}
    titles = {one.lines[0] for one in frames.values()}
    assert {'end = library["prepared"](model, y)', "prepared · 2 of 2"} <= titles
    inner = [one for one in frames.values() if one.parent]
    assert not [one for one in inner if one.lines == frames[one.parent].lines]


def test_equations_of_a_library_beside_the_users_branch_are_one_box(tmp_path):
    library = installed(PREPARED, tmp_path)

    def loss(y):
        root = jnp.sin(y)
        return root * root

    def model(y):
        h = jnp.tanh(y) * jnp.sin(y) + jnp.exp(y) * jnp.cos(y)
        h = jnp.tanh(h) / jnp.cos(y) - jnp.exp(h) * jnp.cos(y)
        value = library["choosing"](loss, h)
        return jnp.sin(value) * jnp.sin(y) - jnp.exp(value) / jnp.cos(y)

    picture = draw(model, jnp.float32(0.5)).picture
    [call] = (one for one in picture.clusters if one.lines[0].startswith("value = library"))
    assert [node.lines[0] for node in picture.nodes if node.cluster == call.id] == ["choosing"]
    assert titled(picture, "root = jnp.sin(y)")
