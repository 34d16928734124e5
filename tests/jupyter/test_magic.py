"""The magics in a real shell: what they return, where errors point, what they leave behind."""

import threading

import jax
import numpy as np
import pytest

import taxpr_jupyter
from taxpr_jupyter import PanelError, Session

DEFINITION = """
calls = []
def f(x, *rest, k=1.0, **more):
    calls.append(type(x).__name__)
    h = taxpr.tag(jnp.sin(x), name="h")
    return h * k
"""


@pytest.fixture
def with_f(notebook):
    notebook.good(DEFINITION)
    return notebook


def test_the_cells_last_expression_is_traced_and_not_run(notebook):
    session = notebook.good("%%taxpr --name p\n" + DEFINITION + "f(x)")
    assert isinstance(session, Session)
    assert notebook.names["p"] is session
    assert session.call == "f(x)"
    assert [site.name for site in session.sites()] == ["h"]
    assert len(notebook.names["calls"]) == 1
    assert "Tracer" in notebook.names["calls"][0]


def test_all_three_forms_give_the_same(with_f):
    sessions = [
        with_f.good("%%taxpr\nf(x)"),
        with_f.good("%taxpr f(x)"),
        with_f.good("%%taxpr f(x)\ny = 1"),
        with_f.good("from taxpr_jupyter import panel\npanel(f)(x)"),
    ]
    assert len({session.text() for session in sessions}) == 1
    assert {type(session) for session in sessions} == {Session}
    assert {session.code() for session in sessions} == {sessions[0].code()}


def test_a_call_on_the_first_line_runs_the_whole_cell_first(with_f):
    session = with_f.good("%%taxpr g(z)\nz = 2 * x\ndef g(a):\n    return a + 1\nz.sum()")
    assert session.call == "g(z)"
    assert float(with_f.names["z"][1]) == 2.0


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        ("f(x)", ["x"]),
        ("f(x, k=2.0)", ["x", "k"]),
        ("f(x, *[x, x], **{'b': 1})", ["x", "rest[0]", "rest[1]", "more['b']"]),
        ("f(jnp.cos(x))", ["x"]),
        ("jax.grad(lambda v: f(v).sum())(x)", ["v"]),
        ("jax.jit(f)(x)", ["x"]),
        ("(lambda v: v + 1)(x)", ["v"]),
        ("model.apply(x)", ["v"]),
        ("f(  x ,\n   k = 2.0)", ["x", "k"]),
        ("f(x)  # a comment", ["x"]),
        ("f(x);", ["x"]),
    ],
)
def test_calls(with_f, call, inputs):
    with_f.good("class M:\n    def apply(self, v):\n        return v * 2\nmodel = M()")
    with_f.good(f"%%taxpr --name p\n{call}")
    session = with_f.names["p"]
    assert list(session.program.in_names) == inputs
    expected = with_f.good(call.rstrip(";"))
    np.testing.assert_allclose(session.run().outputs, expected, rtol=1e-6)


def test_arguments_are_evaluated_once_in_the_order_of_the_call(with_f):
    with_f.good("seen = []\ndef note(v):\n    seen.append(v)\n    return v")
    with_f.good("%taxpr note(f)(note(1.0), *note([2.0]), k=note(3.0), **note({'d': 4.0}))")
    seen = with_f.names["seen"]
    assert seen == [with_f.names["f"], 1.0, [2.0], 3.0, {"d": 4.0}]


def test_strings_and_functions_are_static_with_a_note(with_f):
    with_f.good("def g(x, mode, act=None):\n    return act(x) if mode == 'act' else x")
    session = with_f.good("%taxpr g(x, 'act', act=jnp.tanh)")
    assert session.program.in_names == ("x",)
    assert session.notes == (
        "The argument mode is text, so it is static.",
        "The argument act is callable, so it is static.",
    )
    assert session.run().ok


def test_static_option_by_name_and_position(with_f):
    with_f.good("def g(x, n, *, m):\n    return sum(x for _ in range(n + m))")
    session = with_f.good("%taxpr --static 1 --static m g(x, 2, m=1)")
    np.testing.assert_allclose(session.run().outputs, [0.0, 3.0, 6.0])
    by_name = with_f.good("%taxpr --static n --static m g(x, 2, m=1)")
    assert by_name.text() == session.text()


def test_the_variables_of_cells_are_known(with_f):
    with_f.good("def g(x):\n    twice = x * 2\n    return jnp.sin(twice)")
    session = with_f.good("%taxpr g(x)")
    assert [(one.text, one.line) for one in session.program.variables()] == [("x", 1), ("twice", 2)]
    session = with_f.good("%%taxpr\ndef h(x):\n    third = x / 3\n    return third\nh(x)")
    assert [one.text for one in session.program.variables()] == ["x", "third"]


def test_the_line_of_the_call_keeps_its_spaces_and_quotes(with_f):
    with_f.good("def g(x, sep):\n    assert sep == 'a  \\'b'\n    return x")
    assert with_f.run("""%taxpr g(x, "a  'b")""").error is None


def test_python_collects_no_garbage_while_a_function_is_traced(with_f):
    with_f.good("""
import gc
collects = []
def seen(x):
    collects.append(gc.isenabled())
    return f(x)
""")
    with_f.good("%taxpr seen(x)")
    with_f.good("from taxpr_jupyter import panel\npanel(seen)(x)")
    assert not any(with_f.names["collects"])
    assert with_f.names["gc"].isenabled()
    assert with_f.run("%taxpr seen('not a number')").error
    assert with_f.names["gc"].isenabled()


def test_a_semicolon_shows_nothing(with_f):
    assert with_f.run("%taxpr f(x);").result is None
    assert with_f.run("%%taxpr --name p\nf(x);").result is None
    assert isinstance(with_f.names["p"], Session)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "head", ["%%taxpr\n", "\n\n%%taxpr --name p\n", "%%taxpr\n\n\n# a comment\n", "%%taxpr f(x)\n"]
)
def test_lines_are_those_of_the_cell(notebook, head):
    body = "def f(x):\n    y = jnp.sin(x)\n    return taxpr.tag(y, name='h')\nf(x)\n"
    session = notebook.good(head + body)
    lines = (head + body).splitlines()
    (site,) = session.sites()
    number = notebook.shell.execution_count - 1
    assert site.source == f"cell {number}, line {lines.index(lines[-2]) + 1} in f"
    assert session.inspect("0:sin").source_line == "y = jnp.sin(x)"
    assert session.inspect("0:sin").source.startswith(f"cell {number}, line {len(lines) - 2}")


def test_decorators_keep_their_lines(notebook):
    head = "%%taxpr\n@jax.jit\n@jax.named_scope('s')\n"
    (site,) = notebook.good(head + "def f(x):\n    return taxpr.tag(x, name='h')\nf(x)").sites()
    assert "line 5" in site.source


def test_an_error_of_the_user_shows_only_the_users_frames(notebook):
    cell = notebook.run("%%taxpr\ndef f(x):\n    y = x + 1\n    return missing + y\nf(x)")
    assert isinstance(cell.error, NameError)
    assert "name 'missing' is not defined" in cell.shown
    assert "----> 4     return missing + y" in cell.shown
    assert "taxpr_jupyter" not in cell.shown
    assert "site-packages" not in cell.shown


def test_an_error_before_the_call_is_shown_at_its_line(notebook):
    cell = notebook.run("%%taxpr\na = 1\nb = a / 0\nf(x)")
    assert isinstance(cell.error, ZeroDivisionError)
    assert "----> 3 b = a / 0" in cell.shown
    assert "taxpr_jupyter" not in cell.shown


def test_a_syntax_error_is_shown_at_its_line(notebook):
    cell = notebook.run("%%taxpr\na = 1\nb = (")
    assert cell.error is not None
    assert "line 3" in cell.shown
    assert "SyntaxError: '(' was never closed" in cell.shown
    assert "taxpr_jupyter" not in cell.shown


def test_panel_shows_the_cell_and_the_function(with_f):
    cell = with_f.run(
        "from taxpr_jupyter import panel\n"
        "def g(x):\n    return x if x.sum() > 0 else -x\n"
        "panel(g)(x)"
    )
    assert isinstance(cell.error, jax.errors.TracerBoolConversionError)
    assert "----> 4 panel(g)(x)" in cell.shown
    assert "----> 3     return x if x.sum() > 0 else -x" in cell.shown
    assert "Hint: A Python `if`" in cell.shown
    assert "taxpr_jupyter/" not in cell.shown


def test_outside_ipython_the_hint_is_a_note_of_the_error():
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        taxpr_jupyter.panel(f)(1.0)
    assert any("jax.lax.cond" in note for note in caught.value.__notes__)


def test_a_mistake_is_one_line_and_a_real_error(with_f):
    cell = with_f.run("%%taxpr\nx + 1")
    assert isinstance(cell.error, PanelError)
    assert cell.shown.strip().count("\n") == 0
    assert cell.shown.startswith("PanelError: `x + 1` is no call")


def test_help_lists_the_options(with_f, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.core.page.page", lambda data, *_, **__: shown.append(str(data)))
    with_f.good("%%taxpr?")
    assert "--budget" in shown[0]
    assert "Trace a call" in shown[0]


def test_config_and_options(with_f):
    with_f.good("%config TaxprMagics.text = True")
    assert with_f.good("%taxpr f(x)").text_only
    with_f.good("%config TaxprMagics.text = False")
    assert not with_f.good("%taxpr f(x)").text_only
    assert with_f.good("%taxpr --text f(x)").text_only
    assert with_f.good("%taxpr --device cpu:0 f(x)").devices()[0] == "cpu:0"


def test_fold_unfold_and_budget(with_f):
    with_f.good("def g(x):\n    return jax.lax.scan(lambda c, v: (c + v, c), 0.0, x)")
    assert "0:scan" in with_f.good("%taxpr --unfold 0:scan g(x)").picture().unfolded
    assert "0:scan" not in with_f.good("%taxpr --fold 0:scan g(x)").picture().unfolded
    assert "0:scan" not in with_f.good("%taxpr --budget 2 g(x)").picture().unfolded
    cell = with_f.run("%taxpr --unfold 7:scan g(x)")
    assert "7:scan holds nothing" in cell.shown


def test_timeout_of_the_layout(with_f):
    session = with_f.good("%taxpr --timeout 0 f(x)")
    assert session.svg() is None
    assert session.layout_note


def test_completion_of_options(with_f):
    for line in ("%taxpr --te", "%%taxpr --name p --te"):
        assert with_f.shell.complete("--te", line, len(line))[1] == ["--text"]
    assert "--text" not in with_f.shell.complete("--te", "%time --te", 10)[1]


def _state(shell):
    hooks = shell.strdispatchers.get("complete_command")
    return {
        "line": set(shell.magics_manager.magics["line"]),
        "cell": set(shell.magics_manager.magics["cell"]),
        "registry": set(shell.magics_manager.registry),
        "configurables": list(map(id, shell.configurables)),
        "matchers": list(getattr(shell.Completer, "custom_matchers", [])),
        "commands": sorted(hooks.strs) if hooks else [],
        "names": set(shell.user_ns) - {"In", "Out", "exit", "quit", "open"},
        "transformers": len(shell.input_transformers_post) + len(shell.ast_transformers),
        "events": {name: len(found) for name, found in shell.events.callbacks.items()},
    }


def _without_results(state):
    names = {name for name in state["names"] if not name.startswith("_")}
    return {**state, "names": names}


def test_unload_leaves_no_trace(bare_notebook):
    shell = bare_notebook.shell
    shell.run_cell("import jax.numpy as jnp\n%unload_ext taxpr_jupyter")
    before = _without_results(_state(shell))
    bare_notebook.good("%load_ext taxpr_jupyter")
    bare_notebook.good("%reload_ext taxpr_jupyter")
    assert bare_notebook.good("%%taxpr\n(lambda v: v + 1)(1.0)") is not None
    assert bare_notebook.run("%%taxpr\nundefined(1)").error is not None
    bare_notebook.good("%unload_ext taxpr_jupyter")
    assert _without_results(_state(shell)) == before
    assert bare_notebook.run("%taxpr f(x)").error is not None
    bare_notebook.good("%load_ext taxpr_jupyter")
    assert bare_notebook.good("%taxpr jnp.sin(1.0)") is not None
    bare_notebook.good("%unload_ext taxpr_jupyter")


def test_an_error_leaves_no_trace(with_f):
    before = _without_results(_state(with_f.shell))
    for cell in ("%%taxpr\nf()", "%taxpr --nope f(x)", "%%taxpr\n1", "%taxpr f(object())"):
        assert with_f.run(cell).error is not None
    assert _without_results(_state(with_f.shell)) == before


def test_reload_does_not_register_twice(notebook):
    for _ in range(3):
        notebook.good("%reload_ext taxpr_jupyter")
    names = [type(found).__name__ for found in notebook.shell.configurables]
    assert names.count("TaxprMagics") == 1


def test_a_kernel_imports_the_panel_in_the_background(bare_notebook, monkeypatch):
    begun = threading.Event()
    monkeypatch.setattr("taxpr_jupyter._ipython.magic._import_panel", begun.set)
    bare_notebook.good("%load_ext taxpr_jupyter")
    bare_notebook.good("%unload_ext taxpr_jupyter")
    assert not begun.is_set()  # a terminal has no panel
    monkeypatch.setattr(bare_notebook.shell, "kernel", object(), raising=False)
    bare_notebook.good("%load_ext taxpr_jupyter")
    assert begun.wait(60)
    bare_notebook.good("%unload_ext taxpr_jupyter")


# ---- a cell that is run again --------------------------------------------------

SCAN = """%%taxpr --name p
def step(c, v):
    c = c + v
    return c, jnp.sin(c)
def g(c, x):
    return jax.lax.scan(step, c, x)
g(x[0], x)"""
SIN = "0:scan/body/1:sin.0"


@pytest.mark.parametrize(
    "metadata", [{"cellId": "one"}, {"colab": {"cell_id": "one"}}], ids=["jupyter", "colab"]
)
def test_a_cell_run_again_keeps_tags_injectors_and_folding(notebook, metadata):
    old = notebook.good(SCAN, metadata=metadata)
    old.tag(SIN, "s")
    old.attach("s", "scale", factor=0.5)
    old.unfold("0:scan")
    old.view_state["zoom"] = 2
    new = notebook.good(SCAN.replace("c + v", "c * v"), metadata=metadata)
    assert old.closed
    assert not new.closed
    assert new.tags == {SIN: {"name": "s"}}
    assert new.injectors[SIN].values == {"factor": 0.5}
    assert "0:scan" in new.unfolded
    assert new.view_state == {"zoom": 2}
    assert new.notes == (
        "Kept from the last run of this cell: 1 added tag (s); 1 injector (scale at s). "
        "`session.untag(name)` and `session.detach(name)`, or the panel, drop them.",
    )


def test_initial_values_that_are_kept_are_said(notebook):
    cell = """%%taxpr
import taxpr, jax.numpy as jnp
total = taxpr.State(0.0, name="total")
def add(x):
    total.value += x
    return total.value
add(2.0)"""
    old = notebook.good(cell, cell_id="one")
    old.set_state("total", 40)
    new = notebook.good(cell, cell_id="one")
    assert new.run().outputs == 42.0
    assert new.notes == (
        "Kept from the last run of this cell: 1 initial value (total). "
        "`session.reset_state(name)`, or the panel, drops them.",
    )


def test_what_is_kept_is_named_up_to_a_few(notebook):
    old = notebook.good(SCAN, cell_id="one")
    for number, address in enumerate(["in0", "in1", SIN, "0:scan/body/0:add.0", "0:scan.0"]):
        old.tag(address, f"n{number}")
    note = notebook.good(SCAN, cell_id="one").notes[0]
    assert note.startswith("Kept from the last run of this cell: 5 added tags (")
    assert ", 1 more)" in note
    assert len(note) < 200


def test_what_cannot_be_kept_is_said(notebook):
    old = notebook.good(SCAN, cell_id="one")
    old.attach(SIN, "zero")
    old.tag("in0", "x")
    new = notebook.good(SCAN.replace("jnp.sin(c)", "jnp.cos(c)"), cell_id="one")
    assert list(new.tags) == ["in0"]
    assert new.notes[0].startswith("Kept from the last run of this cell: 1 added tag (x). ")
    assert new.notes[1:] == (
        f"Dropped, since the program has changed: the tag 'tag1' at {SIN}, "
        f"the injector zero at {SIN}.",
    )


def test_a_tag_now_in_the_source_takes_the_injector(notebook):
    old = notebook.good(SCAN, cell_id="one")
    old.attach(SIN, "scale", factor=2.0)
    changed = SCAN.replace("jnp.sin(c)", "taxpr.tag(jnp.sin(c), name='s')")
    new = notebook.good(changed, cell_id="one")
    assert new.tags == {}
    assert new.injectors[SIN].values == {"factor": 2.0}


def test_other_cells_and_other_panels_of_a_cell_are_left_alone(notebook):
    first = notebook.good(SCAN, cell_id="one")
    other = notebook.good(SCAN, cell_id="two")
    two = "from taxpr_jupyter import panel\npair = [panel(jnp.sin)(1.0), panel(jnp.cos)(1.0)]"
    notebook.good(two, cell_id="three")
    before = notebook.names["pair"]
    before[1].tag("in0", "b")
    notebook.good(two, cell_id="three")
    after = notebook.names["pair"]
    assert not first.closed
    assert not other.closed
    assert [session.closed for session in (*before, *after)] == [True, True, False, False]
    assert [session.tags for session in after] == [{}, {"in0": {"name": "b"}}]


def test_without_cell_ids_nothing_is_closed(notebook):
    first, second = notebook.good(SCAN), notebook.good(SCAN)
    assert not first.closed
    assert not second.closed


# ---- how it shows itself -------------------------------------------------------


def _format(notebook, session):
    return notebook.shell.display_formatter.format(session)


def _as_notebook(notebook, monkeypatch):
    formatter = notebook.shell.display_formatter
    monkeypatch.setattr(formatter, "active_types", list(formatter.format_types))


def test_a_picture_and_text(with_f, monkeypatch):
    _as_notebook(with_f, monkeypatch)
    session = with_f.good("%taxpr f(x)")
    data, _ = _format(with_f, session)
    assert data["image/svg+xml"].startswith("<svg")
    assert "tag[name='h']" in data["text/plain"]
    assert "\x1b" not in data["text/plain"]


def test_text_only(with_f, monkeypatch):
    _as_notebook(with_f, monkeypatch)
    data, _ = _format(with_f, with_f.good("%taxpr --text f(x)"))
    assert set(data) == {"text/plain"}


def test_without_a_layout_there_is_text_and_the_reason(with_f, monkeypatch):
    _as_notebook(with_f, monkeypatch)
    session = with_f.good("%taxpr --timeout 0 f(x)")
    data, _ = _format(with_f, session)
    assert set(data) == {"text/plain"}
    assert session.layout_note in data["text/plain"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_coloured_text(with_f, monkeypatch, is_terminal):
    monkeypatch.setattr(with_f.shell.display_formatter, "active_types", ["text/plain"])
    session = with_f.good("%taxpr f(x)")
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    data, _ = _format(with_f, session)
    assert set(data) == {"text/plain"}
    assert ("\x1b[1;35m" in data["text/plain"]) == is_terminal
    assert "address" in data["text/plain"]


class _View:
    def as_output(self):
        return {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}, {"m": 1}


def _with_kernel(notebook, monkeypatch, view_for):
    import sys
    import types

    _as_notebook(notebook, monkeypatch)
    monkeypatch.setattr(notebook.shell, "kernel", object(), raising=False)
    module = types.ModuleType("taxpr_jupyter._view.widget")
    module.view_for = view_for
    monkeypatch.setitem(sys.modules, "taxpr_jupyter._view.widget", module)


def _published(notebook, monkeypatch, session):
    """The outputs of a cell that shows a session: their data, and the metadata of the last."""
    outputs = []
    monkeypatch.setattr(
        notebook.shell.display_pub, "publish", lambda data, more, **_: outputs.append((data, more))
    )
    assert _format(notebook, session) == ({}, {})
    return [data for data, _ in outputs], outputs[-1][1]


def test_a_kernel_gets_the_panel_besides(with_f, monkeypatch):
    session = with_f.good("%taxpr f(x)")
    _with_kernel(with_f, monkeypatch, lambda session: _View())
    outputs, metadata = _published(with_f, monkeypatch, session)
    picture, between, panel = map(set, outputs)
    assert picture == {"image/svg+xml"}
    assert between == {"text/html"}
    assert panel == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert metadata["m"] == 1
    assert outputs[0]["image/svg+xml"].startswith('<svg class="taxpr-of-1"')


def test_a_panel_that_fails_takes_nothing_with_it(with_f, monkeypatch, caplog):
    def fails(session):
        raise RuntimeError("no comms")

    session = with_f.good("%taxpr f(x)")
    _with_kernel(with_f, monkeypatch, fails)
    (picture, text), _ = _published(with_f, monkeypatch, session)
    assert picture["image/svg+xml"].startswith("<svg")
    assert "There is no panel: RuntimeError: no comms" in text["text/plain"]
    assert {record.name for record in caplog.records} == {"taxpr_jupyter"}
    assert "in fails" in caplog.text


@pytest.mark.parametrize("option", ["--text", "--timeout 0"])
def test_without_a_picture_a_kernel_gets_one_output(with_f, monkeypatch, option):
    session = with_f.good(f"%taxpr {option} f(x)")
    _with_kernel(with_f, monkeypatch, lambda session: _View())
    data, _ = _format(with_f, session)
    assert "text/plain" in data
    assert "image/svg+xml" not in data


def test_importing_the_package_imports_no_ipython():
    import subprocess
    import sys

    code = "import sys, taxpr_jupyter; sys.exit('IPython' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "cell", ["%taxpr --help", "%%taxpr --help", "%taxpr -h", "%%taxpr --help\n1 / 0"]
)
def test_help_is_printed_and_nothing_is_run(notebook, cell):
    found = notebook.run(cell)
    assert found.error is None
    assert found.result is None
    assert "--static ARGUMENT" in found.shown
    assert found.shown.startswith("%%taxpr [--name NAME]")
    assert "Trace a call, without making it" in found.shown


def test_help_can_be_completed(notebook):
    notebook.good("%load_ext taxpr_jupyter")
    _, options = notebook.shell.complete("--h", "%taxpr --h", 10)
    assert {"--help", "--heat"} <= set(options)


@pytest.mark.parametrize("kind", ["flops", "compiled", "peak"])
def test_heat_may_be_what_xla_says(notebook, kind):
    session = notebook.good(f"%taxpr --heat {kind} (lambda x: jnp.sin(x) @ x)(jnp.ones((40, 40)))")
    assert session.heat == kind
    assert session.picture().heat.kind == kind
    assert kind in notebook.run("%taxpr --help").shown.partition("--heat WHAT")[2]


def test_an_unknown_heat_says_which_there_are(notebook):
    assert "'compiled' or None" in str(notebook.run("%taxpr --heat warmth jnp.sin(1.0)").error)


def test_the_package_shows_its_own_names_only():
    assert dir(taxpr_jupyter) == sorted(taxpr_jupyter.__all__)


def test_why_says_what_a_cell_compiled(notebook):
    cell = "%%taxpr why\n@jax.jit\ndef step(x):\n    return x * 2\nstep(x)\nz = step(x[1:])"
    found = notebook.good(cell)
    first, second = found.rows
    assert (first.function, first.cause) == ("step", "first call")
    assert (second.cause, second.argument) == ("shape", "x")
    assert (second.line.partition(":")[2], second.code) == ("6", "z = step(x[1:])")
    assert notebook.names["z"].shape == (2,)
    assert notebook.good(cell).rows[0].cause == "new object: function"  # as the cell ran again
    assert not notebook.good("%taxpr why step(x)")
    [third] = notebook.good("%taxpr why step(x.astype(jnp.int32))").rows
    assert (third.cause, third.argument) == ("dtype", "x")
    notebook.names["why"] = notebook.names["step"]
    assert isinstance(notebook.good("%taxpr why(x)"), Session)
    assert isinstance(notebook.good("%taxpr why (x)"), Session)
    del notebook.names["why"]
    assert not isinstance(notebook.good("%taxpr why (x * 2)"), Session)


def test_why_needs_something_to_run(notebook):
    assert isinstance(notebook.run("%taxpr why").error, PanelError)
    assert "takes the cell" in str(notebook.run("%%taxpr why f(x)\nx").error)
    failed = notebook.run("%%taxpr why\n1 / 0").error
    assert isinstance(failed, ZeroDivisionError)
