"""Pictures and texts of what was traced until an error, which is shown and raised as ever."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, compare, draw
from taxpr_jupyter._cli.main import main
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model import theme
from taxpr_jupyter._svg.positions import with_positions

PROGRAM = """
import jax
import jax.numpy as jnp

def layer(h, w):
    y = jnp.tanh(h)
    return y @ w

def model(x, ws):
    z = x * 2
    def body(c, w):
        d = jnp.sin(c)
        return jax.jit(layer)(d, w), None
    return jax.lax.scan(body, z, ws)[0]
"""
CALL = "model(jnp.ones((4, 8)), jnp.ones((3, 5, 8)))"
FAILED = "1:unfinished/body/1:unfinished/body/1:failed"


def layer(h, w):
    y = jnp.tanh(h)
    return y @ w


def model(x, ws):
    def body(c, w):
        return jax.jit(layer)(jnp.sin(c), w), None

    return jax.lax.scan(body, x * 2, ws)[0]


def failing(fn=model, *args):
    """The error of tracing a function."""
    args = args or (jnp.ones((4, 8)), jnp.ones((3, 5, 8)))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        draw(fn, *args)
    return caught.value


def test_an_error_is_drawn():
    drawing = draw(failing())
    picture = drawing.picture
    [failed] = [node for node in picture.nodes if "failed" in node.marks]
    assert failed.address == FAILED
    assert failed.lines[:2] == ("✗ y @ w", "y: f32[4,8], w: f32[5,8]")
    assert " ".join(failed.lines[2:]).startswith("TypeError: dot_general requires contracting")
    assert "given y: f32[4,8], w: f32[5,8]\n" in failed.tooltip
    assert re.search(
        r"test_until_error.py:\d+ in layer\nHint: Two shapes do not fit", failed.tooltip
    )
    unfinished = [cluster for cluster in picture.clusters if "unfinished" in cluster.marks]
    titles = ["scan body (unfinished)", "jit layer (unfinished)"]
    assert [cluster.lines[-1] for cluster in unfinished] == titles
    assert {edge.source for edge in picture.edges if edge.target == FAILED} == {
        "1:unfinished/body/1:unfinished/body/0:tanh",
        "1:unfinished/body/1:unfinished/body/in1",
    }
    assert 'class="node eqn failed"' in drawing.svg()
    assert "✗ y @ w" in drawing.dot


def test_dot_colours_the_frames_that_were_not_finished():
    drawing = draw(failing())
    laid_out = lay_out(lambda: arranged(drawing.picture, RecentLayouts())).layout
    unfinished = [c for c in drawing.picture.clusters if "unfinished" in c.marks]
    assert unfinished
    for text in (drawing.dot, with_positions(drawing.picture, laid_out, "white")):
        for cluster in drawing.picture.clusters:
            at = text.index(f'subgraph "cluster_{cluster.id}"')
            graph = text[at : text.index("];", at)]
            assert (theme.FAILED_LINE in graph) == (cluster in unfinished)
            assert ("dashed" in graph) == (cluster in unfinished)


def test_the_note_says_what_happened_and_what_to_do():
    note = draw(failing()).note
    assert note.startswith("Traced until an error at test_until_error.py:")
    assert "in layer: TypeError: dot_general requires" in note
    assert "Hint: Two shapes do not fit." in note


def test_nothing_is_said_to_be_unused():
    def stops(x):
        y = jnp.sin(x)
        jnp.cos(y)
        raise KeyError(x.shape)

    lines = [line for node in draw(failing(stops, 1.0)).picture.nodes for line in node.lines]
    assert not any("unused" in line for line in lines)


def test_the_text_has_the_line():
    text = draw(failing()).text()
    [line] = [line for line in text.splitlines() if "✗" in line]
    assert re.fullmatch(
        r" +1:failed +✗ y @ w i h  # y: f32\[4,8\], w: f32\[5,8\]"
        r" · test_until_error.py:\d+ in layer · TypeError: dot_general requires contracting.*",
        line,
    ), line


def test_what_is_folded_is_opened_on_the_way():
    def deep(x):
        for k in range(60):
            x = jnp.sin(x) * k
        return model(x, jnp.ones((3, 5, 8)))

    drawing = draw(failing(deep, jnp.ones((4, 8))), budget=20)
    [failed] = [node for node in drawing.picture.nodes if "failed" in node.marks]
    assert failed.address.endswith("1:failed")
    assert sum(drawing.picture.counts.folded.values()) > 60


def test_a_carry_that_changes_its_dtype_is_seen():
    def totals(xs):
        return jax.lax.scan(lambda total, x: (total.astype(x.dtype) + x, None), jnp.int32(0), xs)

    lines = {node.lines for node in draw(failing(totals, jnp.ones(3))).picture.nodes}
    assert {("total", "i32[]"), ("x", "f32[]"), ("out", "f32[]")} <= lines


def test_bodies_that_were_traced_are_in_it():
    def branches(x):
        return jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x[:1], x)

    drawing = draw(failing(branches, jnp.ones(3)))
    [box] = [cluster for cluster in drawing.picture.clusters if "failed" in cluster.marks][:1]
    assert box.lines[0].startswith("✗ jax.lax.cond(")
    assert {"2:failed/body0/0:mul", "2:failed/body1/0:slice"} <= {
        node.address for node in drawing.picture.nodes
    }


def test_a_page_is_saved(tmp_path):
    page = draw(failing()).save(tmp_path / "failed.html").read_text()
    assert "dot_general requires contracting dimensions" in page
    assert "Hint: Two shapes do not fit." in page


def test_other_errors_are_refused():
    with pytest.raises(PanelError, match="cannot be called, so there is nothing to trace"):
        draw(ValueError("of something else"))


def test_two_attempts_are_compared():
    def narrower(x, ws):
        return model(x * 3, ws)

    args = jnp.ones((4, 8)), jnp.ones((3, 5, 8))
    found = compare(failing(model, *args), failing(narrower, *args))
    assert "3.0" in found.text()


@pytest.mark.parametrize("magic", ["%%taxpr\n{}", "from taxpr_jupyter import panel\n{}"])
def test_a_cell_shows_it_and_then_the_error(notebook, magic):
    notebook.good(PROGRAM)
    call = CALL if "%%" in magic else CALL.replace("model(", "panel(model)(", 1)
    cell = notebook.run(magic.format(call))
    assert isinstance(cell.error, TypeError)
    assert "✗ y @ w" in cell.shown
    before, _, after = cell.shown.partition("Traced until an error")
    assert "1:failed" in before
    assert "return y @ w" in after
    assert "Hint: Two shapes do not fit." in after


def test_draw_shows_it_in_a_notebook(notebook):
    notebook.good(PROGRAM)
    call = CALL.replace("model(", "draw(model, ", 1)
    cell = notebook.run(f"from taxpr_jupyter import draw\n{call}")
    assert isinstance(cell.error, TypeError)
    assert "✗ y @ w" in cell.shown


def test_a_kernel_shows_the_picture(notebook, monkeypatch):
    monkeypatch.setattr(notebook.shell, "kernel", object(), raising=False)
    notebook.good(PROGRAM)
    cell = notebook.run(f"%%taxpr\n{CALL}")
    assert isinstance(cell.error, TypeError)
    [picture] = [data for data in cell.outputs if "image/svg+xml" in data]
    assert "✗ y @ w" in picture["image/svg+xml"]


def test_the_command_prints_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "wrong.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    arguments = ["wrong.py:model", "--args", "f32[4,8] f32[3,5,8]"]
    assert main(["text", *arguments]) == 1
    out, err = capsys.readouterr()
    assert "✗ y @ w" in out
    assert "wrong.py:7 in layer" in out
    assert err.startswith("taxpr: TypeError: dot_general requires contracting dimensions")
    assert "wrong.py:7)" in err
    assert "Hint: Two shapes do not fit." in err

    assert main(["draw", *arguments, "-o", "wrong.svg"]) == 1
    assert "✗ y @ w" in (tmp_path / "wrong.svg").read_text()
    assert "dot_general" in capsys.readouterr().err


def test_a_script_gets_the_error_alone(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"{PROGRAM}\nfrom taxpr_jupyter import draw\ndraw(model, {CALL[6:]}\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "return y @ w" in done.stderr
    assert done.stderr.count("Traceback (most recent call last)") == 1


def test_no_hint_where_there_is_none():
    def stops(x):
        raise KeyError("no such layer")

    drawing = draw(failing(stops, 1.0))
    assert "Hint" not in drawing.note
    assert drawing.note.endswith("stops: KeyError: 'no such layer'.")


def test_text_of_errors_is_escaped():
    def stops(x):
        raise ValueError("<script>alert(1)</script>\x1b[31m & more")

    svg = draw(failing(stops, 1.0)).svg()
    assert "<script>" not in svg
    assert "\x1b" not in svg


def test_programs_that_were_traced_have_no_such_note():
    assert draw(jnp.sin, 1.0).note == ""
    assert taxpr.until_error(ValueError()) is None
