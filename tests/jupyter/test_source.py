"""The source view: lines with what became of them, as data and in the panel."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session, draw
from taxpr_jupyter._lines.source import HOW_NAMES, NO_SHARES, LinesOf, SourceRows
from taxpr_jupyter._view.widget import view_for


def helper(x):
    return jnp.tanh(x)


def f(w, xs):
    def step(h, x):
        y = helper(w @ h + x)
        return y, y.sum()

    h, sums = jax.lax.scan(step, jnp.zeros(4), xs)
    half = h.astype(jnp.float16)
    wide = half.astype(jnp.float32)
    return wide.sum() + jnp.log(sums.min())


ARGS = (0.1 * jnp.ones((4, 4)), -jnp.ones((5, 4)))


@pytest.fixture
def session():
    session = Session(f, ARGS, names=True)
    yield session
    view_for(session).close()


def number_of(rows, text):
    [number] = [k for k, row in enumerate(rows) if row.line.text.strip() == text]
    return number


def test_lines_have_equations_variables_costs_and_marks(session):
    rows = session.source().rows
    row = rows[number_of(rows, "y = helper(w @ h + x)")]
    names = [found.eqn.primitive.name for found in row.line.equations]
    assert {"dot_general", "add"} <= set(names) <= {"dot_general", "add", "convert_element_type"}
    assert {found.runs for found in row.line.equations} == {5}
    assert [str(one) for one in row.line.variables] == ["step.y 0"]
    assert row.marks == ("most FLOPs", "most bytes")
    assert row.flops > 0.5
    of_tanh = rows[number_of(rows, "return jnp.tanh(x)")]
    assert [found.eqn.primitive.name for found in of_tanh.line.equations] == ["tanh"]
    loop = rows[number_of(rows, "h, sums = jax.lax.scan(step, jnp.zeros(4), xs)")]
    assert [found.eqn.primitive.name for found in loop.line.holding] == ["scan"]
    assert rows[number_of(rows, "wide = half.astype(jnp.float32)")].marks == ("f16→f32",)
    assert rows[number_of(rows, "half = h.astype(jnp.float16)")].marks == ()
    assert sum(row.flops or 0 for row in rows) == pytest.approx(1)
    assert sum(row.bytes or 0 for row in rows) == pytest.approx(1)
    parts = session.source().listing.parts
    assert [part.lines[0].text for part in parts] == ["def f(w, xs):", "def helper(x):"]


def test_text_tab_and_page_are_made_of_the_same(session):
    source = session.source()
    assert source.text().startswith(f"# {__file__.rpartition('/')[2]}\n")
    lines = [line for part in source.state()["parts"] for line in part["lines"]]
    assert [line["number"] for line in lines] == [row.line.number for row in source.rows]
    page = draw(session.program).html()
    assert '"text":"        y = helper(w @ h + x)"' in page


def doubled(x):
    return jax.lax.while_loop(lambda c: c < 9.0, lambda c: c * 2, x)


def test_without_names_and_without_a_number_of_runs():
    source = SourceRows(taxpr.trace(doubled)(1.0))
    assert source.note == f"{HOW_NAMES} {NO_SHARES}"
    assert all(row.flops is None and not row.marks for row in source.rows)
    assert [len(row.line.equations) for row in source.rows] == [0, 2]


def test_of_what_has_no_source_the_functions_are_named():
    made = {"jnp": jnp}
    exec("def g(x):\n    return jnp.sin(x)", made)
    source = SourceRows(taxpr.trace(made["g"])(1.0))
    assert source.rows == ()
    assert source.rest == "1 equation from code without a known source: g"


def test_lines_of_what_is_in_a_picture(session):
    rows = session.source().rows
    calls = number_of(rows, "y = helper(w @ h + x)")
    tanh, begin = number_of(rows, "return jnp.tanh(x)"), number_of(rows, "def f(w, xs):")
    scan = next(eqn for eqn in session.edited.eqns if eqn.primitive.name == "scan")
    at = next(a for a, eqn in taxpr.iter_eqns(session.edited) if eqn is scan)
    inside = {e.primitive.name: a for a, e in taxpr.iter_eqns(session.edited) if "/" in a}
    assert session.lines_of(["in0"]) == {"in0": [begin]}
    assert session.lines_of([inside["dot_general"]]) == {inside["dot_general"]: [calls]}
    assert session.lines_of([inside["tanh"]]) == {inside["tanh"]: sorted([calls, tanh])}
    assert {calls, tanh} <= set(session.lines_of([at])[at])
    assert session.lines_of(["9:nothing"]) == {}
    session.tag(inside["tanh"], name="t")  # which moves nothing
    assert session.lines_of([inside["tanh"]]) == {inside["tanh"]: sorted([calls, tanh])}


def test_a_line_is_a_slice_of_the_program(session):
    rows = session.source().rows
    line = rows[number_of(rows, "return jnp.tanh(x)")].line.number
    [inside] = [a for a, eqn in taxpr.iter_eqns(session.edited) if eqn.primitive.name == "tanh"]
    short = __file__.rpartition("/")[2]
    for file in (__file__, short):
        assert session.line(f"{file}:{line}").touches(inside)
    assert session.line(f"{short}:{line}").touches(inside.partition("/")[0])
    with pytest.raises(PanelError, match=r"went through no line 'test_source.py:1'"):
        session.line("test_source.py:1")
    begin = rows[number_of(rows, "def f(w, xs):")].line.number
    with pytest.raises(PanelError, match="made no equation"):
        session.line(f"{short}:{begin}")


def waited(view):
    give_up = time.monotonic() + 60
    while view.jobs.tasks():
        assert time.monotonic() < give_up
        time.sleep(0.01)
    with view.jobs.lock:
        return view.graph


def test_the_tab_is_filled_when_it_is_opened(session):
    view = view_for(session)
    assert view.graph.source == {}
    assert session._navigator._source is None
    view.graph.set_state({"view": "source"})
    graph = waited(view)
    texts = [line["text"] for part in graph.source["parts"] for line in part["lines"]]
    assert "    half = h.astype(jnp.float16)" in texts
    rows = session.source().rows
    assert graph.source_of["in0"] == [number_of(rows, "def f(w, xs):")]
    scan = next(a for a, eqn in taxpr.iter_eqns(session.edited) if eqn.primitive.name == "scan")
    session.fold(scan)
    assert len(waited(view).source_of[scan]) > 3
    session.run()
    assert marks_of(session) == {
        "return wide.sum() + jnp.log(sums.min())": {"bad": "not finite: 1 element"}
    }


def test_a_tag_says_where_it_is_not_finite(session):
    view = view_for(session)
    view.graph.set_state({"view": "source"})
    waited(view)
    [log] = [a for a, eqn in taxpr.iter_eqns(session.edited) if eqn.primitive.name == "log"]
    session.tag(log, name="log")
    waited(view)
    line = "return wide.sum() + jnp.log(sums.min())"
    watched = {"watched": "has the tag log: a run records it"}
    assert marks_of(session) == {line: watched}
    session.run()
    waited(view)
    kept = {"recorded": "recorded at the tag log"}
    assert marks_of(session) == {line: {"bad": "not finite: 1 element", **kept}}


def marks_of(session):
    """What runs say of the lines, by their texts."""
    rows = session.source().rows
    return {
        rows[int(k)].line.text.strip(): {mark["kind"]: mark["text"] for mark in marks}
        for k, marks in view_for(session).graph.source_run.items()
    }


@jax.jit
def jitted(x):
    y = jnp.sin(x)
    z = y - 2.0
    return {"log": jnp.log(z), "sum": y.sum()}


def called(x):
    shifted = x - 9.0
    return jax.jit(lambda a: jax.lax.fori_loop(0, 2, lambda i, b: jnp.log(b), a))(shifted)


def test_a_run_marks_lines_within_calls_too():
    session = Session(jitted, (jnp.ones(3),))
    view = view_for(session)
    view.graph.set_state({"view": "source"})
    waited(view)
    session.run()
    made = 'return {"log": jnp.log(z), "sum": y.sum()}'
    assert marks_of(session) == {made: {"bad": "not finite: 3 elements"}}
    [sin] = [a for a, eqn in taxpr.iter_eqns(session.edited) if eqn.primitive.name == "sin"]
    session.attach(sin, "scale", factor=10.0)
    session.run()
    waited(view)
    said = "2 of 2 arrays changed, by 22.7 at most (out['sum'])"
    assert marks_of(session)[made]["changed"] == said
    assert "recorded at the tag" in marks_of(session)["y = jnp.sin(x)"]["recorded"]
    view.close()


def updated(params, x):
    grads = jax.grad(lambda p: sum((p[k] * x[k]) for k in p))(params)
    return {k: params[k] - grads[k] for k in params}


def test_a_line_with_many_results_says_once_how_they_changed():
    """The largest change is the one that plain Python finds, and what is the same is counted."""
    x = {f"w{k}": 1.0 + k for k in range(6)} | {"zero": 0.0}
    session = Session(updated, (dict.fromkeys(x, 1.0), x))
    view = view_for(session)
    view.graph.set_state({"view": "source"})
    waited(view)
    [*_, last] = [a for a, eqn in taxpr.iter_eqns(session.edited) if eqn.primitive.name == "sub"]
    for address, eqn in taxpr.iter_eqns(session.edited):
        if eqn.primitive.name == "sub" and address != last:
            session.attach(address, "add", value=0.25)
    run = session.run()
    waited(view)
    changed = [row for row in run.differences if not row.equal]
    most = max(changed, key=lambda row: row.max)
    said = f"{len(changed)} of {len(x)} arrays changed, by {most.max:.3g} at most ({most.name})"
    line = "return {k: params[k] - grads[k] for k in params}"
    assert marks_of(session)[line]["changed"] == said
    assert (len(changed), len(x)) == (6, 7)
    view.close()


def test_of_what_a_loop_makes_the_line_of_the_call_is_marked():
    session = Session(called, (jnp.ones(3),))
    view = view_for(session)
    view.graph.set_state({"view": "source"})
    waited(view)
    session.run()
    [line] = marks_of(session)
    assert line.startswith("return jax.jit(")
    view.close()


def summed(x, sizes):
    def body(total, size):
        total = total + size * x.sum()
        return total, total

    return jax.lax.scan(body, 0.0, sizes)


def test_a_variable_is_found_by_its_own_name():
    session = Session(summed, (jnp.ones(3), jnp.ones(3)), names=True)
    graph = view_for(session).graph
    held = {str(one.text): one.address for one in session.program.variables()}
    graph._handle_custom_msg({"do": "reveal", "address": held["size"]}, [])
    assert graph.selected == held["size"] != held["sizes"]
    assert graph.inspection["title"] == "input size"  # the picture says of what: "xs sizes"
    graph._handle_custom_msg({"do": "reveal", "address": held["sizes"]}, [])
    assert graph.inspection["title"] == "input sizes"
    view_for(session).close()


def test_what_the_browser_asks_for(session):
    graph = view_for(session).graph
    rows = session.source().rows
    row = rows[number_of(rows, "return jnp.tanh(x)")]
    place = f"{row.file}:{row.line.number}"
    graph._handle_custom_msg({"do": "line", "address": place}, [])
    assert graph.slice["line"] == place
    assert (
        graph.slice["words"] == f"What line {row.line.number} of test_source.py makes: 1 equation"
    )
    [address] = [one.address for one in session.program.variables() if str(one) == "step.y 0"]
    graph._handle_custom_msg({"do": "reveal", "address": address}, [])
    assert graph.selected == address.eqn
    assert session.picture().find(address.eqn)
    loop = [one.address for one in session.program.variables() if str(one) == "f.sums 0"]
    graph._handle_custom_msg({"do": "reveal", "address": loop[0]}, [])
    assert graph.selected == loop[0]  # one of several results


def test_lines_know_the_places_of_a_program_with_tags(session):
    index = session._store.edited.tagged.index
    lines = LinesOf(index, session.source())
    assert lines.of_all(["in0", "in0", "9:nothing"]) == {"in0": lines.of("in0")}
    assert dataclasses.is_dataclass(session.source().rows[0])


def test_functions_of_a_cell_with_the_magic_are_known(notebook):
    cell = "%%taxpr\n\ndef g(x):\n    y = jnp.sin(x)\n    return y * 2\n\ng(1.0)"
    source = notebook.good(cell).source()
    assert [row.line.text for row in source.rows][1] == "    y = jnp.sin(x)"
    assert [len(row.line.equations) for row in source.rows] == [0, 1, 1]
    assert source.rest == ""
