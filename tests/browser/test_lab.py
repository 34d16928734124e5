"""The panel in JupyterLab."""

import itertools
import json
import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import (
    SECONDS,
    NotebookPage,
    expect,
    in_python,
    is_checkpoint,
    is_save,
    notebook,
    until,
)
from browser.programs import ADD, IMPORTS, QUICKSTART, SCAN, SCANNED, TANH, whole_way

import taxpr

TYPED = [  # injector, parameter, number
    ("add", "value", "0.25"),
    ("clip", "low", "0.25"),
    ("clip", "low", "-inf"),
    ("replace", "value", "1e-6"),
]
PLACE = "[round(p.view_state.get('place', {}).get(k, 0), 2) for k in ('x', 'y', 'scale')]"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\" ' &amp; </style>"


@pytest.fixture
def url(server):
    return server.in_lab


@pytest.fixture
def opened(page, url):
    """Opens a notebook with these cells after the imports and the scan, and runs these two."""

    def open_notebook(*cells):
        book = NotebookPage(page, url(notebook(IMPORTS, SCAN, *cells)))
        book.run(0)
        book.run(1)
        return book, book.panel(1)

    return open_notebook


def test_from_a_click_to_the_changed_value_in_python(page, url):
    whole_way(page, url, BUILD / "panel-lab.png")


@pytest.mark.slow
def test_the_quickstart_runs_again_in_the_same_kernel(page, url):
    """Sessions that are made again take their tags over, and the cells tag them again."""
    book = NotebookPage(page, url(json.loads(QUICKSTART.read_text("utf-8"))))
    prompt = page.locator(".jp-CodeCell").last.locator(".jp-InputPrompt")
    book.run_all()
    first = prompt.inner_text()
    book.run_all()
    expect(prompt).not_to_have_text(first, timeout=180 * SECONDS)
    expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=180 * SECONDS)
    assert int(prompt.inner_text().strip("[]:")) == 2 * int(first.strip("[]:"))


@pytest.mark.slow
def test_a_typed_number_is_the_one_that_runs(page, opened):
    """Also one between two steps of the slider, or beyond its ends."""
    values = "next(iter(p.injectors.values())).values"
    hand = (
        "def hand(h, x):\n"
        "    h = 0.001 * jnp.tanh(w @ h + x)\n"
        "    return h, h.sum()\n"
        "h, sums = jax.lax.scan(hand, jnp.zeros(4), xs)\n"
    )
    same = "[bool(jnp.allclose(p.last.outputs[k], v, rtol=1e-6, atol=0)) for k, v in wanted]"
    wanted = 'wanted = [("h", h), ("loss", sums.mean())]\n'
    book, panel = opened(hand + wanted + in_python(f"[{values}, {same}]"), in_python(values))
    panel.select(TANH)
    panel.tag("mid")
    for injector, name, text in TYPED:
        param = taxpr.ready_injectors()[injector].params[name]
        panel.injector.select_option(injector)
        field = panel.root.locator(".tx-param", has_text=param.help).get_by_label(name, exact=True)
        field.fill(text)
        field.press("Enter")
        until(page, lambda name=name, text=text: book.python(3)[name] == float(text))
        expect(field).to_have_value(text)
    panel.injector.select_option("scale")
    expect(panel.root.locator(".tx-param")).to_contain_text("factor")
    for text in ("1000", "-0.001", "0.001"):
        panel.field.fill(text)
        panel.field.press("Enter")
        book.expect_python(3, {"factor": float(text)})
        expect(panel.field).to_have_value(text)
    panel.field.fill("a bit")
    panel.field.press("Enter")
    expect(panel.root.locator(".tx-param .tx-error")).to_have_text(
        "'a bit' is not a number: factor is still 0.001"
    )
    panel.field.fill("0.001")
    panel.field.press("Enter")
    expect(panel.root.locator(".tx-param .tx-error")).to_be_hidden()
    panel.run(1)
    expect(panel.code).to_contain_text("factor=0.001")
    book.expect_python(2, [{"factor": 0.001}, [True, True]])
    panel.slider.focus()
    page.keyboard.press("ArrowRight")
    expect(panel.field).to_have_value("0.05")
    book.expect_python(3, {"factor": 0.05})


@pytest.mark.slow
def test_hostile_names_stay_text(opened):
    book, panel = opened(in_python("[tag['name'] for tag in p.tags.values()]"))
    panel.select(TANH)
    panel.tag(HOSTILE)
    panel.attach("scale")
    panel.run(1)
    expect(panel.results.locator("tbody th").last).to_be_visible()
    names = panel.results.locator("tbody th").all_inner_texts()
    assert any(HOSTILE in name for name in names)
    panel.root.get_by_role("tab", name="Picture").click()  # the results have the inspector's place
    panel.button("Clear the selection").click()
    expect(panel.inspector.locator(".tx-chip-injected")).to_have_text(HOSTILE)
    assert panel.root.locator("img, script").count() == 0
    book.expect_python(2, [HOSTILE])
    assert book.dialogs == []


@pytest.mark.slow
def test_a_picture_that_could_run_something_is_cleaned(page, opened):
    book, panel = opened(
        "from taxpr_jupyter._view.widget import view_for\n"
        "view_for(p).graph.svg = '''<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'\n"
        "  width='90' height='90' onload='alert(1)'><script>alert(2)</script>\n"
        "  <foreignObject><img xmlns='http://www.w3.org/1999/xhtml' src='x' onerror='alert(3)'/>\n"
        "  </foreignObject><style>@import 'http://127.0.0.1:9/x.css'</style>\n"
        "  <a href='javascript:alert(4)'><rect data-address='safe' class='node' width='9'\n"
        "  height='9' onclick='alert(5)'/></a></svg>'''"
    )
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    book.run(2)
    panel.node("safe").click()
    assert panel.stage.locator("script, foreignObject, img, style").count() == 0
    assert panel.stage.locator("[onload], [onclick], [href]").count() == 0
    assert book.dialogs == []
    assert not any(":9/" in address for address in asked)


@pytest.mark.slow
def test_the_header_is_two_rows_and_its_texts_are_whole(page, opened):
    page.set_viewport_size({"width": 1500, "height": 900})
    _, panel = opened()
    parts = (".tx-title", ".tx-tabs", ".tx-heat", ".tx-tools", ".tx-search")
    boxes = [panel.root.locator(part).bounding_box() for part in parts]
    middles = sorted(box["y"] + box["height"] / 2 for box in boxes)
    assert sum(b - a > 10 for a, b in itertools.pairwise(middles)) <= 1  # from one row to the next
    field = panel.root.get_by_role("searchbox")
    wide = field.evaluate(
        """field => {
          const context = document.createElement("canvas").getContext("2d");
          context.font = getComputedStyle(field).font;
          return context.measureText(field.placeholder).width + 16 <= field.clientWidth;
        }"""
    )
    assert wide


@pytest.mark.slow
def test_beside_run_stands_what_came_of_it(page, opened):
    page.set_viewport_size({"width": 1400, "height": 700})
    _, panel = opened()
    line = panel.root.locator(".tx-ran")
    expect(line.locator("button")).to_be_hidden()
    panel.select(TANH)
    panel.attach("zero")
    panel.run(1)
    expect(line).to_have_text(re.compile(r"^Run 1: 2 of 2 outputs changed, by \S+ at most$"))
    heading = panel.results.locator("h3")
    expect(heading).to_be_in_viewport()  # beside the picture
    panel.root.get_by_role("tab", name="Picture").click()
    expect(heading).to_be_hidden()
    line.locator("button").click()
    expect(heading).to_be_in_viewport()
    panel.injector.select_option("none")
    panel.run(2)
    expect(line).to_have_text("Run 2: no output changed")


def test_the_notebook_is_saved_by_its_key_from_within_the_panel(page, opened):
    """Whatever has the focus; and what is typed or copied in the panel stays with it."""
    book, panel = opened()
    panel.select(TANH)
    panel.attach("scale")
    cells = book.count_cells()
    for focused in (
        panel.root.get_by_role("tab", name="Picture"),
        panel.slider,
        panel.field,
        panel.node(TANH),
    ):
        focused.focus()
        with page.expect_response(is_checkpoint), page.expect_response(is_save):
            page.keyboard.press("Control+s")
        expect(focused).to_be_focused()
        for key in ("a", "Control+a", "Control+x", "d", "d"):
            page.keyboard.press(key)
    assert book.count_cells() == cells


@pytest.mark.slow
def test_where_a_tag_and_its_value_come_from(opened):
    _, panel = opened()
    panel.select(TANH)
    panel.tag("h")
    panel.node(kind="added").locator("text").first.click()
    sections = panel.inspector.locator("section")
    value = sections.filter(has_text="Source of the value")
    expect(value).to_contain_text("h = jnp.tanh(w @ h + x)")
    own = sections.filter(has_text="Source of the tag")
    expect(own).to_contain_text(f"session.tag('{TANH}.0', name='h')")
    panel.button("Fit the picture").click()  # the map lies on a part of it
    panel.node(kind="tag").filter(has_text="sum").first.click()  # too small for its text
    expect(own).to_contain_text('taxpr.tag(h.sum(), name="sum")')


@pytest.mark.slow
def test_the_legend_is_folded(opened):
    _, panel = opened()
    legend = panel.root.locator(".tx-legend")
    expect(legend).to_be_hidden()
    panel.root.get_by_text("What the nodes and lines of the picture are").click()
    expect(legend).to_contain_text("a tag with an injector")
    fills = legend.locator("svg g.node > *").evaluate_all(
        "all => all.map(e => getComputedStyle(e).fill)"
    )
    assert len(set(fills)) > 6
    assert "rgb(0, 0, 0)" not in fills  # which is what no rule gives


@pytest.mark.slow
def test_folding_and_unfolding(opened):
    book, panel = opened(in_python("sorted(p.picture().unfolded)"))
    panel.node(f"{SCANNED}/body", "cluster").locator("text").dblclick()
    expect(panel.node(SCANNED, "hop")).to_be_visible()
    expect(panel.node(TANH)).to_have_count(0)
    book.expect_python(2, [])
    panel.select(SCANNED)
    panel.button("Unfold").click()
    expect(panel.node(TANH)).to_be_visible()
    book.expect_python(2, [SCANNED])
    panel.button("Fold").click()
    expect(panel.node(SCANNED, "hop")).to_be_visible()


def test_the_keyboard_is_enough(page, opened):
    book, panel = opened(in_python("[list(p.tags), list(p.injectors)]"))
    panel.button("Copy the picture").focus()
    page.keyboard.press("Tab")  # the button for the full screen
    page.keyboard.press("Tab")  # into the picture: it is one stop of the Tab key
    page.keyboard.press("End")
    page.keyboard.press("Home")
    focused = panel.stage.locator(":focus")
    for _ in range(12):
        if focused.get_attribute("data-address") == ADD:
            break
        page.keyboard.press("ArrowDown")
    expect(panel.node(ADD)).to_be_focused()
    page.keyboard.press("Enter")
    panel.expect_selected(ADD)
    page.keyboard.press("ArrowDown")
    expect(panel.node(TANH)).to_be_focused()
    panel.expect_selected(ADD)  # moving alone selects nothing
    page.keyboard.press(" ")
    panel.expect_selected(TANH)
    _, _, scale = panel.place()
    page.keyboard.press("+")
    assert panel.place()[2] > scale
    page.keyboard.press("-")
    assert abs(panel.place()[2] - scale) < 1e-6
    for _ in range(2):  # what can be read, and then all of it, which needs no map
        page.keyboard.press("0")
    expect(panel.stage.locator(".tx-map")).to_be_hidden()
    page.keyboard.press("Tab")  # ×, then the name of the tag
    page.keyboard.press("Tab")
    expect(panel.inspector.locator(".tx-field")).to_be_focused()
    page.keyboard.type("h")
    page.keyboard.press("Enter")
    expect(panel.inspector.locator(".tx-chip-tag")).to_have_text("h")
    panel.injector.focus()
    page.keyboard.press("ArrowDown")
    expect(panel.node(kind="injected")).to_have_count(1)
    panel.node(TANH).focus()
    page.keyboard.press("Escape")
    expect(panel.address).to_have_count(0)
    book.expect_python(2, [[f"{TANH}.0"], [f"{TANH}.0"]])


@pytest.mark.slow
def test_moving_and_zooming(page, opened):
    book, panel = opened(in_python(f"[p.view_state.get('selected'), {PLACE}]"))
    box = panel.stage.bounding_box()
    x, y = box["x"] + 40, box["y"] + 300
    panel.select(TANH)
    start = panel.place()
    page.mouse.move(x, y)
    page.mouse.wheel(0, 200)  # scrolls the page
    page.mouse.wheel(0, -200)
    assert panel.place() == start
    page.mouse.down()
    page.mouse.move(x + 50, y + 30, steps=5)
    page.mouse.up()
    moved = panel.place()
    assert [round(b - a, 3) for a, b in zip(start, moved, strict=True)] == [50, 30, 0]
    panel.expect_selected(TANH)  # dragging is no click
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(panel.root.locator(".tx-scale")).not_to_have_text("75%")
    assert panel.place()[2] > moved[2]
    place = panel.place()
    expect(panel.root.locator(".tx-scale")).to_have_text(f"{round(100 * place[2])}%")
    page.mouse.click(x, y)  # beside all nodes
    expect(panel.address).to_have_count(0)
    book.expect_python(2, ["", [round(v, 2) for v in place]])
    for _ in range(2):  # what can be read, and then all of it
        panel.button("Fit the picture").click()
    inside = panel.stage.locator("> svg").bounding_box()
    assert inside["height"] <= box["height"]


WIDE = """\
%%taxpr --name wide --budget 400
def f(x):
    return [jnp.tanh(jnp.sin(x + k)) @ x for k in range(30)]

f(jnp.ones((3, 3)))
"""


def middles(panel):
    """Where the nodes within the stage are: their middles in the window, by address."""
    return panel.stage.evaluate(
        "stage => { const out = {}, s = stage.getBoundingClientRect();"
        " for (const node of stage.querySelectorAll('.node[data-address]')) {"
        "  const b = node.getBoundingClientRect();"
        "  const [x, y] = [b.x + b.width / 2, b.y + b.height / 2];"
        "  if (b.left >= s.left && b.right <= s.right && b.top >= s.top && b.bottom <= s.bottom)"
        "   out[node.dataset.address] = [x - s.left, y - s.top]; } return out; }"
    )


@pytest.mark.slow
def test_a_wide_picture_shows_its_first_nodes_and_stays_where_it_is(opened):
    book, _ = opened(WIDE)
    book.run(2)
    wide = book.panel(2)
    wide.stage.scroll_into_view_if_needed()
    width = wide.stage.bounding_box()["width"]
    assert wide.stage.locator("> svg").bounding_box()["width"] > 1.5 * width
    before = middles(wide)
    assert len(before) > 5
    assert any(address.startswith("in") for address in before)
    address = next(a for a in before if a.endswith(":sin"))
    wide.select(address)
    before, place = middles(wide), wide.place()
    wide.tag("mine")
    after = middles(wide)
    assert wide.place()[2] == place[2]
    assert after[address] == pytest.approx(before[address], abs=1)
    wide.button("Clear the selection").click()
    expect(wide.inspector.locator(".tx-tag code")).to_have_css("white-space", "nowrap")
    wide.button("Fit the picture").click()
    stage, svg = wide.stage.bounding_box(), wide.stage.locator("> svg").bounding_box()
    assert stage["x"] <= svg["x"]  # all of it is in sight
    assert svg["x"] + svg["width"] <= stage["x"] + stage["width"]
    wide.node(address).click(force=True)
    wide.expect_selected(address)
    before, place = middles(wide), wide.place()
    wide.attach("scale")
    assert wide.place()[2] == place[2]
    assert middles(wide)[address] == pytest.approx(before[address], abs=2)


@pytest.mark.slow
def test_panels_on_one_page(opened):
    other = SCAN.replace("--name p", "--name q")
    book, panel = opened(other, "q", in_python("[p.tags, q.tags]"))
    book.run(2)
    book.run(3)
    second, again = book.panel(2), book.panel(3)
    second.select(TANH)
    again.expect_selected(TANH)  # two views of one session are in step
    expect(panel.stage.locator("[aria-selected=true]")).to_have_count(0)
    again.tag("h")
    expect(second.inspector.locator(".tx-chip-tag")).to_have_text("h")
    expect(second.node(kind="added")).to_have_count(1)
    expect(panel.node(kind="added")).to_have_count(0)
    book.expect_python(4, [{}, {f"{TANH}.0": {"name": "h"}}])


def test_a_cell_that_is_run_again_has_the_same_panel(page, opened):
    book, panel = opened(in_python("p.tags"), in_python(PLACE))
    panel.select(TANH)
    panel.tag("h")
    panel.attach("scale")
    panel.button("Zoom in").click()
    place = panel.place()
    book.expect_python(3, [round(v, 2) for v in place])  # it is sent later than it changes
    book.run(1)
    panel = book.panel(1)
    expect(panel.root).to_have_count(1)
    panel.expect_selected(TANH)
    expect(panel.node(kind="injected")).to_have_count(1)
    expect(panel.injector).to_have_value("scale")
    assert [round(v) for v in panel.place()] == [round(v) for v in place]
    book.expect_python(2, {f"{TANH}.0": {"name": "h"}})


@pytest.mark.slow
def test_the_colours_of_costs_are_kept_when_a_cell_is_run_again(page, opened):
    book, panel = opened(in_python("p.heat"))
    chosen = panel.root.get_by_label("Colour by")
    expect(chosen).to_have_value("")
    expect(panel.stage.locator(".legend")).to_have_count(0)
    chosen.select_option("flops")
    expect(panel.stage.locator(".legend")).to_contain_text("operations (FLOP)")
    expect(panel.node("1:scan/body/0:dot_general")).to_have_class(re.compile("heat-6"))
    panel.select(TANH)
    expect(panel.inspector).to_contain_text("4 transcendental · 32 B moved")
    book.expect_python(2, "flops")
    book.run(1)
    panel = book.panel(1)
    expect(panel.root.get_by_label("Colour by")).to_have_value("flops")
    expect(panel.stage.locator(".legend")).to_be_visible()
    panel.run(1)
    expect(panel.results).to_contain_text("XLA, untouched: ")
    panel.screenshot(BUILD / "panel-lab-heat.png")


@pytest.mark.slow
def test_an_injector_that_changes_a_shape(opened):
    book, panel = opened(in_python("[p.last.ok, p.last.error, list(p.tags)]"))
    panel.select(TANH)
    panel.tag("h")
    panel.attach("cut")
    failure = panel.root.locator(".tx-failure")
    expect(failure).to_contain_text("cut")
    expect(failure).to_contain_text("float32[2]")
    expect(panel.node(kind="tx-failed")).to_have_count(1)
    panel.run(1)
    expect(panel.results.locator("pre.tx-error")).to_contain_text("float32[2]")
    assert "Traceback" not in panel.root.inner_text()
    panel.injector.select_option("zero")
    expect(failure).to_be_hidden()
    expect(panel.results.locator(".tx-outdated")).to_be_visible()
    panel.run(2)
    assert panel.output("out['loss']")[1] == "0"
    book.expect_python(2, [True, None, [f"{TANH}.0"]])


# An injector that is traced, in small steps of Python, until the event is set.
HOLD = """\
import threading, time
go_on = threading.Event()
def slow(ctx, token, params, factor=0.5):
    "Takes long to trace."
    while not go_on.is_set():
        time.sleep(0.01)
    return token * factor, ctx
"""


@pytest.mark.slow
def test_the_panel_is_usable_while_an_injector_is_traced(opened):
    values = in_python("[one.values for one in p.last.injectors.values()]")
    book, panel = opened(HOLD, "go_on.set()", values)
    book.run(2)
    progress = panel.root.locator(".tx-progress")
    panel.select(TANH)
    panel.attach("slow")
    expect(progress).to_contain_text("tracing slow at h")
    panel.field.fill("2")
    panel.field.press("Enter")
    panel.select(ADD)
    panel.node(f"{SCANNED}/body", "cluster").locator("text").dblclick()
    expect(panel.node(SCANNED, "hop")).to_be_visible()
    panel.run_button.click()
    expect(progress).to_contain_text("tracing slow at h")
    expect(panel.results.locator("h3")).to_have_count(0)
    book.run(3)
    expect(panel.results.locator("h3")).to_contain_text("Run 1 on ", timeout=120 * SECONDS)
    expect(progress).to_be_hidden()
    book.expect_python(4, [{"factor": 2.0}])


@pytest.mark.slow
def test_what_is_traced_is_cancelled(opened):
    book, panel = opened(HOLD, in_python("list(p.injectors)"), "go_on.set()")
    book.run(2)
    progress = panel.root.locator(".tx-progress")
    panel.select(TANH)
    panel.attach("slow")
    expect(progress).to_contain_text("tracing slow at h")
    panel.run_button.click()
    panel.run_button.click()
    expect(panel.message).to_have_text("A run is under way.")
    panel.button("Cancel").click()
    expect(panel.results).to_contain_text("This run was cancelled.")
    expect(progress).to_be_hidden()
    expect(panel.message).to_have_text("Cancelled.")
    expect(panel.injector).to_have_value("")
    book.expect_python(3, [])
    book.run(4)
    panel.run(2)
    expect(panel.results.get_by_label("Outputs", exact=True)).to_contain_text("out['loss']")


@pytest.mark.slow
def test_a_mistake_is_one_message(page, opened):
    book, panel = opened(in_python("list(p.tags)"))
    panel.select(TANH)
    field = panel.inspector.locator(".tx-field")
    field.fill("sum")
    page.keyboard.press("Enter")
    taken = r"^The name 'sum' is taken by the tag 'sum' \(cell \d+:\d+ in \w+, at 1:scan/body/t0\)$"
    expect(panel.message).to_have_text(re.compile(taken))
    expect(field).to_have_value("sum")
    book.expect_python(2, [])
    panel.tag("h")
    expect(panel.message).to_have_text("")
    book.expect_python(2, [f"{TANH}.0"])


@pytest.mark.slow
def test_the_code_can_be_copied(page, opened):
    _, panel = opened()
    panel.select(TANH)
    panel.tag("h")
    panel.root.get_by_text("Python code").click()
    expect(panel.code).to_contain_text("name='h'")
    code = panel.code.inner_text().strip()
    assert code.startswith("import jax")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel.button("Copy").click()
    expect(panel.message).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()").strip() == code
    page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject())")
    panel.button("Copy").click()
    expect(panel.message).to_contain_text("Ctrl+C")
    assert page.evaluate("getSelection().toString()").strip() == code


@pytest.mark.slow
def test_the_dark_theme(page, opened):
    _, panel = opened()
    change = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
    page.evaluate(change, "JupyterLab Dark")
    try:
        page.locator("[data-jp-theme-light=false]").wait_for(state="attached")
        page.wait_for_function(
            "getComputedStyle(document.querySelector('.taxpr-panel')).backgroundColor"
            " != 'rgb(255, 255, 255)'"
        )
        panel.select(TANH)
        panel.attach("scale")
        panel.run(1)
        panel.screenshot(BUILD / "panel-lab-dark.png")
        lightness = panel.root.evaluate(
            "root => [root, root.querySelector('.tx-stage .tag text')].map((element, i) => {"
            "  const style = getComputedStyle(element);"
            "  const canvas = document.createElement('canvas').getContext('2d');"
            "  canvas.fillStyle = i ? style.fill : style.backgroundColor;"
            "  canvas.fillRect(0, 0, 1, 1);"
            "  return canvas.getImageData(0, 0, 1, 1).data[1];"
            "})"
        )
        assert lightness[0] < 64
        assert lightness[1] > 192
    finally:
        page.evaluate(change, "JupyterLab Light")
        page.locator("[data-jp-theme-light=true]").wait_for(state="attached")


@pytest.mark.slow
def test_a_session_ends_when_its_panel_is_in_no_page_any_longer(page, opened):
    shown = (
        "import gc, weakref\nfrom taxpr_jupyter import panel\n"
        "q = panel(jnp.sin)(jnp.ones(3))\ngone = weakref.ref(q)\ndisplay(q)\ndel q"
    )
    is_gone = in_python("[gc.collect(), gone() is None][1]")
    book, _ = opened(shown, "panel(jnp.cos)(1.0)", is_gone)
    book.run(2)
    book.panel(2)
    book.run(3)
    book.expect_python(4, False)
    cells = book.count_cells()
    page.locator(".jp-CodeCell").nth(2).locator(".jp-InputPrompt").click()
    page.keyboard.press("d")
    page.keyboard.press("d")
    expect(page.locator(".jp-CodeCell")).to_have_count(cells - 1)
    book.run(2)
    book.expect_python(3, True)
