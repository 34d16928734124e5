"""The picture as XLA has compiled it: shared kernels, removed equations, collectives."""

import re

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr import introspect
from taxpr_jupyter import PanelError, Session, draw
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._heat.as_compiled import AsCompiled
from taxpr_jupyter._view.widget import view_for


def train(params, x, goal):
    def loss(params):
        hidden = jnp.tanh(x @ params["w"] + params["b"][None])
        unused = jnp.cos(hidden).sum()  # noqa: F841 - XLA removes it
        shares = jax.nn.softmax(hidden @ params["o"])
        return jnp.mean((shares - goal) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, value


def recurrent(w, xs):
    def step(state, x):
        gate = jax.nn.sigmoid(state @ w + x)
        state = gate * state + (1.0 - gate) * jnp.sin(x)
        return state, state.sum()

    state, sums = jax.lax.scan(step, jnp.zeros((8, 32)), xs)
    return jnp.sum(state**2) + sums.sum()


PARAMS = {"w": jnp.ones((64, 128)), "b": jnp.zeros(128), "o": jnp.ones((128, 10))}
TRAIN = PARAMS, jnp.ones((32, 64)), jnp.ones((32, 10))
PROGRAMS = {
    "train": (train, TRAIN),
    "recurrent": (jax.grad(recurrent), (jnp.ones((32, 32)), jnp.ones((10, 8, 32)))),
}


@pytest.fixture(scope="module")
def compiled():
    """Each program as XLA has compiled it."""
    programs = {name: taxpr.trace(fun, names=True)(*args) for name, (fun, args) in PROGRAMS.items()}
    return {name: AsCompiled(one, taxpr.compiled(one)()) for name, one in programs.items()}


REPEATED = {"stub", "again", "bar", "choice"}  # they show what stands elsewhere


def inside(equation, places):
    return any(taxpr.Address(equation).is_in(at) or equation == at for at in places)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("budget", [6, 30, 200])
def test_each_box_has_the_kernels_that_it_shares_with_others_and_gray_are_those_without(
    compiled, name, budget
):
    found = compiled[name]
    rows = dict(enumerate(found.answer.rows, 1))
    removed = [one for row in found.answer.removed.rows for one in row.equations]
    every = [at for at, eqn in introspect.iter_eqns(found.program) if not introspect.is_tag(eqn)]
    leaves = [at for at in every if not any(one.is_in(at) for one in every)]
    picture = Builder(found.program, budget).picture(heat=found)
    seen = 0
    for node in picture.nodes:
        made = {"removed", "alone"}.intersection(node.marks)
        made |= {mark for mark in node.marks if mark.startswith("kernel-")}
        if not made:
            assert not node.kernels
            continue
        seen += 1
        assert len(made) == 1
        places = picture.hidden.get(node.address, (node.address,))
        own = [at for at in leaves if inside(at, places)]
        shared = []
        for k, row in rows.items():
            within = [inside(at, places) for at in row.equations]
            if any(within) and not all(within):
                shared.append(k)
        assert node.kernels == tuple(shared)
        gone = bool(own) and all(at in removed for at in own)
        assert ("removed" in node.marks) == gone
        assert ("XLA removed it: " in node.tooltip) == gone
        shown = re.findall(r"\[(k\d+(?: k\d+| …)*)\]", " ".join(node.lines))
        assert shown == ([" ".join(f"k{k}" for k in shared)] if 0 < len(shared) < 4 else shown)
        assert bool(shown) == bool(shared)
        for k in shared[:4]:
            assert f"kernel {k}, {rows[k].instruction}, of {len(rows[k].equations)} equa" in (
                node.tooltip
            )
    assert seen == sum(
        node.kind in ("eqn", "hop", "group") and REPEATED.isdisjoint(node.marks)
        for node in picture.nodes
    )


def test_nodes_of_one_kernel_have_one_colour_and_those_in_turn_have_different_ones(compiled):
    found = compiled["train"]
    picture = Builder(found.program, 200).picture(heat=found)
    tints = {}
    for node in picture.nodes:
        if len(node.kernels) == 1:
            [tint] = [mark for mark in node.marks if mark.startswith("kernel-")]
            tints.setdefault(node.kernels[0], set()).add(tint)
    assert len(tints) > 2
    assert all(len(one) == 1 for one in tints.values())
    assert len({one.pop() for one in tints.values()}) > 2


def test_a_statement_that_is_not_needed_is_gray(compiled):
    found = compiled["train"]
    picture = Builder(found.program, 30).picture(heat=found)
    [node] = [node for node in picture.nodes if "unused = " in " ".join(node.lines)]
    assert "removed" in node.marks
    assert node.cost[0].startswith("XLA removed it")


@pytest.fixture
def session():
    session = Session(train, TRAIN, names=True)
    yield session
    view_for(session).close()


def test_a_session_shows_it_once_it_was_asked(session):
    with pytest.raises(PanelError, match=r"'compiled' was not measured.*: ask\('compiled'\) first"):
        session.heat = "compiled"
    session.ask("compiled")
    session.heat = "compiled"
    picture = session.picture()
    assert picture.heat.kind == "compiled"
    assert session.line_heat() == {}
    svg = session.svg()
    assert "kernels of XLA" in svg
    kernels = {node.address: node.kernels for node in picture.nodes if node.kernels}
    for address, numbers in kernels.items():
        words = " ".join(map(str, numbers))
        assert re.search(rf'data-address="{re.escape(address)}"[^>]* data-kernels="{words}"', svg)
    assert svg.count("data-kernels=") == len(kernels)
    assert "kernels of XLA" in session.html()
    session.heat = None
    assert "data-kernels" not in session.svg()


def test_a_drawing_is_compiled_where_that_is_asked_for(session):
    drawing = draw(train, *TRAIN, heat="compiled")
    session.ask("compiled")
    session.heat = "compiled"
    shown = {node.address: node.kernels for node in session.picture().nodes}
    assert {node.address: node.kernels for node in drawing.picture.nodes} == shown
    with pytest.raises(PanelError, match="can be coloured by 'flops', 'bytes', 'compiled' or None"):
        draw(train, *TRAIN, heat="time")


def test_a_program_whose_tracing_failed_cannot_be_compiled():
    error = None
    try:
        taxpr.trace(lambda x: jnp.sin(x) @ jnp.ones(7))(jnp.ones(3))
    except TypeError as caught:
        error = caught
    with pytest.raises(PanelError, match=r"compiled.* needs a whole program"):
        draw(error, heat="compiled")


def test_each_line_has_the_kernels_that_it_shares_with_others_and_gray_are_those_without(session):
    answer = session.ask("compiled")
    hidden = next(one for row in session.source().rows for one in row.line.variables)
    session.tag(hidden.address, hidden.name)  # which changes no kernel
    assert session.line_kernels() == {}
    session.heat = "compiled"
    found, rows = session.line_kernels(), session.source().rows
    assert [row.line.number for k, row in enumerate(rows) if k in found] == [
        row.line.number for row in rows if row.line.equations
    ]
    removed = {one for row in answer.removed.rows for one in row.equations}
    seen = 0
    for k, one in found.items():
        own = {each.address for each in rows[k].line.equations}
        every = enumerate(answer.rows, 1)
        shared = [n for n, row in every if own & set(row.equations) and set(row.equations) - own]
        assert list(one.kernels) == shared
        assert one.removed == (own <= removed)
        seen += bool(shared)
    assert seen > 1
    [unused] = [k for k, row in enumerate(rows) if "unused = " in row.line.text]
    assert found[unused].removed


def test_the_tab_source_has_a_mark_for_each_line_of_kernels(session):
    view = view_for(session)
    view.graph.view = "source"
    view.graph._handle_custom_msg({"do": "heat", "address": "compiled"}, [])
    while view.jobs.tasks():
        assert view.wait(100)
    heat, found = view.graph.source_heat, session.line_kernels()
    assert heat["title"] == "kernels of XLA"
    assert re.match(r"\d+ kernels, \d+ of several statements; \d+ equations gone", heat["rest"])
    told = {k for k, one in found.items() if one.kernels or one.removed or one.moved}
    assert set(heat["lines"]) == {str(k) for k in told}
    for k, shown in heat["lines"].items():
        one = found[int(k)]
        numbers = re.findall(r"k(\d+)", shown["sign"])
        assert numbers == [str(number) for number in one.kernels[:3]]
        assert (shown["mark"] == "removed") == (shown["sign"] == "gone") == one.removed
        assert shown["mark"] == one.marks[0]
    session.heat = None
    while view.jobs.tasks():
        assert view.wait(100)
    assert view.graph.source_heat == {"title": "", "rest": "", "lines": {}}


def test_in_the_panel_a_choice_asks_for_it(session):
    view = view_for(session)
    view.graph._handle_custom_msg({"do": "heat", "address": "compiled"}, [])
    while view.jobs.tasks():
        assert view.wait(100)
    assert (session.heat, view.graph.heat) == ("compiled", "compiled")
    assert view.graph.answer["question"] == "compiled"
    assert "data-kernels" in view.graph.svg
