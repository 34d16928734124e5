"""The picture, the text and the outline in JupyterLab: one selection and one folding."""

import re

import pytest
from browser.conftest import BUILD
from browser.notebook_page import NotebookPage, Panel, expect, in_python, notebook
from browser.programs import HEAT, IMPORTS

MODULES = """\
%%taxpr --name p
def block(w, xs):
    def step(h, x):
        h = jnp.tanh(w @ h + x)
        return h, taxpr.tag(h.sum(), name="sum")
    with jax.named_scope("encoder"):
        h, sums = jax.lax.scan(step, jnp.zeros(4), xs)
        h = jax.nn.softmax(h)
    with jax.named_scope("head"):
        y = (h * w.sum(0)).mean() + sums.mean()
    return y

w, xs = 0.1 * jnp.ones((4, 4)), jnp.ones((5, 4))
jax.value_and_grad(block)(w, xs)
"""


class Views:
    """The tabs of a panel, and the rows of the one that is shown."""

    def __init__(self, page, panel):
        self.page = page
        self.root = panel.root
        self.tabs = panel.root.get_by_role("tablist", name="View of the program")

    def open(self, name):
        self.tabs.get_by_role("tab", name=name).click()
        expect(self.tabs.get_by_role("tab", selected=True)).to_have_text(name)
        tree = self.root.get_by_role("tree")  # what is not shown has no role
        expect(tree).to_have_accessible_name(f"{name} of the program")
        expect(tree.get_by_role("treeitem").first).to_be_visible()
        return tree

    def focused(self):
        return self.page.evaluate(
            "() => { const e = document.activeElement; return {"
            " address: e.dataset.row, level: Number(e.ariaLevel), open: e.ariaExpanded,"
            " place: [Number(e.ariaPosInSet), Number(e.ariaSetSize)], text: e.textContent}; }"
        )


@pytest.fixture
def opened(page, server):
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)

    def open_notebook(*cells):
        content = notebook(IMPORTS, MODULES, *cells)
        book = NotebookPage(page, server.in_lab(content))
        book.run(0)
        errors.clear()  # of JupyterLab's own, before there is a panel
        book.run(1)
        return book, book.panel(1)

    yield open_notebook
    assert errors == []


SCAN_AT = "1:scan"
TANH = "1:scan/body/2:tanh"
CHANGE = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"


@pytest.mark.slow
def test_by_keyboard_to_an_equation_of_a_scan_of_a_module(page, opened):
    book, panel = opened(in_python(f"[{SCAN_AT!r} in p.picture().unfolded, p.view_state['view']]"))
    views = Views(page, panel)
    tabs = views.tabs.get_by_role("tab")
    assert {"Picture", "Text", "Outline", "Compare"} <= set(tabs.all_inner_texts())
    expect(views.tabs.get_by_role("tab", selected=True)).to_have_text("Picture")
    panel.screenshot(BUILD / "views-picture.png")
    tabs.first.focus()
    page.keyboard.press("ArrowLeft")  # round the corner
    expect(tabs.last).to_be_focused()
    page.keyboard.press("Home")
    expect(tabs.first).to_be_focused()
    page.keyboard.press("End")
    expect(tabs.last).to_be_focused()
    panel.tab_by_keys("Outline")
    tree = views.root.get_by_role("tree", name="Outline of the program")
    expect(tree.get_by_role("treeitem").first).to_be_visible()
    page.keyboard.press("Tab")  # into the tree: it is one stop of the Tab key
    page.keyboard.press("End")
    assert views.focused()["text"].startswith("out")
    page.keyboard.press("Home")
    assert views.focused()["address"] == "in0"
    page.keyboard.type("enc")
    encoder = views.focused()
    assert (encoder["level"], encoder["open"]) == (2, "true")
    page.keyboard.press("ArrowDown")  # after which letters begin another word
    page.keyboard.type("scan")
    assert views.focused()["address"] == SCAN_AT
    assert views.focused()["place"] == [2, 2]  # of its statement
    if views.focused()["open"] == "true":  # then the picture had room for it
        page.keyboard.press("ArrowLeft")
    expect(tree.locator(f"[data-row='{SCAN_AT}'][aria-expanded=false]")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tree.locator(f"[data-row='{SCAN_AT}'][aria-expanded=true]")).to_be_focused()
    page.keyboard.press("ArrowRight")
    assert views.focused()["address"] == f"{SCAN_AT}/body/in0"
    page.keyboard.type("h")
    statement = views.focused()
    assert statement["text"].startswith("h = jnp.tanh(w @ h + x)")
    assert (statement["level"], statement["open"]) == (5, "false")
    page.keyboard.press("ArrowRight")
    expect(tree.locator(":focus")).to_have_attribute("aria-expanded", "true")
    page.keyboard.type("tanh")
    tanh = views.focused()
    assert (tanh["address"], tanh["level"], tanh["open"]) == (TANH, 6, None)
    expect(panel.address).to_have_count(0)  # moving alone selects nothing
    page.keyboard.press("Enter")
    expect(panel.address).to_have_text(TANH)
    expect(tree.locator("[aria-selected=true]")).to_have_attribute("data-row", TANH)
    panel.screenshot(BUILD / "views-outline.png")

    text = views.open("Text")
    selected = text.locator("[aria-selected=true]")
    expect(selected).to_have_text(re.compile(r"^\w+:f32\[4\] = tanh \w+\s+# h\s*$"))
    expect(selected).to_be_in_viewport(ratio=0.3)  # rows are as wide as the widest
    panel.screenshot(BUILD / "views-text.png")
    views.tabs.get_by_role("tab", name="Picture").click()
    panel.expect_selected(TANH)
    expect(panel.node(TANH)).to_be_in_viewport()
    panel.stage.locator("svg [aria-selected=true]").focus()
    page.keyboard.press("ArrowDown")

    views.open("Outline")
    tree.locator(f"[data-row='{TANH}']").focus()
    page.keyboard.press("ArrowLeft")
    assert views.focused()["address"] == statement["address"]
    page.keyboard.press("ArrowLeft")
    expect(tree.locator(":focus")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowLeft")
    assert views.focused()["address"] == SCAN_AT
    page.keyboard.press(" ")
    expect(tree.locator(f"[data-row='{SCAN_AT}'][aria-expanded=false]")).to_be_focused()
    expect(tree.locator(".tx-holds")).to_have_attribute("data-row", SCAN_AT)
    expect(panel.stage.locator(f"svg [data-address='{SCAN_AT}']")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(panel.address).to_have_count(0)
    book.expect_python(2, [False, "outline"])
    book.run(1)  # again: the same view
    again = Views(page, Panel(book.cell(1).locator(".taxpr-panel")))
    expect(again.tabs.get_by_role("tab", selected=True)).to_have_text("Outline")
    expect(again.root.get_by_role("treeitem").first).to_be_visible()


@pytest.mark.slow
def test_the_mouse_and_the_other_views(page, opened):
    book, panel = opened(
        in_python(f"[p.view_state['selected'], {SCAN_AT!r} in p.picture().unfolded]")
    )
    views = Views(page, panel)
    text = views.open("Text")
    rows = text.get_by_role("treeitem")
    rows.first.locator("[data-address=in1]").first.click()
    expect(panel.address).to_have_text("in1")
    expect(panel.node("in1").first).to_have_attribute("aria-selected", "true")
    row = text.locator(f"[data-row='{SCAN_AT}']").first
    opened_before = row.get_attribute("aria-expanded")
    row.locator(".tx-twist").click()
    expect(row).not_to_have_attribute("aria-expanded", opened_before)
    expect(panel.address).to_have_text("in1")
    book.expect_python(2, ["in1", opened_before == "false"])
    views.open("Outline")
    head = panel.root.locator(f".tx-outline [data-row='{SCAN_AT}']")
    expect(head).not_to_have_attribute("aria-expanded", opened_before)
    head.dblclick()
    expect(head).to_have_attribute("aria-expanded", opened_before)


@pytest.mark.slow
def test_search_and_paths_in_the_text(page, opened):
    _, panel = opened()
    views = Views(page, panel)
    text = views.open("Text")
    field = panel.root.get_by_role("searchbox")
    field.fill("prim:tanh")
    field.press("Enter")
    selected = text.locator("[aria-selected=true]")
    expect(selected).to_have_attribute("data-row", TANH)  # the scan is open for it
    expect(selected).to_be_in_viewport(ratio=0.5)
    expect(panel.address).to_have_text(TANH)
    panel.button("Upstream").click()
    expect(text.locator(f"[data-row='{TANH}']")).not_to_have_class(re.compile("tx-pale"))
    head = text.locator("[data-row='1:scan']").first
    expect(head).not_to_have_class(re.compile("tx-pale"))
    expect(text.locator(".tx-pale")).not_to_have_count(0)
    panel.screenshot(BUILD / "views-text-upstream.png")


@pytest.mark.slow
def test_names_roles_and_what_is_tagged(page, opened):
    """What a screen reader is told, and names that look like markup."""
    _, panel = opened()
    name = "<img src=x onerror=alert(1)>"
    row = panel.root.get_by_role("treeitem")
    views = Views(page, panel)
    tree = views.open("Outline")
    tree.locator("[data-row='0:broadcast_in_dim']").click()
    expect(panel.address).to_have_text("0:broadcast_in_dim")
    panel.inspector.locator(".tx-field").fill(name)
    page.keyboard.press("Enter")
    added = tree.locator(".added")
    expect(added).to_have_count(1)
    expect(added).to_have_accessible_name(re.compile("^tag <img.* gives .*added here"))
    panel.injector.select_option("scale")
    expect(tree.locator(".injected")).to_have_accessible_name(re.compile("injected"))
    assert panel.root.locator("img").count() == 0
    problems = panel.root.evaluate(AXE)
    assert problems == []
    expect(row.filter(has_text="backward pass").first).to_have_attribute("aria-level", "1")
    views.open("Text")
    assert panel.root.evaluate(AXE) == []
    page.evaluate(CHANGE, "JupyterLab Dark")
    try:
        page.locator("[data-jp-theme-light=false]").wait_for(state="attached")
        panel.screenshot(BUILD / "views-text-dark.png")
        views.open("Outline")
        panel.screenshot(BUILD / "views-outline-dark.png")
    finally:
        page.evaluate(CHANGE, "JupyterLab Light")
        page.locator("[data-jp-theme-light=true]").wait_for(state="attached")


@pytest.mark.slow
def test_without_a_picture_there_is_the_outline_and_the_reason(page, opened):
    without = (
        "from taxpr_jupyter._view.widget import view_for\n"
        "type(p).layout_note = 'No picture: it took too long.'\n"
        "view_for(p).showing.picture(None)"
    )
    book, panel = opened(without)
    book.run(2)
    views = Views(page, panel)
    expect(views.tabs.get_by_role("tab", selected=True)).to_have_text("Outline")
    expect(panel.root.get_by_role("note")).to_have_text("No picture: it took too long.")
    expect(panel.root.get_by_role("treeitem").first).to_be_visible()


# What a checker of accessibility looks for in tabs and trees.
AXE = """root => {
  const bad = [], say = (what, e) => bad.push(`${what}: ${e.outerHTML.slice(0, 120)}`);
  const one = (list, what) => list.length === 1 || bad.push(`${what}: ${list.length}`);
  const tabs = [...root.querySelectorAll('[role=tab]')];
  one(tabs.filter(tab => tab.ariaSelected === 'true'), 'selected tabs');
  one(tabs.filter(tab => tab.tabIndex === 0), 'tabs that Tab reaches');
  for (const tab of tabs) {
    const panel = document.getElementById(tab.getAttribute('aria-controls'));
    if (panel?.getAttribute('aria-labelledby') !== tab.id) say('no panel', tab);
    const seen = getComputedStyle(panel).visibility === 'visible';
    if (seen !== (tab.ariaSelected === 'true')) say('panel of another tab', tab);
  }
  for (const tree of root.querySelectorAll('[role=tree]')) {
    const items = [...tree.children];
    if (!items.length) continue;
    if (!tree.ariaLabel) say('no name', tree);
    one(items.filter(item => item.tabIndex === 0), 'rows that Tab reaches');
    let level = 1;
    items.forEach((item, k) => {
      const inside = Number(items[k + 1]?.ariaLevel) > Number(item.ariaLevel);
      if (item.getAttribute('role') !== 'treeitem') say('no treeitem', item);
      if (!item.ariaLabel && !item.textContent.trim()) say('no name', item);
      if (Number(item.ariaLevel) > level + 1) say('a level is left out', item);
      level = Number(item.ariaLevel);
      if (item.ariaExpanded === 'false' && inside) say('closed with children', item);
      const [at, of] = [Number(item.ariaPosInSet), Number(item.ariaSetSize)];
      if (!(at >= 1 && at <= of)) say('place', item);
    });
  }
  const ids = [...document.querySelectorAll('[id^=tx-]')].map(e => e.id);
  if (new Set(ids).size < ids.length) bad.push('an id twice');
  return bad;
}"""


@pytest.mark.slow
def test_nodes_of_a_backward_pass_have_the_colours_of_their_costs(page, opened):
    _, panel = opened()
    panel.root.get_by_label("Colour by").select_option("flops")
    legend = panel.stage.locator(".legend")
    expect(legend).to_contain_text("operations (FLOP)")
    nodes = dict(page.evaluate(HEAT))
    assert any("backward" in kinds for kinds in nodes)
    assert [kinds for kinds, same in nodes.items() if not same] == []
    panel.stage.scroll_into_view_if_needed()
    for _ in range(6):
        panel.button("Zoom in").click()
    expect(legend).to_be_in_viewport(ratio=1)
    panel.root.get_by_label("Colour by").select_option("")
    expect(legend).to_have_count(0)
