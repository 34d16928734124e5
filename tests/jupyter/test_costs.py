"""What equations cost in pictures and sessions, and what is special about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import PROGRAMS
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import taxpr
from taxpr_jupyter import PanelError, Session, draw
from taxpr_jupyter._analysis.traits import spec_text
from taxpr_jupyter._drawing.build import build_picture

X = np.ones((64, 32), np.float32)
SQUARE = np.ones((32, 32), np.float32)


def looped(x):
    return lax.scan(lambda c, _: (jnp.tanh(c @ x), None), x, length=10)[0]


def test_a_loop_of_symbolic_length_is_drawn():
    from jax import export

    shape = jax.ShapeDtypeStruct(export.symbolic_shape("rows, 3"), jnp.float32)
    step = lambda c, row: (c + jnp.sum(jnp.sin(row)), row * 2)
    drawing = draw(lambda x: lax.scan(step, 0.0, x), shape, heat="flops")
    assert "rows" in drawing.dot
    assert drawing.picture.counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_equation_that_is_drawn_says_its_cost(name):
    picture = build_picture(PROGRAMS[name](), heat="bytes")
    for node in picture.nodes:
        if node.kind in ("eqn", "hop", "group") and "choice" not in node.marks:
            assert node.cost
            assert " moved" in node.tooltip
            assert node.heat is None or 0 <= node.heat <= 1
            assert node.heat is not None or "/" in node.address
        else:
            assert node.heat is None
    assert all(" moved" in cluster.tooltip for cluster in picture.clusters)


# --- in the picture -------------------------------------------------------------------------------


def nodes_of(picture):
    return {node.id: node for node in picture.nodes}


def test_in_a_loop_the_heat_is_that_of_all_runs():
    def fn(x):
        return lax.scan(lambda c, _: (c @ x, None), x @ x, length=100)[0]

    picture = build_picture(taxpr.trace(fn)(SQUARE), heat="flops")
    nodes = nodes_of(picture)
    outside, inside = nodes["0:dot_general"], nodes["1:scan/body/0:dot_general"]
    assert inside.heat == 1
    assert outside.heat == pytest.approx(1 / 3)  # two of the three powers of ten below
    assert picture.heat.top == 100 * 2 * 32**3
    assert inside.cost[1].startswith("in all 100 runs: 6.55 MFLOP")
    cluster = picture.find("1:scan/body")
    assert cluster.cost[0].startswith("6.55 MFLOP")
    assert cluster.cost[1].startswith("scan body, each time: 65.5 kFLOP")


def test_a_loop_that_does_not_run_costs_nothing():
    def fn(x):
        return lax.scan(lambda c, _: (c @ x, None), x, length=0)[0] @ x

    picture = build_picture(taxpr.trace(fn)(SQUARE), heat="flops")
    inside = nodes_of(picture)["0:scan/body/0:dot_general"]
    assert inside.heat == 0
    assert inside.cost[1] == "in all 0 runs: 0 FLOP · 0 B moved"
    assert picture.find("0:scan/body").cost[0] == "0 FLOP · 0 B moved"


def test_how_often_a_combiner_runs_is_not_known():
    program = PROGRAMS["combiner"]()
    closed = build_picture(program, unfolded=())
    folds = {node.fold for node in closed.nodes if node.fold}
    picture = build_picture(program, unfolded=folds, heat="flops")
    inside = [n for n in picture.nodes if n.kind == "eqn" and n.cluster and "/" in n.address]
    assert inside
    assert all(node.cost and node.heat is None for node in inside)


def test_heat_is_none_for_what_is_not_known_and_without_being_asked():
    program = taxpr.trace(lambda x: lax.linalg.eigh(jnp.sin(x)))(SQUARE)
    assert all(node.heat is None for node in build_picture(program).nodes)
    nodes = nodes_of(build_picture(program, heat="flops"))
    unknown = next(node for node in nodes.values() if "eigh" in node.lines[0])
    assert unknown.cost[0].startswith("≥")
    assert nodes["0:sin"].heat == 1


def test_nothing_to_compute_is_cold():
    picture = build_picture(taxpr.trace(lambda x: x.reshape(2, -1))(X), heat="flops")
    assert picture.heat.top == 0
    assert [node.heat for node in picture.nodes if node.kind == "eqn"] == [0]


def test_values_say_bytes_and_weak_types():
    picture = build_picture(taxpr.trace(lambda x: jnp.sin(x))(1.0))
    assert [edge.tooltip for edge in picture.edges] == [
        "x = a:f32[] weak, 4 B",
        "out = b:f32[] weak, 4 B",
    ]


def test_batched_equations_are_marked():
    nodes = nodes_of(build_picture(taxpr.trace(lambda x: jax.vmap(jnp.sin)(x) + 1)(X)))
    assert nodes["0:sin"].marks == ("batched",)
    assert nodes["0:sin"].lines[0] == "sin [vmap]"
    assert "batched by vmap" in nodes["0:sin"].tooltip
    assert nodes["1:add"].marks == ()


def test_a_batched_frame_says_so_once():
    def fn(x):
        for _ in range(20):
            x = jnp.sin(x) * jnp.cos(x)
        return x

    program = taxpr.trace(jax.vmap(fn))(X)
    picture = build_picture(program, build_picture(program).foldable)
    said = ["[vmap]" in one.lines[0] for one in picture.clusters]
    assert said == [one.parent is None for one in picture.clusters]
    inside = [node for node in picture.nodes if node.cluster is not None]
    assert inside
    assert not [node for node in inside if "[vmap]" in " ".join(node.lines)]
    assert all("batched" in node.marks and "by vmap" in node.tooltip for node in inside)


def test_signs_stand_at_the_end_of_a_title_of_several_lines():
    def each(image):
        of_the_darkest_of_the_images = jnp.minimum(image, 1.0)
        contrast = jnp.std(image) / (jnp.mean(image) + 1.0) - jnp.max(image) * 3.0
        for _ in range(9):
            image = jnp.sin(image) * jnp.tanh(of_the_darkest_of_the_images)
        nobody_uses_it_not_even_this_one = jnp.maximum(contrast, 1.0)  # noqa: F841
        return image + contrast

    nodes = build_picture(taxpr.trace(jax.vmap(each))(X), ()).nodes
    assert {node.lines[: node.titled] for node in nodes if node.titled > 1} == {
        ("of_the_darkest_of_the_images =", "jnp.minimum(image, 1.0) [vmap]"),
        ("contrast = jnp.std(image) /", "(jnp.mean(image) + 1.0) -", "jnp.max(image) * 3.0 [vmap]"),
        ("nobody_uses_it_not_even_this_one =", "jnp.maximum(contrast, 1.0) [unused] [vmap]"),
    }


def test_effects_are_marked():
    def fn(x):
        jax.debug.print("{}", x)
        return taxpr.tag(x, name="t")

    picture = build_picture(taxpr.trace(fn)(np.float32(1)))
    (printed,) = [node for node in picture.nodes if "effect" in node.marks]
    assert printed.lines[0].endswith(" [effect]")
    assert "effect: debug print or callback, in any order" in printed.tooltip
    assert nodes_of(picture)["t0"].marks == ()  # a tag has an effect for JAX, not for the user


def test_a_folded_equation_with_an_effect_inside_is_marked():
    picture = build_picture(PROGRAMS["a_branch_without_anything"](), unfolded=())
    assert ["effect" in node.marks for node in picture.nodes if node.kind == "hop"] == [True]


def test_donated_inputs_are_marked_and_what_donates_them():
    fn = jax.jit(lambda x, y: x + y, donate_argnums=1)
    picture = build_picture(taxpr.trace(fn)(X, X), unfolded={"0:jit"})
    nodes = nodes_of(picture)
    assert [name for name, node in nodes.items() if "donated" in node.marks] == ["in1"]
    assert nodes["in1"].lines[0].endswith(" [donated]")
    assert "donated: jit may reuse its memory" in nodes["in1"].tooltip
    folded = nodes_of(build_picture(taxpr.trace(fn)(X, X), unfolded=()))["0:jit"]
    assert "takes the memory of operand 1" in folded.tooltip
    assert folded.lines[0].endswith(" [donates]")


def test_sharded_values_show_their_spec():
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((1,), ("i",), axis_types=(auto,))
    split = NamedSharding(mesh, PartitionSpec("i", None))
    fn = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, split), in_shardings=split)
    picture = build_picture(taxpr.trace(fn)(X), unfolded={"0:jit"})
    nodes = nodes_of(picture)
    constraint = next(n for n in nodes.values() if n.lines[0].startswith("sharding_constraint"))
    for node in (nodes["in0"], constraint):
        assert "sharded" in node.marks
        assert node.lines[-1] == "P('i', None)"
        assert "sharded P('i', None)" in node.tooltip


def test_specs_that_split_nothing_are_no_news():
    assert spec_text(PartitionSpec(None, None)) == ""
    assert spec_text(PartitionSpec(("a", "b"), None)) == "P(('a', 'b'), None)"
    assert spec_text(None) == spec_text("x") == spec_text(object()) == ""


# --- in a session ---------------------------------------------------------------------------------


def session_of(**more):
    return Session(lambda x: jnp.tanh(x @ x), (SQUARE,), **more)


def test_the_inspector_says_what_a_place_costs():
    session = session_of()
    assert session.inspect("0:dot_general").cost == ("65.5 kFLOP · 12.3 kB moved",)
    assert session.inspect("in0").cost == ()
    looped_session = Session(looped, (SQUARE,))
    assert looped_session.inspect("0:scan/body").cost[0].startswith("65.5 kFLOP")


def test_heat_of_a_session_can_be_set_and_a_mistake_changes_nothing():
    session = session_of()
    changes = []
    session.on_change(changes.append)
    session.heat = "flops"
    assert session.picture().heat.kind == "flops"
    with pytest.raises(PanelError, match="'kept', 'compiled', 'numbers' or None, not by 'size'"):
        session.heat = "size"
    assert session.heat == "flops"
    session.heat = None
    assert session.picture().heat is None
    assert changes == ["folding", "error", "folding"]
    with pytest.raises(PanelError, match="not by 'x'"):
        session_of(heat="x")


def test_heat_is_taken_over_unless_another_is_asked_for():
    old = session_of(heat="flops")
    new, other = session_of(), session_of(heat="bytes")
    new.take_over(old)
    other.take_over(old)
    assert (new.heat, other.heat) == ("flops", "bytes")


def test_a_run_keeps_what_xla_says():
    session = session_of()
    run = session.run()
    assert run.xla["untouched"].flops == 65536
    assert run.xla["untouched"].transcendentals == 1024
    assert run.xla["untouched"].peak_bytes >= 2 * SQUARE.nbytes
    assert set(run.xla) == {"untouched"}  # nothing is injected
    line = "XLA, untouched: 65.5 kFLOP, 1.02 k transcendental, "
    assert run.xla_lines[0].startswith(line)
    assert line in str(run)
    assert run.xla_lines[-1] == "XLA may count the body of a loop once."
    session.attach("in0", "scale")
    assert set(session.run().xla) == {"untouched", "injected"}


def test_the_magic_takes_the_option(notebook):
    session = notebook.good("%taxpr --heat bytes jnp.sin(x)")
    assert session.heat == "bytes"
    assert "not by 'warm'" in notebook.run("%taxpr --heat warm jnp.sin(x)").shown
