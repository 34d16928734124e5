"""Searching a program, unfolding what was found, and showing only a part."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import HOSTILE, PROGRAMS
from jax import lax
from searches import IN, LINE, MISTAKES, SCAN, SEARCHES, model
from searches import program as searched_program

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.slices import Slices
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._drawing.build import Builder, build_picture
from taxpr_jupyter._search.find import Finder
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.fold import HARD_LIMIT
from taxpr_jupyter._view.widget import view_for


@pytest.fixture(scope="module")
def program():
    return searched_program()


def find(program, text):
    return Finder(Index(program)).find(text)


def addresses(program, text):
    return [hit.address for hit in find(program, text)]


@pytest.mark.parametrize(("text", "found"), SEARCHES)
def test_what_a_query_finds(program, text, found):
    assert sorted(addresses(program, text)) == sorted(found)


def test_hits_are_in_program_order_and_say_why(program):
    order = [address for address, _ in taxpr.iter_eqns(program.jaxpr)]
    found = [address for address in addresses(program, "f32[*]") if address in order]
    assert found == sorted(found, key=order.index)
    (hit,) = find(program, "sin head f32[4]")
    assert hit.address == f"{IN}0:sin"
    assert hit.why == ("primitive sin", "scope decoder/head", "type f32[4]")
    (hit,) = find(program, f"prim:tanh line:{LINE + 2}")
    assert hit.why[1].startswith(f"line {LINE + 2} of ")


def test_a_letter_is_the_variable_that_print_shows(program):
    letters = taxpr.var_names(program.jaxpr)
    for address, eqn in taxpr.iter_eqns(program.jaxpr):
        for var in eqn.outvars:
            if not taxpr.is_dropped(var):
                assert address in addresses(program, f"{letters[var]}:")


def test_scopes_tags_and_lines_mean_what_selectors_mean(program):
    for pattern in ("encoder", "decoder/head", "*coder", "head"):
        selected = taxpr.find_values(program, taxpr.scope(pattern))
        found = set(addresses(program, f"scope:{pattern}"))
        assert {value.address.rpartition(".")[0] for value in selected} <= found
    assert addresses(program, "tag:*") == [site.address for site in program.tags()]
    selected = taxpr.find_values(program, taxpr.line(LINE + 2))
    assert {v.address.rpartition(".")[0] for v in selected} <= set(
        addresses(program, f"line:{LINE + 2}")
    )


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_word_that_makes_no_sense(program, text, message):
    with pytest.raises(PanelError, match=re.escape(message)):
        find(program, text)


def test_hostile_names_and_queries_are_only_text():
    program = PROGRAMS["hostile"]()
    for text in HOSTILE:
        find(program, text)
        find(program, f"tag:{text or 'x'}")
    assert addresses(program, "שלום")


@pytest.mark.spread(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_everything_that_is_found_can_be_revealed(name):
    program = PROGRAMS[name]()
    builder = Builder(program, budget=20)
    closed = builder.picture(frozenset())
    hits = find(program, "prim:*")
    for hit in hits[:: max(1, len(hits) // 8)]:
        assert closed.element_of(hit.address) is not None
        unfolded = builder.reveal(hit.address, frozenset()).unfolded
        assert unfolded == set(builder.path_to(hit.address))
        picture = builder.picture(unfolded)
        assert builder.picture(frozenset()) == closed
        element = picture.element_of(hit.address)
        # Itself, or the cluster of its only nested jaxpr.
        assert element is not None
        finals = {
            f"out{j}": f"in{i}"
            for state in states_of(program)
            for i, j in zip(state.ins, state.outs, strict=True)
        }
        address = finals.get(hit.address, hit.address)  # that of a state is drawn where this is
        assert address in (element.address, element.fold)


# --- reveal ---------------------------------------------------------------------------------------


def blocks(x, many=8):
    for k in range(many):
        with jax.named_scope(f"block_{'abcdefghijklmnop'[k]}"):
            for i in range(k + 3):
                x = jnp.sin(x) * (i + 1.5)
            x = lax.scan(lambda c, _: (jnp.cos(c) + 1, None), x, None, k + 2)[0]
    return x


def block_sessions(**more):
    return Session(blocks, (np.float32(1),), **more)


def standing_for(picture, address):
    element = picture.element_of(address)
    assert element is not None, address
    return element.address


def in_scans(session):
    return [hit.address for hit in session.find("prim:cos")]


def test_what_is_revealed_is_drawn_and_room_is_made_for_it():
    session = block_sessions(budget=10)
    first, *_, last = in_scans(session)
    assert session.reveal(last) == last
    assert session.picture().find(last)
    assert len(session.picture().nodes) <= 2 * 10
    before = len(session.picture().nodes)
    assert session.reveal(first) == first
    assert session.picture().find(first)
    assert session.picture().find(last) is None
    assert len(session.picture().nodes) < before + 10
    assert f"To make room for {first}, " in session.layout_note
    assert str(session.picture().counts).startswith(str(session.picture().counts.total))


def test_what_is_farthest_is_folded_first():
    session = block_sessions(budget=24)
    found = in_scans(session)
    session.reveal(found[0])
    session.reveal(found[-1])
    # One block away is nearer than all the way up.
    session.reveal(found[-2])
    assert session.picture().find(found[-1])
    assert session.picture().find(found[0]) is None


def test_what_the_user_unfolded_is_not_folded():
    session = block_sessions(budget=10)
    first, *_, last = in_scans(session)
    session.fold_default()
    path = session._renderer.builder(session._store.edited).path_to(first)
    for address in path:
        session.unfold(address)
    session.reveal(last)
    assert session.picture().find(first)
    assert session.picture().find(last)
    session.fold(path[0])
    session.reveal(first)
    session.reveal(last)
    assert session.picture().find(first) is None


def test_revealing_what_is_there_changes_nothing():
    session = block_sessions()
    (node, *_) = session.picture().nodes
    before = session.picture()
    assert session.reveal(node.address) == node.address
    assert session.picture() is before
    assert session.layout_note == before.note


def test_an_input_in_a_bundle_is_revealed():
    program = PROGRAMS["many_inputs"]()
    builder = Builder(program)
    assert standing_for(builder.picture(), "in30").startswith("group:in")
    picture = builder.picture(builder.reveal("in30", None).unfolded)
    assert picture.find("in30")


def test_there_is_no_room_beyond_the_hard_limit():
    def f(x):
        for k in range(14):
            with jax.named_scope(f"part_{'abcdefghijklmnop'[k]}"):
                for i in range(20 + k):
                    x = jnp.sin(x) * (i + 1.5)
        return x

    session = Session(f, (np.float32(1),))
    for address in sorted(session.picture().unfolded, key=len):
        session.fold(address)
        session.unfold(address)  # now it was the user
    closed = ""
    while more := session.picture().foldable - session.picture().unfolded:
        closed = min(more)
        session.unfold(closed)
        if "stays folded" in session.picture().note:
            break
    far = next(
        hit.address
        for hit in session.find("prim:sin")
        if standing_for(session.picture(), hit.address) == closed
    )
    before = session.picture()
    with pytest.raises(PanelError, match=f"{far} cannot be shown: .* {HARD_LIMIT} is the limit"):
        session.reveal(far)
    session.fold("group:0-39")  # it is drawn anew
    session.unfold("group:0-39")
    assert session.picture().nodes == before.nodes


@pytest.mark.parametrize("address", ["999:sin", "0:sin/body/0:mul", "group:0-99", "const3", ""])
def test_what_is_not_there_cannot_be_revealed(address):
    session = block_sessions()
    with pytest.raises(PanelError, match="There is no"):
        session.reveal(address)
    assert session.unfolded is None


# --- a part ---------------------------------------------------------------------------------------


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_that_is_left_out_is_counted_and_can_be_unfolded(name):
    program = PROGRAMS[name]()
    index, builder = Index(program), Builder(program)
    places = [place.address for place in index.places]
    total = builder.picture().counts.total
    for place in places[:: max(1, len(places) // 3)]:
        part = Slices(index).upstream(place)
        only = Only(part.places())
        picture = builder.picture(only=only)
        assert picture.counts.total == total
        rest = [node for node in picture.nodes if "rest" in node.marks]
        for node in rest:
            hidden = picture.hidden[node.address]
            tags = [address for address in hidden if address.rpartition("/")[2].startswith("t")]
            assert not any(part.touches(address) for address in set(hidden) - set(tags))
        unfolded = picture.unfolded | {node.address for node in rest}
        again = builder.picture(unfolded, only=only)
        assert again.counts.total == total
        assert {n.address for n in rest} <= again.unfolded | {n.address for n in rest if again.note}


def test_only_the_path_is_drawn_with_one_node_for_each_gap():
    def f(x, y, z):
        a = jnp.sin(x)
        b = jnp.cos(y) * 2 + z
        c = a * 3
        d = jnp.tanh(b)
        return c - d, a

    session = Session(f, (1.0, 2.0, 3.0))
    session.show_only(between=("in0", "6:sub"))
    picture = session.picture()
    assert not session.shows_all
    drawn = [n.address for n in picture.nodes if n.kind == "eqn"]
    assert drawn == ["0:sin", "4:mul", "6:sub"]
    rest = {n.address: n.lines for n in picture.nodes if "rest" in n.marks}
    assert rest == {
        "rest:in1-2": ("… 2 arrays", "not on the path"),
        "rest:1-3": ("… 3 equations", "not on the path"),
        "rest:5-5": ("… 1 equation", "not on the path"),
        "rest:out0-1": ("… 2 arrays", "not on the path"),
    }
    assert (picture.counts.drawn, sum(picture.counts.folded.values())) == (3, 4)
    assert session.reveal("2:mul") == "2:mul"
    assert session.picture().find("2:mul")
    session.tag("0:sin", name="mine")  # a tag of what is shown is shown
    assert session.picture().find("t0")
    session.tag("1:cos", name="other")
    session.fold("rest:1-3")
    assert session.picture().find("t1") is None
    session.show_all()
    assert session.shows_all
    assert session.picture().find("t1")


def test_what_to_show_can_be_said_in_several_ways():
    session = block_sessions()
    for part in (session.upstream("3:mul"), "3:mul", ["3:mul", "0:sin"], "group:0-5"):
        session.show_only(part)
        assert standing_for(session.picture(), "3:mul").startswith(("3:", "group:"))
    assert "left out" in session.dot()


def test_what_cannot_be_shown_is_refused():
    session = Session(lambda x, y: (jnp.sin(x), jnp.cos(y)), (1.0, 2.0))
    with pytest.raises(PanelError, match="no path from in0 to 1:cos"):
        session.show_only(between=("in0", "1:cos"))
    with pytest.raises(PanelError, match="only from in0 to 0:sin"):
        session.show_only(between=("0:sin", "in0"))
    with pytest.raises(PanelError, match="either addresses or between"):
        session.show_only()
    with pytest.raises(PanelError, match="nothing to show"):
        session.show_only([])
    with pytest.raises(PanelError, match="There is no '9:sin'"):
        session.show_only("9:sin")
    assert session.shows_all


def test_a_picture_of_a_part_is_the_same_each_time():
    program = PROGRAMS["deep"]()
    only = Only(Slices(Index(program)).upstream("out0").places())
    one, two = (Builder(PROGRAMS["deep"]()).picture(only=only) for _ in range(2))
    assert one == two
    assert build_picture(program) == Builder(program).picture()


# --- the panel ------------------------------------------------------------------------------------


@pytest.fixture
def panel():
    session = block_sessions(budget=10)
    view = view_for(session)

    def send(do, address="", **more):
        view.graph._handle_custom_msg({"do": do, "address": address, **more}, [])
        assert view.wait(60)

    yield session, view.graph, send
    view.close()


def test_the_panel_counts_and_goes_from_hit_to_hit(panel):
    session, graph, send = panel
    found = in_scans(session)
    send("find", text="prim:cos", step=0)
    assert (graph.found["count"], graph.found["at"], graph.selected) == (8, 0, "")
    send("find", text="prim:cos", step=1)
    assert (graph.found["at"], graph.selected) == (1, found[0])
    send("find", text="prim:cos", step=-1)
    assert (graph.found["at"], graph.selected) == (8, found[-1])
    assert f'data-address="{found[-1]}"' in graph.svg
    assert graph.found["why"] == "primitive cos"
    send("find", text="cos prim:cos", step=1)
    assert graph.found["at"] == 1
    send("find", text="shape:x", step=1)
    assert "is no shape" in graph.found["error"]
    send("find", text="", step=0)
    assert (graph.found["count"], graph.found["at"]) == (0, 0)


def test_the_nodes_that_have_hits_are_told_also_when_they_are_folded(panel):
    session, graph, send = panel

    def with_hits():
        places = [node.address for node in session.picture().nodes]
        return {one for one in places if any(is_in(hit, one) for hit in in_scans(session))}

    def is_in(hit, address):
        home, _, last = address.rpartition("/")
        if not last.startswith("group:"):
            return f"{hit}/".startswith(f"{address}/")
        if not hit.startswith(home):
            return False
        first, end = map(int, last.removeprefix("group:").split("-"))
        return first <= int(hit[len(home) :].lstrip("/").partition(":")[0]) <= end

    send("find", text="prim:cos", step=0)
    assert set(graph.found["elements"]) == with_hits()
    for address in list(session.picture().unfolded):
        if address in session.picture().unfolded:
            session.fold(address)
    assert view_for(session).wait(60)
    assert graph.found["elements"]
    assert set(graph.found["elements"]) == with_hits()
    send("find", text="prim:cos", step=1)  # which opens its scan
    assert graph.selected in graph.found["elements"]
    assert set(graph.found["elements"]) == with_hits()
    send("find", text="", step=0)
    assert graph.found["elements"] == []


def test_the_panel_lights_what_is_upstream_also_when_it_is_folded(panel):
    session, graph, send = panel
    send("upstream", "4:sin")
    part = session.upstream("4:sin")
    assert "What is upstream of 4:sin: " in graph.slice["words"]
    picture = session.picture()
    lit = {n.address for n in picture.nodes if part.touches(n.address.partition("~")[0])}
    assert lit <= set(graph.slice["elements"])
    assert "out0" not in graph.slice["elements"]
    for number, edge in enumerate(picture.edges):
        if edge.target == "out0":
            assert number not in graph.slice["edges"]
    assert graph.slice["edges"]
    session.unfold("group:0-6")
    send("fold", "group:0-6")
    assert "4:sin" not in graph.slice["elements"]
    assert "group:0-6" in graph.slice["elements"]
    send("only")
    assert graph.slice["words"].startswith("Only what is upstream of 4:sin")
    assert not session.shows_all
    send("all")
    assert graph.slice == {"words": "", "whole": True}
    assert session.shows_all


def test_paths_are_found_whichever_end_comes_first(panel):
    session, graph, send = panel
    send("between", "out0", to="in0")
    assert "The paths from in0 to out0" in graph.slice["words"]
    send("only")
    assert session.shows_all is False
    send("between", "const9", to="in0")
    assert graph.message["error"]


@pytest.mark.parametrize(
    ("text", "found", "why"),
    [
        ("var:row", [f"{IN}in1"], "variable step.row"),
        ("var:model.c", [f"{SCAN}"], "variable model.c, helper.x"),
        ("var:ys", [SCAN], "variable model.c, helper.x, model.ys"),
        ("var:params['w']", ["in0"], "variable model.params['w']"),
        ("model.h", ["1:tanh"], "variable model.h"),
        ("var:nothing", [], None),
    ],
)
def test_variables_of_the_source_are_found(text, found, why):
    program = taxpr.trace(model, names=True)({"w": jnp.ones((3, 4))}, jnp.ones((5, 3)))
    hits = find(program, text)
    assert [hit.address for hit in hits] == found
    if why:
        assert set(why.split(", ")) <= set(", ".join(hits[0].why).split(", "))


def test_variables_are_found_in_a_session_after_its_edits():
    args = {"w": jnp.ones((3, 4))}, jnp.ones((5, 3))
    session = Session(model, args)
    session.tag("0:dot_general", name="product")
    assert [hit.address for hit in session.find("var:model.h")] == ["1:tanh"]
    with pytest.raises(PanelError, match=r"knows no variables .*names=True"):
        Session(model, args, names=False).find("var:h")
