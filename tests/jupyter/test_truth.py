"""What other tools get wrong about a program's picture, each with the test that ours does not.

silently incomplete: a custom_jvp dropped, only    test_build::test_every_equation_is_drawn_once...,
  the first equation, loops over tuples lost         test_drawn_and_folded_equations_add_up;
                                                     test_loops_over_tuples_keep_all_of_them here
`a - b` like `b - a`, `x * x` like `x * 2`         test_build::test_order_of_operands,
                                                     test_literals_keep_their_place;
                                                     test_different_programs_look_different here
the branches of a cond are not told apart          test_build::test_cond, test_switch_and_platforms
no way back for a carry                            test_build::test_scan, test_while
the predicate of a while is connected to nothing   test_build::test_while
the carry of a scan is called a const              test_build::test_scan; test_roles, where folded
nothing at all for a function without edges        test_a_function_without_edges_is_not_blank here
a quote or `</script>` in a name breaks the page   test_hostile_names_in_every_writer here
megabytes for each output                          test_outputs_are_small here
never the same bytes twice                         test_dot::test_the_text_is_the_same_in_...;
                                                     test_svg_and_html_are_the_same_twice here
temporary folders left behind                      test_layout::test_nothing_is_left_behind
the program is run in order to draw it             test_nothing_is_run here
a picture that never comes                         test_layout::test_the_time_limit_holds,
                                                     test_without_any_engine_it_says_what_to_install;
                                                     test_without_a_layout_there_is_an_outline here
"""

import html.parser
import re
import sys
import unicodedata
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import HOSTILE, PROGRAMS
from jax import lax

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._layout.dot import plain, quoted

V = np.asarray([0.3, -0.8, 1.1], np.float32)
X = np.float32(0.7)
SVG = "{http://www.w3.org/2000/svg}"
MOST = 300_000  # bytes


def test_loops_over_tuples_keep_all_of_them():
    def step(carry, x):
        a, (b, c) = carry
        return (a + x, (b * a, c - b)), (a, {"b": b})

    drawing = draw(lambda xs: lax.scan(step, (X, (X, X)), xs), V)
    address = "0:scan/body"
    inside = [n for n in drawing.picture.nodes if n.cluster == address]
    assert [n.lines[0] for n in inside if n.kind == "input"] == [
        *(f"carry {name} f32[]" for name in "abc"),
        "xs f32[]",
    ]
    assert len([n for n in inside if n.kind == "output"]) == 5
    assert len([e for e in drawing.picture.edges if e.kind == "back"]) == 3
    assert drawing.picture.counts.drawn == drawing.picture.counts.total == 4


def swap_in_a_loop(a, b):
    return lax.fori_loop(0, 2, lambda i, c: (c[1], c[0]), (a, b))


def minus_in_a_jit(a, b):
    return jax.jit(lambda x, y: x - y)(a, b)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda a, b: a - b, lambda a, b: b - a),
        (lambda a, b: a * a, lambda a, b: a * 2),
        (lambda a, b: a * a, lambda a, b: a * b),
        (lambda a, b: 1 - a, lambda a, b: a - 1),
        (lambda a, b: (a, b), lambda a, b: (b, a)),
        (
            lambda a, b: lax.cond(a > 0, jnp.sin, jnp.cos, b),
            lambda a, b: lax.cond(a > 0, jnp.cos, jnp.sin, b),
        ),
        (swap_in_a_loop, lambda a, b: swap_in_a_loop(a, b)[::-1]),
        (swap_in_a_loop, lambda a, b: swap_in_a_loop(b, a)),
        (minus_in_a_jit, lambda a, b: minus_in_a_jit(b, a)),
    ],
)
@pytest.mark.parametrize("opened", [True, False], ids=["open", "folded"])
def test_different_programs_look_different(one, other, opened):
    """Without tooltips, and also where an equation is folded and its operands change places."""
    texts = []
    for fn in (one, other):
        drawing = draw(fn, X, X, name="f")
        if not opened:
            drawing = drawing.fold(*(a for a in drawing.picture.unfolded if "/" not in a))
        texts.append(re.sub(r' tooltip="[^"]*"', "", drawing.dot))
    if not opened and "cond" in texts[0]:
        return  # what differs is folded
    assert texts[0] != texts[1]


@pytest.mark.parametrize("name", ["constant", "no_outputs", "nothing", "unused_inputs"])
def test_a_function_without_edges_is_not_blank(name):
    root = ElementTree.fromstring(draw(PROGRAMS[name]()).svg())
    nodes = [g for g in root.iter(f"{SVG}g") if "node" in (g.get("class") or "").split()]
    assert nodes
    assert all(any((t.text or "").strip() for t in node.iter(f"{SVG}text")) for node in nodes)


class Page(html.parser.HTMLParser):
    """The tags of a page, and whether it is well formed around scripts."""

    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


def tags_of(drawing):
    page = Page()
    page.feed(drawing.html())
    page.close()
    return page.tags


@pytest.fixture(scope="module")
def harmless():
    """The tags of a page in which every name is harmless."""
    return tags_of(draw(named("harmless"), V))


def named(text):
    inner, tag = lambda y: y * 2, text
    text = text.encode(errors="replace").decode()  # jit takes no lone surrogates
    inner.__name__ = text

    def fn(v):
        with jax.named_scope("scope"):
            return jax.jit(inner)(taxpr.tag(v, name=tag, more=(tag,)))

    fn.__name__ = text
    return fn


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_in_every_writer(text, harmless):
    drawing = draw(named(text), V)
    (tag,) = (n for n in drawing.picture.nodes if n.kind == "tag")
    # DOT: the label is a string that means the label, and the engine read it so: see SVG.
    drawing.dot.encode()
    assert f"label={quoted(chr(10).join(tag.lines))}".replace("\n", "\\n") in drawing.dot
    # SVG
    svg = drawing.svg()
    root = ElementTree.fromstring(svg)
    (drawn,) = (g for g in root.iter(f"{SVG}g") if "tag" in (g.get("class") or "").split())
    assert [t.text for t in drawn.iter(f"{SVG}text")] == [plain(tag.lines[0])]
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg", "title", "desc", "style", "g", "rect", "path", "text",
    }  # fmt: skip
    # HTML: no element more than with a harmless name, but for lines of another number.
    tags = tags_of(drawing)
    assert set(tags) == set(harmless)
    assert tags.count("script") == harmless.count("script")
    # text
    lines = drawing.text().split("\n")
    assert len(lines) == len(draw(named("harmless"), V).text().split("\n"))
    shown = "".join(lines)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Bidi")]
    assert "\u202e" not in shown + svg


def deep_gradient(layers):
    def loss(weights, x):
        for i in range(layers):
            x = x + jnp.tanh(x @ weights[i]) * jax.nn.softmax(x)
        return jnp.sum(x**2)

    return jax.grad(loss), [np.ones((layers, 3, 3), np.float32), np.ones((2, 3), np.float32)]


@pytest.mark.slow
def test_outputs_are_small():
    fn, args = deep_gradient(60)
    drawing = draw(fn, *args)
    assert drawing.picture.counts.total > 1500
    assert len(drawing.svg().encode()) < MOST
    for name, make in PROGRAMS.items():
        assert len(draw(make()).svg().encode()) < MOST, name


def test_svg_and_html_are_the_same_twice():
    first, second = (draw(PROGRAMS["mlp_step"]()) for _ in range(2))
    assert first.svg() == second.svg()
    assert first.html() == second.html()


def test_nothing_is_run():
    runs = []

    def fn(x):
        jax.debug.callback(runs.append, x)
        shape = jax.ShapeDtypeStruct((), np.float32)
        return jax.pure_callback(lambda x: runs.append(x) or x, shape, x)

    drawing = draw(jax.jit(fn), X)
    drawing.svg(), drawing.html(), drawing.text()
    jax.effects_barrier()
    assert runs == []


def test_without_a_layout_there_is_an_outline(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    data = draw(PROGRAMS["deep"]())._repr_mimebundle_()
    assert data.keys() == {"text/plain"}
    assert "0:jit" in data["text/plain"]
    assert "No picture: there is no `dot` program on the PATH" in data["text/plain"]
