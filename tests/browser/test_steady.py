"""What one looks at in a picture stays where it is, and can be read."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from browser.notebook_page import expect

from taxpr_jupyter import Session

# By what is folded there, or else the address: the middle of the title on the screen.
TITLES = """() => {
  const found = {};
  for (const item of document.querySelectorAll(".tx-stage > svg [data-address]")) {
    const box = item.querySelector("text").getBoundingClientRect();
    const name = item.dataset.fold ?? item.dataset.address;
    found[name] ??= [box.x + box.width / 2, box.y + box.height / 2];
  }
  return found;
}"""
# The heights in pixels of the letters that are seen.
LETTERS = """() => {
  const texts = document.querySelectorAll(".tx-stage > svg text");
  const scale = document.querySelector(".tx-stage > svg").getScreenCTM().a;
  return [...texts].filter(text => getComputedStyle(text).visibility === "visible").map(text =>
    [parseFloat(getComputedStyle(text).fontSize) * scale * (text.closest(".tx-names") ? 0.75 : 1),
     text.textContent, Boolean(text.closest(".tx-names"))]);
}"""
MOVING = "document.querySelector('.tx-stage').getAnimations({ subtree: true }).length"


def loss(params, x):
    def layer(x, w):
        h = jnp.tanh(x @ w["up"]) @ w["down"]
        return x + h / jnp.sqrt((h**2).mean() + 1e-6), h.mean()

    def attend(q, k, v):
        scores = q @ k.T / jnp.sqrt(8.0)
        return jax.nn.softmax(scores) @ v

    for w in params:
        x = x + attend(x @ w["up"][:, :8], x @ w["up"][:, 8:16], x)
        x, sizes = jax.lax.scan(layer, x, jax.tree.map(lambda a: jnp.stack([a, a]), w))
    return (x**2).mean() + sizes.sum()


def session():
    w = {"up": jnp.ones((4, 16)), "down": jnp.ones((16, 4))}
    opened = Session(jax.grad(loss), ([w, w, w], jnp.ones((6, 4))), budget=18)
    opened.unfold("group:in0-5")  # the picture does not begin at the left border of the stage
    return opened


@pytest.fixture
def panel(shown, page):
    page.set_viewport_size({"width": 1200, "height": 1000})
    opened = shown(session())
    tall(page)
    return opened


def tall(page):
    """Makes the stage taller, as a drag of its corner does."""
    page.evaluate("document.querySelector('.tx-stage').style.height = '900px'")


def titles(panel):
    panel.take_sent()
    return panel.page.evaluate(TITLES)


def moved(before, after):
    return max(abs(a - b) for a, b in zip(before, after, strict=True))


def closed(panel):
    """Folded nodes in the left part of the stage, which the inspector leaves in sight."""
    return panel.page.evaluate(
        """() => [...document.querySelectorAll(".tx-stage > svg .node[data-fold]")].filter(node => {
          const stage = document.querySelector(".tx-stage").getBoundingClientRect();
          const { right, bottom } = node.getBoundingClientRect();
          return right < stage.left + 750 && bottom < stage.bottom;
        }).map(node => node.dataset.fold)"""
    )


def drag(panel, across):
    stage, mouse = panel.page.locator(".tx-stage").bounding_box(), panel.page.mouse
    mouse.move(stage["x"] + 500, stage["y"] + 10)
    mouse.down()
    mouse.move(stage["x"] + 500 + across, stage["y"] + 10, steps=3)
    mouse.up()


def test_what_is_opened_folded_tagged_or_coloured_stays_where_it_is(panel):
    page = panel.page
    fold = closed(panel)[1]
    panel.node(fold).locator("text").first.click()
    start = titles(panel)
    expect(panel.inspected).to_have_text(fold)
    for press in "oo":
        page.keyboard.press(press)
        now = titles(panel)
        assert moved(start[fold], now[fold]) < 2
    assert moved(start["in0"], now["in0"]) < 2  # all is as it was
    page.get_by_label("Colour by").select_option("flops")
    assert moved(start[fold], titles(panel)[fold]) < 2
    tagged = next(a for a in panel.session.picture().nodes if a.kind == "eqn").address
    page.get_by_role("button", name="Fit the picture").click()
    panel.node(tagged).click(force=True)
    before = titles(panel)
    panel.session.tag(f"{tagged}.0", "mine")
    page.get_by_label("Colour by").select_option("")  # and gets the new picture
    assert moved(before[tagged], titles(panel)[tagged]) < 2
    expect(page.locator(".tx-stage .node.added")).to_have_count(1)


def test_frames_that_are_not_around_it_move_as_blocks(panel):
    fold = closed(panel)[1]
    picture = panel.session.picture()
    outer = {cluster.id: cluster.parent for cluster in picture.clusters}
    around = next(node.cluster for node in picture.nodes if node.fold == fold)
    others = set(outer)
    while around is not None:
        others.discard(around)
        around = outer[around]
    inside = [  # inputs are drawn several times
        {
            node.fold or node.address
            for node in picture.nodes
            if node.cluster == frame and node.kind != "input"
        }
        for frame in others
    ]
    before = titles(panel)
    panel.node(fold).dblclick()
    after = titles(panel)
    assert fold in before
    assert fold in {one.get_attribute("data-fold") for one in panel.page.locator(".cluster").all()}
    for nodes in inside:
        shifts = [after[name][0] - before[name][0] for name in nodes & after.keys()]
        assert max(shifts, default=0) - min(shifts, default=0) < 2
        # Downwards rows make room for what is opened beside them, and keep their order.
        rows = sorted((before[name][1], after[name][1]) for name in nodes & after.keys())
        assert all(b[1] - a[1] > 0.9 * (b[0] - a[0]) - 2 for a, b in itertools.pairwise(rows))


@pytest.mark.parametrize("backward", [False, True])
def test_in_either_pass_what_is_opened_and_folded_stays_where_it_is(panel, backward):
    for _ in range(2 * backward):  # which is at the right
        drag(panel, -450)
    fold = next(
        node.fold
        for node in panel.session.picture().nodes
        if node.fold in closed(panel) and ("backward" in node.marks) is backward
    )
    start = titles(panel)
    for _ in range(2):
        panel.node(fold).locator("text").first.dblclick()
        now = titles(panel)
        assert moved(start[fold], now[fold]) < 2
        passes = [
            panel.page.locator(".tx-stage > svg .cluster")
            .filter(has_text=name)
            .first.bounding_box()
            for name in ("forward pass", "backward pass")
        ]
        assert passes[0]["x"] + passes[0]["width"] < passes[1]["x"]
    nodes = {node.fold or node.address for node in panel.session.picture().nodes}
    assert all(moved(start[name], now[name]) < 2 for name in nodes & start.keys())


def test_at_the_border_of_the_stage_there_is_room(panel):
    page, fold = panel.page, closed(panel)[1]
    box = panel.node(fold).bounding_box()
    stage = page.locator(".tx-stage").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()  # drags the picture until the node is in a corner
    page.mouse.move(stage["x"] + 10, stage["y"] + 10, steps=3)
    page.mouse.up()
    before = titles(panel)[fold]
    assert before[1] < stage["y"] + 40
    panel.node(fold).dblclick()
    assert moved(before, titles(panel)[fold]) < 2


def test_at_each_zoom_what_is_written_can_be_read(panel):
    page = panel.page
    stage, picture = page.locator(".tx-stage"), page.locator(".tx-stage > svg")
    for _ in range(12):  # nearer with each
        letters = page.evaluate(LETTERS)
        assert letters
        assert min(size for size, _, _ in letters) >= 8.99
        page.get_by_role("button", name="Zoom out").click()
    assert all(named for _, _, named in letters)
    fit = page.get_by_role("button", name="Fit the picture")
    fit.click()  # what can be read, of all its width if there is room
    letters = page.evaluate(LETTERS)
    assert min(size for size, _, named in letters if not named) >= 8.99
    inner, outer = picture.bounding_box(), stage.bounding_box()
    assert inner["height"] > outer["height"]
    fit.click()  # all of it, if only names can be read
    inner, outer = picture.bounding_box(), stage.bounding_box()
    assert inner["width"] <= outer["width"]
    assert inner["height"] <= outer["height"]
    names = [text for _, text, named in page.evaluate(LETTERS) if named]
    assert "backward pass" in names
    fold = closed(panel)[0]
    panel.node(fold).dblclick(force=True)  # opens where it can be read
    panel.take_sent()
    assert min(size for size, _, named in page.evaluate(LETTERS) if not named) >= 8.99


def test_a_twin_has_its_name_where_the_texts_of_lines_are_too_small(panel):
    page = panel.page
    picture = page.locator(".tx-stage > svg")
    for _ in range(2):  # all of it
        page.get_by_role("button", name="Fit the picture").click()
    stage = page.locator(".tx-stage").bounding_box()
    page.mouse.move(stage["x"] + 300, stage["y"] + 200)
    for _ in range(100):
        classes = picture.get_attribute("class").split()
        if "tx-far" not in classes:
            break
        page.mouse.wheel(0, -10)  # a little nearer
        page.wait_for_timeout(20)
    assert "tx-lines-far" in classes
    twins = {one.text_content().strip() for one in page.locator(".tx-stage > svg .twin text").all()}
    letters = page.evaluate(LETTERS)
    names = [text.removesuffix("…") for _, text, named in letters if named]
    assert any(twin.startswith(name) for twin in twins for name in names if len(name) > 3)
    assert min(size for size, *_ in letters) >= 8.99


def test_titles_of_frames_stay_in_sight(panel):
    page = panel.page
    stage = page.locator(".tx-stage").bounding_box()
    left, right = stage["x"], stage["x"] + stage["width"]

    def seen():
        """By the frame where its title begins and ends; of those of which enough is in sight."""
        found = {}
        for frame in page.locator(".tx-stage > svg .cluster").all():
            box = frame.bounding_box()
            lines = [line.bounding_box() for line in frame.locator("text").all()]
            first, last = (min(x["x"] for x in lines), max(x["x"] + x["width"] for x in lines))
            room = min(box["x"] + box["width"], right) - max(box["x"], left)
            if room > last - first + 20:
                found[frame.get_attribute("data-address")] = first, last
        return found

    begun = seen()
    drag(panel, -450)
    after = seen()
    assert any(begun[name][0] - 450 < left for name in begun.keys() & after.keys())
    assert all(left <= x and end <= right for x, end in after.values())
    drag(panel, 450)
    assert all(moved(begun[name], x) < 1 for name, x in seen().items())


def test_a_map_is_there_while_the_picture_is_larger_than_its_stage(panel):
    page, chart = panel.page, panel.page.get_by_role("group", name="Map of the whole picture")
    expect(chart).to_be_visible()
    sight = chart.locator(".tx-map-sight")
    before, place = sight.bounding_box(), page.locator(".tx-stage > svg").bounding_box()
    chart.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    after = sight.bounding_box()
    assert after["y"] > before["y"]
    assert after["x"] > before["x"]
    assert page.locator(".tx-stage > svg").bounding_box()["y"] < place["y"]
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] - 12)
    page.mouse.down()
    corner = sight.bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + 12, steps=3)
    page.mouse.up()
    assert sight.bounding_box()["x"] < corner["x"]
    expect(panel.inspected).to_have_count(0)  # that selects nothing
    for _ in range(2):
        page.get_by_role("button", name="Fit the picture").click()
    expect(chart).to_be_hidden()


def test_what_opens_grows_unless_less_motion_is_wanted(panel):
    page, fold = panel.page, closed(panel)[0]
    node = panel.node(fold)
    node.focus()
    page.keyboard.press("o")
    panel.take_sent()
    assert page.evaluate(MOVING) == 0  # as the tests' browser wants it
    page.keyboard.press("o")
    panel.take_sent()
    page.emulate_media(reduced_motion="no-preference")
    before = titles(panel)[fold]
    page.evaluate(
        """() => {  // a busy machine looks for what moves when it has ended
          const { animate } = Element.prototype;
          window.moves = [];
          Element.prototype.animate = function (...given) {
            const one = animate.apply(this, given);
            window.moves.push(one.effect.getComputedTiming().endTime);
            return one;
          };
        }"""
    )
    page.keyboard.press("o")
    longest = page.evaluate("async () => { await idle(); return Math.max(...window.moves); }")
    assert 0 < longest <= 200
    page.keyboard.press("o")  # it can be folded again at once
    panel.take_sent()
    page.wait_for_function(f"{MOVING} === 0")
    assert moved(before, titles(panel)[fold]) < 2


def test_another_size_of_the_stage_leaves_what_was_used(panel):
    page, fold = panel.page, closed(panel)[1]
    before = titles(panel)
    panel.node(fold).locator("text").first.click()  # the inspector opens beside the picture
    expect(panel.inspected).to_have_text(fold)
    assert moved(before[fold], titles(panel)[fold]) < 2
    page.keyboard.press("Escape")
    expect(panel.inspected).to_have_count(0)
    assert moved(before["in0"], titles(panel)["in0"]) < 2


def test_what_is_opened_from_afar_comes_into_sight(panel):
    """By the outline, or in Python: it is neither selected nor in the middle."""
    page, fold = panel.page, closed(panel)[1]
    drag(panel, -600)
    drag(panel, -600)
    panel.session.unfold(fold)
    panel.look()
    stage = page.locator(".tx-stage").bounding_box()
    frame = page.locator(f'.tx-stage > svg .cluster[data-fold="{fold}"]')
    title = frame.locator("text").first.bounding_box()
    assert stage["x"] <= title["x"] <= stage["x"] + stage["width"]
    assert stage["y"] <= title["y"] <= stage["y"] + stage["height"]
