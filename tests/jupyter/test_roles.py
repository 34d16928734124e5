"""Roles at both ends of equations with nested jaxprs, and how much goes along one edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documented_programs import PROGRAMS as DOCUMENTED
from drawn_programs import PROGRAMS
from jax import lax

import taxpr
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._drawing.roles import Role, joined, operand_roles, result_roles
from taxpr_jupyter._text import titles
from taxpr_jupyter._tree import labels as _labels

V = np.asarray([0.3, -0.8, 1.1], np.float32)
X = np.float32(0.7)


def folded(fn, *args):
    return build_picture(taxpr.trace(fn)(*args), ())


def heads(picture, target):
    return {e.source: e.head for e in picture.edges if e.target == target}


def names(roles):
    return [role.name for role in roles]


# --- names ----------------------------------------------------------------------------------------


def test_parameters_of_jax_that_say_nothing_are_told_by_their_place():
    """`x2` at the end of a line looked like two values."""
    (eqn,) = taxpr.trace(jnp.remainder)(V, V).eqns
    assert names(operand_roles(eqn)) == ["0", "1"]
    (eqn,) = taxpr.trace(jax.jit(lambda x1, x2: x1 % x2))(V, V).eqns
    assert names(operand_roles(eqn)) == ["x1", "x2"]


def test_scan():
    def fn(w, c, xs):
        return lax.scan(lambda c, x: ((c[0] * w, c[1] + x), c[0]), (c, c), xs)

    (eqn,) = taxpr.trace(fn)(X, X, V).eqns
    assert names(operand_roles(eqn)) == ["const", "carry 0", "carry 1", "xs"]
    assert names(result_roles(eqn)) == ["carry 0", "carry 1", "ys"]


def test_while_has_constants_of_both_parts():
    def fn(most, step, x):
        return lax.while_loop(lambda c: c < most, lambda c: c + step, x)

    (eqn,) = taxpr.trace(fn)(X, X, X).eqns
    assert names(operand_roles(eqn)) == ["cond const", "body const", "carry"]


def test_cond_has_an_index_and_the_names_of_the_arguments():
    (*_, eqn) = taxpr.trace(lambda p, x: lax.cond(p, lambda y: y, lambda y: -y, x))(True, X).eqns
    assert names(operand_roles(eqn)) == ["index", "y"]


def test_a_call_has_the_names_of_the_arguments():
    inner = jax.jit(lambda params, x: params["w"] * x + params["b"] * V)
    program = taxpr.trace(lambda p, x: inner(p, x))({"w": V, "b": V}, V)
    (eqn,) = program.eqns
    found = names(operand_roles(eqn))
    assert found[-3:] == ["params['b']", "params['w']", "x"]
    picture = build_picture(program)
    inputs = [n.lines[0] for n in picture.nodes if n.cluster == "0:jit/call" and n.kind == "input"]
    assert inputs == found
    outer = [n.lines[0] for n in picture.nodes if n.cluster is None and n.kind == "input"]
    assert outer == ["p['b']", "p['w']", "x"]


def test_what_has_no_name_has_a_number():
    """As the jaxprs that JAX makes for derivatives."""
    program = taxpr.trace(jax.grad(lambda x: jax.jit(lambda y, z: jnp.sin(y) * z)(x, x)))(X)
    for _, eqn in taxpr.iter_eqns(program.jaxpr):
        if taxpr.is_hop(eqn):
            assert all(names(operand_roles(eqn)))


def test_every_operand_of_every_equation_has_a_role():
    for make in PROGRAMS.values():
        for _, eqn in taxpr.iter_eqns(make().jaxpr):
            if taxpr.is_hop(eqn):
                roles = operand_roles(eqn)
                assert len(roles) == len(eqn.invars)
                assert all(names(roles))
                assert len(result_roles(eqn)) == len(eqn.outvars)


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ([], ""),
        ([Role("x", "x")], "x"),
        ([Role("x", "x"), Role("x", "x")], "x"),
        ([Role("x", "x 0"), Role("carry", "carry")], "x 0, carry"),
        ([Role("x", f"x {k}") for k in range(9)], "x ×9"),
        ([*(Role("x", f"x {k}") for k in range(9)), Role("", "7")], "x ×9, value"),
        ([Role("arg", "a_very_long_name_of_one")], "a_very_long_name_of_one"),
    ],
)
def test_joined(roles, text):
    assert joined(roles) == text


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("x", "x"),
        ("variables['params']['Dense_0']['bias']", "variables…['Dense_0']['bias']"[:29]),
        ("state.adapt_state.step_size", "state.adapt_state.step_size"),
        ("a" * 40, f"{'a' * 18}…{'a' * 9}"),
    ],
)
def test_the_end_of_a_path_is_kept(name, short):
    found = _labels.short_path(name)
    assert len(found) <= 28
    if len(short) <= 28:
        assert found == short
    else:
        assert found == "variables…['bias']"


def test_shard_map_says_its_mesh_and_specs():
    fn, args = DOCUMENTED["mapped_over_devices_by_shard_map"]()
    picture = build_picture(taxpr.trace(fn)(*args))
    (box,) = (c for c in picture.clusters if c.lines[0].startswith("shard_map body"))
    assert box.lines[1].startswith("mesh=rows: ")
    assert box.lines[2].startswith("in_specs=P('rows'")
    assert box.lines[3].startswith("out_specs=P('rows'")


@pytest.mark.parametrize("threaded", [False, True])
def test_custom_rules_say_their_names_and_which_jaxpr_is_drawn(threaded):
    @jax.custom_jvp
    def sine(x):
        return jnp.sin(taxpr.tag(x, name="h"))

    @sine.defjvp
    def slope(primals, tangents):
        return sine(*primals), jnp.cos(*primals) * tangents[0]

    @jax.custom_vjp
    def clipped(x):
        return x * 1.0

    def there(x):
        return clipped(x), None

    def back(_, cotangent):
        return (jnp.clip(cotangent, -1, 1),)

    clipped.defvjp(there, back)
    program = taxpr.trace(lambda x: sine(x) + clipped(x))(X)
    if threaded:  # rules are wrapped, and keep their names
        program = program.inject(lambda n, token, params: (token, n + 1), 0)
    picture = build_picture(program)
    assert [c.lines for c in picture.clusters if c.lines[0].startswith("custom")] == [
        ("custom_jvp sine", "jaxpr=primal", "rule=jvp slope"),
        ("custom_vjp clipped", "jaxpr=primal", "rule=fwd there, bwd back"),
    ]
    folded = build_picture(program, ())
    labels = [n.lines[:2] for n in folded.nodes if n.lines[0].startswith("custom")]
    assert labels == [
        ("custom_jvp sine", "rule=jvp slope"),
        ("custom_vjp clipped", "rule=fwd there, bwd back"),
    ]


def test_a_rule_that_is_called_as_its_kind_is_named_once():
    picture = build_picture(taxpr.trace(jax.nn.relu)(X), ())
    unfolded = build_picture(taxpr.trace(jax.nn.relu)(X))
    lines = [line for box in (*picture.nodes, *unfolded.clusters) for line in box.lines]
    assert {line for line in lines if line.startswith("rule=")} == {"rule=jvp"}


# --- edges ----------------------------------------------------------------------------------------


def test_edges_to_a_folded_equation_say_the_role():
    def fn(w, c, xs):
        return lax.scan(lambda c, x: (c * w + x, c), c, xs)

    picture = folded(fn, X, X, V)
    assert heads(picture, "0:scan") == {"in0": "const", "in1": "carry", "in2": "xs"}
    assert {e.target: e.tail for e in picture.edges if e.source == "0:scan"} == {
        "out0": "carry",
        "out1": "ys",
    }


def test_literals_of_a_folded_equation_share_a_node():
    picture = folded(lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x), X)
    (literal,) = (n for n in picture.nodes if n.kind == "literal")
    assert literal.lines == ("0",)
    step = lambda c, x: ((c[0] + 1, c[1] * 2, ~c[2]), x)
    picture = folded(lambda x: lax.scan(step, (0, 1.0, True), x)[1], V)
    (literal,) = (n for n in picture.nodes if n.kind == "literal")
    assert literal.lines == ("carry c[0] = 0", "carry c[1] = 1.0", "carry c[2] = True")
    more = lambda c, x: ([y + 1 for y in c], x)
    many = folded(lambda x: lax.scan(more, list(range(20)), x)[1], V)
    (literal,) = (n for n in many.nodes if n.kind == "literal")
    assert len(literal.lines) == 6
    assert literal.lines[-1] == "15 more"


def test_all_from_one_node_into_a_folded_equation_is_one_edge():
    def fn(x):
        return jax.jit(lambda a, b, c: a * b - c)(x, x, jnp.sin(x))

    picture = folded(fn, X)
    (hop,) = (n.address for n in picture.nodes if n.kind == "hop")
    assert heads(picture, hop) == {"in0": "a, b", "0:sin": "c"}


def test_what_a_scope_keeps_for_the_backward_pass_is_one_edge():
    def loss(x):
        for _ in range(2):
            with jax.named_scope("layer"):
                x = jnp.sin(jnp.tanh(x) * jnp.exp(x))
        return x

    program = taxpr.trace(jax.value_and_grad(loss))(X)
    groups = build_picture(program, ()).foldable
    picture = build_picture(program, [a for a in groups if a.startswith("group:0-")])
    (backward,) = (n for n in picture.nodes if "backward" in n.marks and n.kind == "group")
    (edge,) = (e for e in picture.edges if e.target == backward.id and e.out_of)
    assert edge.kind == "residual"
    assert edge.out_of in {c.id for c in picture.clusters}
    kept = {n.id for n in picture.nodes if "kept" in n.marks}
    assert kept == {edge.source, *edge.also}
    assert len(kept) >= 3
    assert all(
        "[kept]" in n.lines[0] and "kept for the backward pass" in n.tooltip
        for n in picture.nodes
        if n.id in kept
    )
    # Nothing else goes there from one of them.
    assert not [
        e for e in picture.edges if e.target == backward.id and e.source in kept - {edge.source}
    ]


def test_outputs_made_long_before_the_others_have_a_stub():
    def fn(x):
        outs = {}
        for k in range(20):
            x = jnp.sin(x) * (k + 0.5)
            outs[f"o{k:02}"] = x
        return outs

    picture = build_picture(taxpr.trace(fn)(X))
    bundle = picture.find("group:out0-19")
    stubs = [n for n in picture.nodes if n.kind == "output" and "stub" in n.marks]
    assert {s.address for s in stubs} == {bundle.id}
    assert ("out['o00']",) in {s.lines for s in stubs}
    ends = [e for e in picture.edges if e.target.startswith(bundle.id)]
    assert len(ends) == 20
    assert len([e for e in ends if e.target == bundle.id]) == 20 - len(stubs)


def test_refs_end_as_results():
    picture = build_picture(PROGRAMS["state"]())
    (bare,) = (n for n in picture.nodes if n.lines[0] == "run_state")
    ins = [e for e in picture.edges if e.target == bare.id]
    assert [e.head for e in ins] == ["0", "1", "2"]
    assert all(e.source.startswith("0:run_state/body/in") for e in ins)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("y = jnp.sin(x)", ["y = jnp.sin(x)"]),
        (
            "weights = jax.nn.softmax(scores / temperature, axis=-1)",
            ["weights = jax.nn.softmax(scores /", "temperature, axis=-1)"],
        ),
        (
            "jax.numpy.linalg.multi_dot_of_several(first)",
            ["jax.numpy.linalg.", "multi_dot_of_several(first)"],
        ),
        (
            "self.attention_of_the_encoder(query,key,value)",
            ["self.attention_of_the_encoder(query,", "key,value)"],
        ),
        ("loss_of_the_whole_batch_and_of_it[everything]", None),
        ("parameters['decoder']['layers'][0.123456789]", None),
        ("x" * 50, ["x" * 36, "x" * 14]),
    ],
)
def test_long_titles_break_between_words(text, lines):
    found = titles.source_lines(text)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= 36 for line in found)
    if lines is None:
        lines = [text[: text.rindex("[") + 1], text[text.rindex("[") + 1 :]]
    assert found == lines
