"""A drawing saved as a page, opened from its file."""

import re

import jax
import jax.numpy as jnp
import pytest
from browser.conftest import BUILD
from browser.programs import HEAT
from drawn_programs import HOSTILE, PROGRAMS

import taxpr
from taxpr_jupyter import Session, draw
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._model.legend import KINDS
from taxpr_jupyter._search.find import Finder

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.fixture(scope="module")
def browser_context_args() -> dict:
    return {"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce"}


def model(w, xs):
    def step(c, x):
        return jax.jit(lambda c: jnp.tanh(c * w))(c) + x, jnp.sum(c)

    last, sums = jax.lax.scan(step, jnp.zeros(4), xs)
    return jax.lax.cond(jnp.sum(sums) > 0, jnp.sin, lambda v: v * 2, last)


SCAN = "1:scan"
JIT = "1:scan/body/0:jit"


def drawing():
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((4,), (3, 4))]
    return draw(model, *shapes)


class Opened:
    """A page opened from a file, and all that it complained about or asked for."""

    def __init__(self, page, file):
        self.page = page
        self.trouble = []
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self._asked(request.url, file.as_uri()))
        page.goto(file.as_uri())
        self.inspector = page.locator(".tx-inspector")
        self.path = page.locator(".tx-path")
        self.message = page.locator(".tx-message")
        self.found = page.locator(".tx-hits")
        self.nodes = page.locator(".tx-stage svg g.node")
        expect(self.nodes).not_to_have_count(0)

    def _asked(self, url, own):
        if url.partition("#")[0] != own:
            self.trouble.append(url)

    def node(self, address):
        return self.page.locator(f'.tx-stage svg g[data-address="{address}"]').first

    def classed(self, name):
        nodes = self.page.locator(f".tx-stage svg g.{name}[data-address]")
        return {node.get_attribute("data-address") for node in nodes.all()}

    def line(self, address):
        tab = self.page.get_by_role("tab", name="Text")
        if tab.get_attribute("aria-selected") != "true":
            tab.click()
        return self.page.locator(f'[data-row="{address}"]')


@pytest.fixture
def opened(page, tmp_path):
    made = []

    def open_page(drawing, **more):
        file = tmp_path / "it.html"
        file.write_text(drawing.html(**more), "utf-8")
        made.append(Opened(page, file))
        return made[-1]

    yield open_page
    for one in made:
        assert one.trouble == []


@pytest.fixture
def walked(opened):
    """The page of a scan with a jit in it, both folded."""
    start = drawing()
    assert JIT in start.picture.unfolded
    return opened(start.fold(JIT, SCAN))


def test_a_click_shows_what_makes_and_what_uses_a_value(walked):
    walked.node(SCAN).locator("text").first.click()
    expect(walked.inspector.locator("h3")).to_have_text("scan ×3 · step")
    expect(walked.inspector.locator(".tx-address")).to_have_text(SCAN)
    expect(walked.inspector).to_contain_text("scan")
    assert walked.classed("tx-producer") >= {"in0", "in1"}
    assert "2:reduce_sum" in walked.classed("tx-user")
    expect(walked.line(SCAN)).to_have_attribute("aria-selected", "true")
    walked.inspector.get_by_role("button", name=re.compile("^reduce_sum")).click()
    expect(walked.inspector.locator(".tx-address")).to_have_text("2:reduce_sum")
    walked.page.keyboard.press("Escape")
    walked.page.get_by_role("button", name="Clear the selection").click()
    expect(walked.inspector).to_contain_text("Select a node")
    assert walked.classed("tx-user") == set()


def test_a_click_on_a_line_shows_its_value(walked):
    edge = walked.page.locator(f'g.edge[data-value="{SCAN}.1"]').first
    walked.page.mouse.click(
        *edge.locator(".tx-hit").evaluate(
            """line => {
              const at = line.getPointAtLength(line.getTotalLength() / 2);
              const on = new DOMPoint(at.x, at.y).matrixTransform(line.getScreenCTM());
              return [on.x, on.y];
            }"""
        )
    )
    expect(walked.inspector.locator(".tx-address")).to_have_text(f"{SCAN}.1")
    expect(walked.inspector.locator("h3")).to_contain_text("f32[3]")
    assert walked.classed("tx-producer") == {SCAN}
    assert walked.classed("tx-user") == {"2:reduce_sum"}


def test_a_twin_leads_to_what_it_stands_for_and_a_key_back(opened):
    page = opened(draw(PROGRAMS["mlp_step"]()))
    page.page.get_by_role("button", name="Fit the picture").click()
    twin = page.page.locator(".tx-stage .twin").first
    address = twin.get_attribute("data-twin")
    twin.click()
    expect(page.inspector.locator(".tx-address")).to_have_text(address)
    expect(page.node(address)).to_have_attribute("aria-selected", "true")
    expect(page.page.locator(".edge.tx-leaving .twin").first).to_be_visible()
    page.page.keyboard.press("Backspace")
    expect(page.inspector).to_contain_text("Select a node")


def test_walking_in_and_out(walked):
    walked.node(SCAN).locator("text").first.dblclick()
    expect(walked.path).to_contain_text("whole program")
    expect(walked.path).to_contain_text("equations here")
    expect(walked.node(JIT)).to_be_visible()
    expect(walked.node("in1")).to_have_class(re.compile("outside"))
    walked.node(JIT).locator("text").first.click()
    walked.inspector.get_by_role("button", name="Unfold").click()
    expect(walked.node(f"{JIT}/call/1:tanh")).to_be_visible()
    walked.page.go_back()
    expect(walked.node(JIT)).to_be_visible()
    walked.path.get_by_role("button", name="whole program").click()
    expect(walked.path).to_be_empty()
    expect(walked.inspector.locator(".tx-address")).to_have_text(SCAN)  # where it came from
    walked.page.reload()
    expect(walked.node(SCAN)).to_be_visible()


def test_a_link_leads_to_a_node_in_the_middle(walked):
    """Of a node in a picture that is not shown at first, and of one whose inside is a picture."""
    inner = f"{JIT}/call/1:tanh"
    for address in (inner, SCAN, "in1", f"{SCAN}.1"):
        walked.page.goto(f"{walked.page.url.partition('#')[0]}#{address}")
        expect(walked.inspector.locator(".tx-address")).to_have_text(address)
        link = walked.inspector.get_by_role("link", name="Link")
        assert link.get_attribute("href") == f"#{address}"
        walked.page.reload()
        expect(walked.inspector.locator(".tx-address")).to_have_text(address)
        drawn = address.removesuffix(".1")
        expect(walked.node(drawn)).to_be_visible()
        stage, node = (
            walked.page.locator(".tx-stage").bounding_box(),
            walked.node(drawn).bounding_box(),
        )
        for at, size in (("x", "width"), ("y", "height")):
            middle = stage[at] + stage[size] / 2
            assert node[at] - 2 < middle < node[at] + node[size] + 2
    walked.node(SCAN).click()
    walked.inspector.get_by_role("link", name="Link").click()
    assert walked.page.url.endswith(f"#{SCAN}")
    expect(walked.message).to_contain_text("link")
    walked.page.goto(f"{walked.page.url.partition('#')[0]}#7:nothing")
    expect(walked.message).to_have_text("This program has no 7:nothing.")


def test_by_keyboard_alone(walked):
    keys = walked.page.keyboard
    walked.page.locator(".tx-stage > svg [tabindex='0']").focus()
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(walked.inspector.locator(".tx-address")).not_to_be_empty()
    walked.node(SCAN).focus()
    keys.press("o")
    expect(walked.node(JIT)).to_be_visible()
    keys.press("u")
    expect(walked.path).to_be_empty()
    keys.press("/")
    keys.type("tanh")
    expect(walked.found).to_have_text("1 of 1")
    expect(walked.inspector.locator("h3")).to_have_text("tanh")
    expect(walked.path).to_contain_text("scan")  # it went there
    walked.line("in0").focus()
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(walked.inspector.locator(".tx-address")).to_have_text("in1")


def test_search_steps_through_what_it_finds(walked):
    field = walked.page.get_by_role("searchbox")
    field.fill("mul")
    expect(walked.found).to_have_text(re.compile("^1 of [2-9]$"))
    first = walked.inspector.locator(".tx-address").inner_text()
    field.press("Enter")
    expect(walked.found).to_have_text(re.compile("^2 of"))
    expect(walked.inspector.locator(".tx-address")).not_to_have_text(first)
    walked.page.get_by_role("button", name="Previous hit").click()
    expect(walked.inspector.locator(".tx-address")).to_have_text(first)
    field.fill("no such thing")
    field.press("Enter")  # does not wait for the end of typing
    expect(walked.found).to_have_text("0 hits")
    field.fill("CONSTRUCTOR")  # of every object in JavaScript
    expect(walked.found).to_have_text("0 hits")


def test_what_a_search_finds_is_lit_also_where_it_is_folded(walked):
    """In each picture: the nodes that are found, and those that have something found in them."""
    walked.page.get_by_role("searchbox").fill("prim:tanh")
    expect(walked.node(f"{JIT}/call/1:tanh")).to_have_class(re.compile("tx-found"))
    walked.page.go_back()
    expect(walked.node(SCAN)).to_have_class(re.compile("tx-found"))
    expect(walked.node("2:reduce_sum")).not_to_have_class(re.compile("tx-found"))
    expect(walked.page.get_by_role("button", name=re.compile("Select all"))).to_be_hidden()
    walked.node(SCAN).locator("text").first.dblclick()
    expect(walked.node(JIT)).to_have_class(re.compile("tx-found"))


def test_the_picture_can_have_all_the_width_that_the_text_has(walked):
    stage, text = walked.page.locator(".tx-stage"), walked.page.locator(".tx-text")
    walked.page.get_by_role("tab", name="Text").click()
    narrow, beside = stage.bounding_box()["width"], text.bounding_box()["width"]
    assert beside > 200
    walked.page.get_by_role("tab", name="Picture").click()
    expect(text).to_be_hidden()
    assert stage.bounding_box()["width"] == pytest.approx(narrow + beside, abs=3)
    walked.page.get_by_role("tab", name="Text").click()
    expect(walked.line(SCAN)).to_be_visible()
    assert stage.bounding_box()["width"] == pytest.approx(narrow, abs=1)


def test_it_opens_on_the_picture_which_has_all_the_width_beside_the_inspector(walked):
    tab = walked.page.get_by_role("tab", name="Picture")
    expect(tab).to_have_attribute("aria-selected", "true")
    assert walked.page.locator(".tx-stage").bounding_box()["x"] == 0
    for part in (".tx-text", ".tx-source"):
        expect(walked.page.locator(part)).to_be_hidden()


def test_a_wide_picture_is_printed_whole(opened):
    def wide(xs):
        return [jnp.tanh(jnp.sin(x) * x) for x in xs]

    page = opened(draw(wide, [jnp.ones(3)] * 30))
    picture = page.page.locator(".tx-stage > svg")
    page.page.set_viewport_size({"width": 800, "height": 900})
    assert picture.evaluate("svg => svg.width.baseVal.value") > 800
    page.page.get_by_role("button", name="Zoom in").click()
    page.page.emulate_media(media="print")
    box = picture.bounding_box()
    assert (box["x"], box["width"]) == (0, 800)
    edges = [node.bounding_box() for node in (page.nodes.first, page.nodes.last)]
    assert all(0 <= one["x"] <= one["x"] + one["width"] <= 800 for one in edges)
    for part in (".taxpr-grid", ".taxpr-view", ".tx-stage"):
        outer = page.page.locator(part).bounding_box()
        assert outer["y"] + outer["height"] >= box["y"] + box["height"] - 1, part
    page.page.emulate_media(media="screen")


def test_a_printed_page_is_the_picture_alone(walked):
    for tab in ("Source", "Text"):
        walked.page.get_by_role("tab", name=tab).click()
        walked.page.emulate_media(media="print")
        assert walked.page.locator(".tx-stage").bounding_box()["width"] > 1390
        for part in (".tx-inspector", ".tx-text", ".tx-source", ".tx-find", ".tx-tools"):
            expect(walked.page.locator(part)).to_be_hidden()
        walked.page.emulate_media(media="screen")


def test_search_begins_with_primitives_and_says_why_others_match(opened):
    def explain(x):
        return jnp.exp(jnp.sin(x))

    page = opened(draw(explain, 1.0))
    field = page.page.get_by_role("searchbox")
    field.fill("exp")
    expect(page.found).to_have_text(re.compile("^1 of [2-9]$"))
    expect(page.inspector.locator(".tx-address")).to_have_text("1:exp")
    expect(page.message).to_be_empty()
    field.press("Enter")
    expect(page.message).to_contain_text("It matches in")
    field.fill("prim:exp")
    expect(page.found).to_have_text("1 of 1")


def test_lines_of_all_kinds_are_thin_where_they_are_wide_to_the_mouse(opened):
    def loss(w, x):
        return jnp.sum(jnp.tanh(jnp.sin(x @ w)) ** 2)

    w, x = jnp.ones((3, 2)), jnp.ones((4, 3))
    page = opened(draw(jax.value_and_grad(loss), w, x))
    kinds = page.page.locator(".tx-stage g.edge").evaluate_all("es => es.map(e => e.classList[1])")
    assert {"value", "residual"} <= set(kinds)
    for kind in ["residual", "back", "control", "read", "write", "value"]:
        strokes = page.page.locator(".tx-stage g.edge").evaluate_all(
            """(edges, kind) => edges.map(edge => {
              edge.setAttribute("class", `edge ${kind} tx-leaving`);
              const style = getComputedStyle(edge.querySelector(".tx-hit"));
              return [style.stroke, style.strokeWidth, style.strokeDasharray];
            })""",
            kind,
        )
        assert {tuple(stroke) for stroke in strokes} == {("rgba(0, 0, 0, 0)", "7px", "none")}, kind


def test_what_kept_means(opened):
    def loss(params, x):
        for k, w in enumerate(params):
            with jax.named_scope(f"layer_{k}"):
                x = jnp.tanh(jnp.sin(x @ w) * jnp.cos(x @ w))
        return jnp.sum(x**2)

    drawing = draw(jax.grad(loss), [jnp.ones((3, 3))] * 4, jnp.ones((2, 3)), budget=22)
    kept = [node for node in drawing.picture.nodes if "kept" in node.marks]
    assert kept
    page = opened(drawing)
    expect(page.node(kept[0].address)).to_contain_text("[kept]")
    expect(page.inspector).to_contain_text("keeps values of this node for the backward pass.")


def test_the_legend_is_folded_and_shows_each_kind(opened):
    page = opened(drawing())
    legend = page.inspector.locator(".tx-legend")
    expect(legend).to_be_hidden()
    page.inspector.get_by_text("What the nodes and lines of the picture are").click()
    expect(legend.locator("li").first).to_be_visible()
    assert legend.locator("li").all_inner_texts() == [kind.words for kind in KINDS]
    fills = legend.locator("svg g.node > *").evaluate_all(
        "all => all.map(e => getComputedStyle(e).fill)"
    )
    assert len(set(fills)) > 6
    assert "rgb(0, 0, 0)" not in fills  # which is what no rule gives


def searched(x, params):
    with jax.named_scope("outer"):
        y = taxpr.tag(jnp.exp(x @ params["weight"]), name="loss one")
    return jnp.sum(y.astype(jnp.float16))


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("prim:exp", "1:exp"),
        ("name:weight", "in1"),
        ("prim:e?p", "1:exp"),
        ("tag:loss*", "t0"),
        ("loss", "t0"),
        ('tag:"loss one"', "t0"),
        ("dtype:f16 prim:convert", "2:convert_element_type"),
        ("dtype:float16 prim:convert", "2:convert_element_type"),
        ("shape:[3,2]", "in1"),
        ("shape:3,*", "in1"),
        ("shape:...,3", "in0"),
        ("f32[*,2] prim:dot", "0:dot_general"),
        ("source:test_html.py prim:exp", "1:exp"),
        ("fn:searched prim:exp", "1:exp"),
        ("scope:outer prim:exp", "1:exp"),
        (f"line:{searched.__code__.co_firstlineno + 3} prim:reduce", "4:reduce_sum"),
    ],
)
def test_search_knows_what_a_word_is_about(opened, words, address):
    page = opened(draw(searched, jnp.ones((5, 3)), {"weight": jnp.ones((3, 2))}))
    field = page.page.get_by_role("searchbox")
    field.fill(words)
    expect(page.inspector.locator(".tx-address")).to_have_text(address)
    for wrong in (
        "prim:loss",
        "tag:loss",  # as selectors have it: all of the name
        "dtype:f",
        "shape:[9]",
        "line:1",
        "name:nothing",
        "fn:exp",
    ):
        field.fill(wrong)
        expect(page.found).to_have_text("0 hits")


def hidden(params, x):
    def body(c, x):
        with jax.named_scope("inner"):
            c = jnp.tanh(c * params["weight"]) + taxpr.tag(jnp.cos(x), name="far")
        return c, jnp.sin(c)

    with jax.named_scope("outer"):
        return jax.lax.scan(body, jnp.zeros(2), x)


def unseen(**more):
    """What is in the scan is in no picture of the file."""
    args = {"weight": jnp.ones(2)}, jnp.ones((3, 2))
    return draw(hidden, *args).fold("1:scan"), {"levels": 0, **more}


@pytest.mark.parametrize(
    "words",
    [
        "scope:inner",
        "scope:outer/inner",
        "source:test_html.py prim:tanh",
        "fn:body",
        f"line:{hidden.__code__.co_firstlineno + 4} prim:sin",
        "tag:far scope:inner",
        "shape:[2] prim:cos",
    ],
)
def test_search_finds_what_no_picture_shows(opened, words):
    drawing, options = unseen()
    number = len(Finder(Index(drawing.program)).find(words))
    assert number
    page = opened(drawing, **options)
    page.page.get_by_role("searchbox").fill(words)
    expect(page.found).to_have_text(f"1 of {number}")
    expect(page.page.locator(".tx-counted")).to_contain_text("inside of 1 folded node is not in")
    expect(page.inspector).not_to_contain_text("Made by")
    expect(page.inspector).to_contain_text("f32[2]")


@pytest.mark.parametrize("open_", [False, True])
def test_search_counts_each_equation_of_the_program_once(opened, open_):
    start, _ = unseen()
    drawing = start.unfold("1:scan") if open_ else start
    page = opened(drawing)
    field = page.page.get_by_role("searchbox")
    for words in ("scope:outer", "scope:inner", "fn:hidden", "prim:scan", "tag:far"):
        number = len(Finder(Index(drawing.program)).find(words))
        assert number
        field.fill(words)
        expect(page.found).to_have_text(f"1 of {number}")


def test_search_says_how_much_of_the_program_it_saw(opened):
    drawing, options = unseen(max_bytes=1)
    page = opened(drawing, **options)
    field = page.page.get_by_role("searchbox")
    total = drawing.picture.counts.total
    folded = sum(drawing.picture.counts.folded.values())
    assert folded
    field.fill("scope:outer")
    expect(page.found).to_contain_text(f" in {total - folded} of {total} equations")
    field.fill("scope:inner")
    expect(page.found).to_contain_text(f"0 hits in {total - folded} of {total} equations")
    field.fill("prim:tanh")  # of which the text of the program knows
    expect(page.found).to_have_text("1 of 1")


def test_what_is_not_found_leaves_nothing_selected(walked):
    field = walked.page.get_by_role("searchbox")
    field.fill("prim:scan")
    expect(walked.inspector.locator(".tx-address")).to_have_text(SCAN)
    field.fill("no such thing")
    expect(walked.found).to_have_text("0 hits")
    expect(walked.inspector).to_contain_text("Select a node")
    assert walked.page.locator(".tx-stage .tx-selected").count() == 0


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ("shape:[", "[ is no shape"),
        ("shape:[2,", "[2, is no shape"),
        ("shape:[2,,3]", "[2,,3] is no shape"),
        ("shape:[2**]", "[2**] is no shape"),
        ("shape:f32", "f32 is no shape"),
        ("prim:", "Nothing follows prim: in the search. An example: prim:dot"),
        ('scope:""', "Nothing follows scope:"),
        ("line:ten", "ten is no line"),
        ("foo:bar", "A search knows no foo: but prim: name:"),
    ],
)
def test_a_search_that_asks_for_nothing_says_so(walked, words, mistake):
    field = walked.page.get_by_role("searchbox")
    field.fill("prim:scan")
    expect(walked.found).to_have_text("1 of 1")
    field.fill(words)
    expect(walked.found).to_contain_text(mistake)
    expect(walked.found).to_have_class(re.compile("tx-error"))
    expect(walked.inspector).to_contain_text("Select a node")
    field.fill("prim:scan")
    expect(walked.found).to_have_text("1 of 1")
    for fine in ("shape:[]", "shape:3,*", "shape:f32[...,4]", "shape:(4,)", "shape:4"):
        field.fill(fine)
        expect(walked.found).not_to_have_class(re.compile("tx-error"))
        expect(walked.found).to_have_text(re.compile("hits|of"))


def test_the_page_says_what_a_search_can_ask_for(opened):
    page = opened(drawing())
    page.inspector.get_by_text("What a search can ask for").click()
    for word in ("prim:", "name:", "tag:", "dtype:", "shape:", "source:", "line:", "fn:", "scope:"):
        expect(page.inspector.locator("kbd", has_text=word)).to_be_visible()
        assert word in page.page.get_by_role("searchbox").get_attribute("title")


def test_long_lines_of_the_text(opened):
    def loss(params):
        return jnp.sum(jnp.tanh(jnp.sin(params["a_rather_long_name_of_a_layer"]["another_name"])))

    params = {"a_rather_long_name_of_a_layer": {"another_name": jnp.ones(3)}}
    page = opened(draw(jax.grad(loss), params))
    assert page.page.locator(".tx-stage", has_text="[kept]").count() == 0
    expect(page.inspector).not_to_contain_text("for the backward pass.")
    page.page.get_by_role("tab", name="Text").click()
    text = page.page.get_by_role("tabpanel", name="Text")
    assert text.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_what_is_not_in_the_file_says_how_to_open_it(opened):
    page = opened(drawing().fold(JIT, SCAN), levels=0)
    page.node(SCAN).locator("text").first.dblclick()
    expect(page.message).to_contain_text("it is too deep inside")
    expect(page.message).to_contain_text(f'.unfold("{SCAN}")')
    page.line(f"{JIT}/call/1:tanh").click()
    expect(page.message).to_contain_text("is folded, and its picture is not in this file")
    page.page.get_by_role("searchbox").fill("tanh")
    expect(page.found).to_have_text("1 of 1")


def test_zoom_and_pan(walked):
    place = lambda: walked.page.locator(".tx-stage > svg").evaluate("svg => svg.style.transform")
    before = place()
    walked.page.get_by_role("button", name="Zoom in").click()
    assert place() != before
    zoomed = place()
    box = walked.page.locator(".tx-stage").bounding_box()
    walked.page.mouse.move(box["x"] + 20, box["y"] + box["height"] - 40)
    walked.page.mouse.down()
    walked.page.mouse.move(box["x"] + 120, box["y"] + box["height"] - 90, steps=4)
    walked.page.mouse.up()
    assert place() != zoomed
    assert walked.classed("tx-user") == set()  # it was no click


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colours_of_the_system(walked, scheme):
    walked.page.emulate_media(color_scheme=scheme)
    back = walked.page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", back)[:3])) / 3
    assert (brightness > 200) == (scheme == "light")
    BUILD.mkdir(exist_ok=True)
    walked.page.screenshot(path=BUILD / f"page-{scheme}.png")


def test_hostile_names_stay_text(opened):
    page = opened(draw(PROGRAMS["hostile"](), budget=20))
    assert page.page.locator("img, iframe, object").count() == 0
    assert page.page.locator("script").count() == 2
    for name in HOSTILE[:5]:
        words = name.split()[0]
        page.page.get_by_role("searchbox").fill(words)
        expect(page.found).to_have_text(re.compile(r"^1 of \d+$"))
    page.page.locator("g.node[data-fold]").first.dispatch_event("dblclick")
    expect(page.path).to_contain_text("whole program")


def test_it_can_be_seen_without_scripts(browser, tmp_path):
    file = tmp_path / "it.html"
    file.write_text(drawing().html(), "utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.locator(".tx-stage svg g.node").first).to_be_visible()
    expect(page.locator(".tx-text")).to_contain_text("tanh")
    context.close()


def test_colours_of_costs_are_those_of_the_legend_which_stays_in_sight(opened):
    drawing = draw(PROGRAMS["mlp_step"](), heat="flops")
    walked = opened(drawing)
    nodes = dict(walked.page.evaluate(HEAT))
    assert any("backward" in kinds for kinds in nodes)
    assert any("unused" in kinds for kinds in nodes)
    assert [kinds for kinds, same in nodes.items() if not same] == []
    legend = walked.page.locator(".tx-stage .legend")
    before = legend.bounding_box()
    expect(legend).to_be_in_viewport(ratio=1)
    for _ in range(4):
        walked.page.get_by_role("button", name="Zoom in").click()
    walked.page.mouse.move(700, 500)
    walked.page.mouse.down()
    walked.page.mouse.move(500, 200, steps=3)
    walked.page.mouse.up()
    expect(legend).to_be_in_viewport(ratio=1)
    assert legend.bounding_box() == before


def gradient(params, xs):
    def loss(params):
        def step(state, x):
            state = jnp.tanh(state @ params + x)
            return state, state

        state, kept = jax.lax.scan(step, jnp.zeros((8, 64)), xs)
        return jnp.sum(state) + jnp.sum(kept**2)

    return jax.grad(loss)(params)


def measured(question, heat):
    """A session whose picture has the colours of an answer."""
    shapes = jnp.ones((64, 64)), jnp.ones((10, 8, 64))
    session = Session(gradient, shapes, names=True)
    tanh = next(row for row in session.source().rows if "jnp.tanh" in row.line.text)
    session.tag(tanh.line.variables[0].address, "state")
    session.ask(question)
    session.heat = heat
    return session


BESIDE = {
    ("profile", "time"): "measured time: .*of the run",
    ("memory", "peak"): "bytes at the peak: .*of the memory",
    ("memory", "kept"): "kept bytes: .*of all kept values",
    ("compiled", "compiled"): r"kernels of XLA: .*kernel \d",
}


@pytest.mark.parametrize(("question", "heat"), BESIDE)
def test_what_was_measured_colours_a_page_and_stands_beside_the_lines(opened, question, heat):
    session = measured(question, heat)
    walked = opened(session)
    page = walked.page
    expect(page.locator(".tx-stage .legend")).to_contain_text(session.picture().heat.notes[0])
    page.get_by_role("tab", name="Source").click()
    marks = page.get_by_role("img", name=re.compile(f"^{BESIDE[question, heat]}"))
    lines = [k for k in session.line_heat() if k >= 0]
    lines += [k for k, one in session.line_kernels().items() if one.kernels or one.removed]
    expect(marks).not_to_have_count(0)
    expect(page.locator(".tx-measured:not(:empty)")).to_have_count(len(lines))
    assert page.get_by_label("Colour by").count() == 0  # it needs Python


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_the_timeline_of_its_memory(opened, page, scheme):
    page.emulate_media(color_scheme=scheme)
    session = measured("memory", "peak")
    session.fold(next(at for at in session.picture().unfolded if at.endswith(":scan")))
    walked = opened(session)
    slider = page.get_by_role("slider", name="Step of the program")
    use = session.memory_use
    peak = int(use.line.argmax())
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"after step {peak} of"))
    alive = page.locator(".tx-stage svg .tx-alive")
    expect(alive).not_to_have_count(0)
    page.screenshot(path=BUILD / f"page-timeline-{scheme}.png")
    slider.focus()
    slider.press("Home")
    expect(alive).to_have_count(2)  # its arguments
    slider.press("End")
    page.locator(".tx-stage g.node[data-fold]").first.dispatch_event("dblclick")
    expect(walked.path).to_contain_text("whole program")
    expect(slider).to_be_hidden()
    page.go_back()
    expect(slider).to_be_visible()


def test_a_page_of_other_colours_has_no_timeline(opened):
    walked = opened(measured("memory", "kept"))
    expect(walked.page.get_by_role("slider")).to_be_hidden()


def test_shift_and_a_click_select_as_a_click_does(walked):
    walked.node(SCAN).locator("text").first.click()
    walked.node("2:reduce_sum").locator("text").first.click(modifiers=["Shift"])
    expect(walked.inspector.locator(".tx-address")).to_have_text("2:reduce_sum")
    walked.node(SCAN).focus()
    walked.page.keyboard.press("Shift+Enter")
    expect(walked.inspector.locator(".tx-address")).to_have_text(SCAN)
