"""A program as lines: nothing is lost, and they are folded as the picture is."""

import itertools
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import PROGRAMS
from jax import lax

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._lines.jaxpr_text import jaxpr_rows
from taxpr_jupyter._lines.rows import outline_rows, plain

EQUATIONS = {"eqn", "hop", "tag", "injected"}
V = np.asarray([0.3, -0.8, 1.1], np.float32)
every_program = pytest.mark.parametrize("name", PROGRAMS)
every_folding = pytest.mark.parametrize("unfolded", [None, frozenset()], ids=["budget", "folded"])


def addresses(jaxpr, prefix=""):
    """Those of all equations at all places: what lines are compared with."""
    for local, eqn in taxpr.numbered(jaxpr):
        yield f"{prefix}{local}"
        for nested in taxpr.nested_jaxprs(eqn):
            yield from addresses(nested.jaxpr, f"{prefix}{local}/{nested.label}/")


def equations(lines):
    return [line.address for line in lines if line.kind in EQUATIONS]


def all_open(program):
    """The lines in which all is open that can be."""
    builder = Builder(program, budget=10**6)
    lines = builder.lines()
    while any(line.fold and not line.open for line in lines):
        lines = builder.lines({line.fold for line in lines if line.fold})
    return lines


def trace(fn, *args):
    return taxpr.trace(fn)(*args)


def nested(x):
    """A scan, a cond, a jit, a tag, literals, several results."""

    def step(h, y):
        h = taxpr.tag(jnp.tanh(h + y), name="h")
        return h, (h.sum(), y * 2)

    h, (sums, _) = lax.scan(step, x, jnp.ones((5, 3)))
    h = lax.cond(sums[0] > 0, lambda v: v + 1.0, lambda v: jax.jit(jnp.sin)(v), h)
    return {"h": h, "total": sums.sum()}


# --- nothing is lost ------------------------------------------------------------------------------


@pytest.mark.spread(4)
@every_program
@every_folding
def test_every_equation_is_a_line_or_inside_a_folded_one(name, unfolded):
    program = PROGRAMS[name]()
    lines = Builder(program).lines(unfolded)
    total = list(addresses(program))
    shown = equations(lines)
    assert len(shown) + sum(line.hidden for line in lines) == len(total)
    assert set(shown) <= set(total)
    assert max(Counter(shown).values(), default=1) == 1
    assert not any(line.hidden for line in lines if line.open or not line.fold)


@pytest.mark.spread(2)
@every_program
def test_every_equation_has_a_line_when_all_is_open(name):
    program = PROGRAMS[name]()
    total = list(addresses(program))
    assert equations(all_open(program)) == total
    assert equations(Edited(program, Edits()).lines()) == total


@pytest.mark.spread(2)
@every_program
@every_folding
def test_they_are_folded_as_the_picture_is(name, unfolded):
    builder = Builder(PROGRAMS[name]())
    picture, lines = builder.picture(unfolded), builder.lines(unfolded)
    assert {line.fold for line in lines if line.open} == picture.unfolded
    assert {line.fold for line in lines if line.fold} == picture.foldable
    drawn = {n.address for n in picture.nodes if n.kind in EQUATIONS}
    assert drawn <= {line.address for line in lines}
    hidden = {line.address: line.hidden for line in lines if line.hidden}
    assert hidden == {at: number for at, number in picture.counts.folded.items() if number}
    backward = {n.address for n in picture.nodes if "backward" in n.marks}
    backward |= {c.address for c in picture.clusters if "backward" in c.marks}
    assert backward <= {line.address for line in lines if "backward" in line.marks}


@pytest.mark.spread(2)
@every_program
@every_folding
def test_letters_are_made_before_they_are_used(name, unfolded):
    known = set()
    waiting = {}  # what an open equation returns is known after what is in it
    for line in Builder(PROGRAMS[name]()).lines(unfolded):
        for depth in [depth for depth in waiting if depth >= line.depth]:
            known |= waiting.pop(depth)
        used = {text for text in line.used if ":" not in text and "[" not in text}
        assert used - {"_"} <= known, line
        made = {text.partition(":")[0] for text in line.made}
        if line.kind == "hop" and line.open:
            waiting[line.depth] = made
        else:
            known |= made


# --- the text of the jaxpr ------------------------------------------------------------------------


def skeleton(text):
    """The text without spaces and params, except the jaxprs among them."""
    text = re.sub(r"(\w:[a-z]+\d*)\[([\d,]*)\]", r"\1<\2>", text)
    keep, kept = [True], []
    for character in text:
        if character in "[{":
            keep.append(character == "{")
        if keep[-1]:
            kept.append(character)
        if character in "]}":
            keep.pop()
    return "".join("".join(kept).split())


def without_notes(rows):
    texts = ("".join(s.text for s in row.spans if s.kind != "note") for row in rows)
    return "\n".join(texts)


@pytest.mark.parametrize(
    "fn",
    [nested, lambda x: x * 2 + x.sum(), lambda x: (), lambda x: (x, x, 1.0), lambda x: x @ V],
)
def test_all_open_it_is_what_print_shows(fn):
    program = trace(fn, V)
    lines = [line for line in all_open(program) if line.kind != "group"]
    assert skeleton(without_notes(jaxpr_rows(lines))) == skeleton(str(program.jaxpr))


def test_params_are_shortened():
    def f(x):
        y = lax.broadcast_in_dim(x, (2, 3), (1,)).sum(1)
        return lax.conv_general_dilated(
            jnp.ones((1, 1, 9, 9)), jnp.ones((1, 1, 2, 2)), (1, 1), "SAME"
        ), y

    text = plain(jaxpr_rows(Builder(trace(f, V)).lines()))
    assert "= broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)] a" in text
    assert "axes=(1,)" in text
    assert "None" not in text
    assert "…" in text
    assert all(len(row) < 500 for row in text.splitlines())


def test_a_folded_equation_is_one_line():
    program = trace(nested, V)
    text = plain(jaxpr_rows(Builder(program).lines(frozenset())))
    assert re.search(r"= ⟨scan ×5 · 4 equations · 1 tag⟩ \w+ \w+$", text, re.MULTILINE)
    assert re.search(r"= ⟨cond · 3 equations⟩ \w+ \w+$", text, re.MULTILINE)
    assert "tanh" not in text


def test_roles_titles_and_facts():
    def f(x):
        total, _ = lax.scan(lambda c, y: (c + y, None), x, jnp.ones((4, 3)), reverse=True)
        return lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, total)

    rows = [plain([row]).strip() for row in jaxpr_rows(all_open(trace(f, V)))]
    (body,) = [row for row in rows if "# scan body ×4 reverse: carry x, xs y" in row]
    assert body.startswith("jaxpr={ lambda ; ")
    assert any(
        row.startswith("cond_jaxpr={") and "# while condition: carry c" in row for row in rows
    )
    assert any(row.endswith("# predicate") for row in rows)
    outline = plain(outline_rows(all_open(trace(f, V))), gap="  ", twists=True).splitlines()
    assert "▾ scan ×4 reverse  1 equation  f32[3]" in outline
    assert any(re.fullmatch(r"    in  carry x  \w+  f32\[3\]", line) for line in outline)
    assert "  ▾ while condition  2 equations" in outline


def test_many_inputs_have_a_row_each_or_one_for_all():
    def f(params, x):
        return sum(jnp.sum(w) for w in params.values()) * x

    program = trace(f, {f"w{k}": V for k in range(20)}, V)
    builder = Builder(program)
    bundle = next(line for line in builder.lines() if "many" in line.marks)
    text = plain(jaxpr_rows(builder.lines()))
    assert re.search(r"^    a … t  ⟨params · 20 arrays⟩$", text, re.MULTILINE)
    opened = plain(jaxpr_rows(builder.lines({bundle.address})))
    assert re.search(r"^      c:f32\[3\]  # params\['w\d+'\]$", opened, re.MULTILINE)
    outline = plain(outline_rows(builder.lines()), gap="  ", twists=True)
    assert outline.startswith("▸ in  params  a … t  20 arrays  20×f32[3]")


def test_modules_and_passes():
    def loss(w, x):
        with jax.named_scope("encoder"):
            h = jnp.tanh(w @ x)
            h = jnp.sin(h)
        with jax.named_scope("head"):
            return jnp.mean(jnp.exp(h) ** 2)

    program = trace(jax.grad(loss), np.ones((3, 3), np.float32), V)
    outline = plain(outline_rows(all_open(program)))
    order = re.findall(r"forward pass|backward pass|encoder|head", outline)
    assert order == ["forward pass", "encoder", "head", "backward pass", "head", "encoder"]
    marked = [row.address for row in jaxpr_rows(all_open(program)) if "backward" in row.marks]
    assert marked
    text = plain(jaxpr_rows(all_open(program)))
    assert "  # forward pass  " in text
    assert "    # encoder  " in text


# --- any program ----------------------------------------------------------------------------------


@pytest.mark.spread(3)
@every_program
def test_rows_are_single_lines_of_what_prints(name):
    program = PROGRAMS[name]()
    for lines in (Builder(program).lines(), all_open(program)):
        for rows in (jaxpr_rows(lines), outline_rows(lines)):
            text = plain(rows)
            assert len(text.splitlines() or rows) == len(rows)
            assert all(c.isprintable() or c in "\n\u200c\u200d" for c in text)
            assert not re.search(r"\b0x[0-9a-f]{6}", text)
            assert plain(rows, color=True).count("\n") == text.count("\n")


@pytest.mark.spread(2)
@every_program
def test_brackets_close_and_no_level_is_left_out(name):
    for unfolded in (None, frozenset()):
        lines = Builder(PROGRAMS[name]()).lines(unfolded)
        depths = [row.depth for row in outline_rows(lines)]
        assert all(b <= a + 1 for a, b in itertools.pairwise([-1, *depths]))
        text = without_notes(jaxpr_rows(lines))
        opened = 1 + sum(line.kind == "jaxpr" for line in lines)
        assert text.count("{ lambda ") == text.count(") }") == opened


# --- a session ------------------------------------------------------------------------------------


def test_a_session_writes_them():
    session = Session(nested, (V,), call="nested(v)")
    assert session.text(folded=True).startswith("nested(v): ")
    assert "tanh" in session.text(folded=True)
    session.attach("h", "scale")
    assert "injected" in session.outline()
    (scan,) = [line.address for line in session.lines() if line.text == "scan ×5"]
    session.fold(scan)
    for text in (session.text(folded=True), session.outline()):
        assert "tanh" not in text
        assert "scan ×5" in text
        assert text.splitlines()[0] == session.text().splitlines()[0]
    assert "tanh" in session.text()  # shows all
    cut = session.text(folded=True, limit=3).splitlines()
    assert cut[-1].startswith("  … ")
    assert not any(line.startswith("in (") for line in cut)
    assert "\x1b[" in session.outline(color=True)
    with pytest.raises(PanelError, match="nothing"):
        session.unfold("in0")


def test_what_is_left_out_of_the_picture_is_folded_in_the_lines():
    session = Session(nested, (V,), call="nested(v)")
    (tanh,) = [line.address for line in session.lines() if line.text == "tanh"]
    session.show_only(session.upstream(tanh))
    lines = session.lines()
    picture = session.picture()
    assert {line.fold for line in lines if line.fold} == picture.foldable
    assert any(line.address.startswith("rest:") or "/rest:" in line.address for line in lines)
    total = len(list(addresses(session.edited)))
    assert len(equations(lines)) + sum(line.hidden for line in lines) == total
    assert "left out" in session.text(folded=True)
    assert "left out" in session.outline()
