"""What the labels of folded nodes say."""

import re

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, draw
from taxpr_jupyter._text import titles
from taxpr_jupyter._text.short import LINE, types_text
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.labels import eqn_lines

F32, I32 = jnp.float32, jnp.int32


def values(*types):
    structs = [jax.ShapeDtypeStruct(*one) for one in types]
    return jax.make_jaxpr(lambda *xs: ())(*structs).jaxpr.invars


def step(carry, x):
    return jnp.sin(carry) + x, carry


def once(x):
    return jax.lax.scan(step, x, jnp.ones(6))[0]


def until(x):
    return jax.lax.while_loop(lambda x: x < 3, lambda x: x + 1, x)


def nested(x):
    return jax.lax.scan(lambda c, v: (once(c) + v, None), x, jnp.ones(2))[0]


def deep(x):
    return jax.lax.fori_loop(0, 3, lambda _, c: nested(c), x)


def wide(x):
    body = lambda c, v: (once(c) + v + until(c), None)
    return jax.lax.scan(body, x, jnp.ones(5), reverse=True)[0]


def wider(x):
    body = lambda c, v: (nested(c) + until(c) + wide(c), None)
    return jax.lax.scan(body, x, None, 100_000)[0]


def branches(x):
    return jax.lax.cond(x > 0, jnp.sin, jnp.cos, x)


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (once, "scan ×6"),
        (until, "while"),
        (nested, "scan ×2 › scan ×6"),
        (lambda x: once(x) + until(x), "scan ×6 · while"),
        (lambda x: once(x) + once(x + 1.0) + until(x), "2 × scan ×6 · while"),
        (lambda x: sum(jax.lax.scan(step, x, jnp.ones(k))[0] for k in range(9)), "9 loops"),
        (deep, "scan ×3 › scan ×2 › scan ×6"),
        (wide, "scan ×5 reverse › (scan ×6, while)"),
        (wider, "scan ×100000 › 3 loops"),
        (lambda x: jax.lax.map(jnp.sin, x * jnp.ones(4)), "scan ×4"),  # carries nothing
        (branches, None),
        (jax.checkpoint(jnp.sin), None),
    ],
)
def test_what_is_folded_says_its_loops(fn, said):
    (call,) = draw(jax.jit(fn), 1.0, fold=["0:jit"]).picture.nodes[1:-1]
    number, *more = " · ".join(call.lines[1:-1]).split(" · ")
    assert number.endswith(("equation", "equations"))
    found = " · ".join(one for one in more if re.match(r"[\d× ]*(scan|while|loops)", one))
    assert found == (said or "")


def test_a_loop_does_not_say_itself():
    drawing = draw(nested, 1.0, fold=["1:scan"])
    scan = drawing.picture.find("1:scan")
    assert scan.lines[0] == "scan ×2"
    assert scan.lines[1].endswith(" equations · scan ×6")


def test_a_title_in_the_place_of_an_address_is_answered_by_the_address():
    drawing = draw(jax.jit(once), 1.0, fold=["0:jit"])
    with pytest.raises(PanelError, match=r"'jit once' is a title, .* needed: 0:jit"):
        drawing.unfold("jit once")


@pytest.mark.parametrize(
    ("shapes", "how", "text"),
    [
        ([], {}, ""),
        ([(3,)], {}, "f32[3]"),
        ([(3,)] * 3, {}, "3×f32[3]"),
        ([(3,), (), (4,)], {}, "f32[3], f32[], f32[4]"),
        ([(), (3,), (4, 4), (2,)], {}, "f32[], f32[3], +2"),
        ([(), (3,), (4, 4), (2,)], {"most": 1, "largest": True}, "f32[4,4], +3"),
        ([(), (4, 4)], {"most": 1, "largest": True}, "f32[], f32[4,4]"),
        # No type is cut where another one can be left out.
        ([(2, 7, 32), (2, 1, 32), (2, 7, 1)], {}, "f32[2,7,32], f32[2,1,32], +1"),
        ([(1000, 1000, 1000), (1000, 1000, 7)], {}, "f32[1000,1000,1000], +1"),
    ],
)
def test_types_in_a_line(shapes, how, text):
    found = types_text(values(*[(shape, F32) for shape in shapes]), **how)
    assert found == text
    assert len(found) <= LINE


def test_the_largest_of_what_leaves_stands_first():
    found = values(((), I32), ((2, 8), F32), ((3,), F32))
    assert types_text(found, most=1, largest=True) == "f32[2,8], +2"


def test_a_long_name_leaves_its_type_whole():
    eqn = taxpr.trace(jnp.sin)(jnp.ones((8, 32))).eqns[0]
    line = eqn_lines(eqn, name="state['vector_quantizer']['embeddings']")[-1]
    assert line.endswith("']: f32[8,32]")
    assert len(line) <= LINE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("scale = jnp.exp(w) / jnp.exp(w).sum()", ["scale = jnp.exp(w) / jnp.exp(w).sum()"]),
        (
            "delta = tr.reward + GAMMA * jnp.where(tr.terminated, 0.0, tr.next_value) - tr.value",
            [
                "delta = tr.reward + GAMMA *",
                "jnp.where(tr.terminated, 0.0,",
                "tr.next_value) - tr.value",
            ],
        ),
        (  # in four lines if these are a little wider
            "metrics = {'loss': loss, 'train_acc': jnp.mean(jnp.argmax(logits, -1) == labels), "
            "'clean_acc': jnp.mean(jnp.argmax(clean, -1) == labels)}",
            [
                "metrics = {'loss': loss, 'train_acc':",
                "jnp.mean(jnp.argmax(logits, -1) ==",
                "labels), 'clean_acc': jnp.mean(jnp.argmax(",
                "clean, -1) == labels)}",
            ],
        ),
        ("adapt = tree_of_the_states_again_()", ["adapt = tree_of_the_states_again_()"]),
    ],
)
def test_a_statement_is_whole_in_four_lines(text, shown):
    assert titles.source_lines(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jax.random.fold_in(key, step), shape=x.shape)", "jax.random.fold_in(key, step), …)"),
        ("p['k'], h @ p['v'], mask=mask, key=key) @ p['o']", "p['k'], h @ p['v'], …) @ p['o']"),
        (
            "jnp.exp(w) * jnp.cos(w) + jnp.tan(w) * jnp.sin(u)",
            "jnp.exp(w) * … * jnp.sin(u)",
        ),
        (
            "7, 18]), jnp.array([0, 2, 1, 1]), jax.random.key(2))",
            "7, 18]), jnp.array([0, 2, 1, … 2))",
        ),
    ],
)
def test_what_has_no_room_in_four_lines_is_not_cut_inside_of_a_word(text, shown):
    assert titles.shortened_source(text, 36) == shown
    lines = ["result_of_all = first_of_all_of_it +"] * 3
    assert titles.source_lines(" ".join((*lines, text))) == [*lines, shown]


def test_a_long_key_keeps_the_name_of_its_module():
    block = "params['net/~/block_1/~/"
    assert labels.short_path(f"{block}conv_0']['w']") == "params['…/~/conv_0']['w']"
    assert labels.short_path(f"{block}conv_1']['w']") == "params['…/~/conv_1']['w']"
    assert labels.short_path(f"{block}batchnorm_0']") == "params['…/~/batchnorm_0']"
