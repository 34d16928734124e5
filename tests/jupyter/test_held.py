"""Values are called by the variables that held them, wherever a session shows or writes them."""

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session, draw


def attend(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[-1] + q.sum() * 0)
    weights = jax.nn.softmax(scores)
    return weights @ v


def model(params, x):
    for layer in params:
        h = x @ layer["w"]
        x = x + attend(h, h, h)
    return x.sum()


ARGS = [{"w": jnp.eye(2)}, {"w": 2 * jnp.eye(2)}], jnp.ones((3, 2))
NAMES = {"model": model, "params": ARGS[0], "x": ARGS[1]}
LAST = taxpr.var("weights", occurrence=1)


@pytest.fixture
def session():
    return Session(model, ARGS, call="model(params, x)", namespace=NAMES)


def address(session, where):
    [value] = taxpr.find_values(session.program, where)
    return value.address


def test_nodes_and_their_tooltips():
    def f(x):
        twice = x * 2
        return jnp.sin(twice)

    mul, sin = (node for node in draw(f, 1.0).picture.nodes if node.kind == "eqn")
    assert mul.lines == ("mul(•, 2.0)", "twice: f32[]")
    assert sin.lines == ("sin", "f32[]")
    assert mul.tooltip.splitlines()[1].startswith("twice · b:f32[] = mul")


def test_lines_of_all_texts(session):
    line = next(line for line in session.text().splitlines() if "weights" in line)
    assert line.endswith("# weights")
    drawing = draw(attend, *[jnp.ones((3, 2))] * 3)
    assert "# scores" in drawing.text()


def test_the_inspector(session):
    found = session.inspect(address(session, LAST).eqn)
    assert found.title == "weights = div"
    assert found.params[0][0] == "variable"
    assert found.params[0][1].startswith("attend.weights (test_held.py:")
    assert found.outputs[0].startswith("weights · ")
    assert session.inspect(address(session, LAST)).title == "weights"


def test_a_tag_takes_the_name_of_the_variable(session):
    session.tag(taxpr.var("weights", occurrence=0))
    session.tag(LAST)
    session.attach(taxpr.var("h", occurrence=0), "scale", factor=2.0)
    assert [tag["name"] for tag in session.tags.values()] == ["weights", "weights2", "h"]
    assert session.injectors[address(session, taxpr.var("h", occurrence=0))].name == "scale"
    session.untag(LAST)
    assert len(session.tags) == 2


def test_which_one_is_asked(session):
    with pytest.raises(PanelError, match=r"2 values. Say which: var\('weights', occurrence=0\) \("):
        session.tag(taxpr.var("weights"))
    with pytest.raises(PanelError, match="Nearest: weights"):
        session.tag(taxpr.var("weight"))


def test_the_code_selects_by_variables_and_does_the_same(session):
    session.attach(LAST, "scale", factor=0.5)
    code = session.code()
    assert "tag_at(taxpr.var('weights', occurrence=1), name='weights')" in code
    space = dict(NAMES)
    exec(code, space)
    assert space["out"] == session.run().outputs


def test_without_names_all_is_as_before():
    session = Session(model, ARGS, names=False)
    session.attach("0:dot_general", "zero")
    assert session.tags == {"0:dot_general.0": {"name": "tag1"}}
    assert "var(" not in session.code()
    assert "#" not in session.text()


def loops(xs, n):
    def step(carry, x):
        total, most = carry
        total = total + x
        return (total, jnp.maximum(most, x)), total * 2

    (s, _), ys = jax.lax.scan(step, (0.0, 1.0), xs)

    def body(i, acc):
        return acc + xs[i]

    q = jax.lax.fori_loop(0, 3, body, s)
    k, r = jax.lax.while_loop(lambda state: state[0] < n, lambda kr: (kr[0] + 1, kr[1] * 2), (0, q))
    chosen = jax.lax.cond(r > 1, lambda a: a * 2, lambda a: a - 1, r)
    return chosen + k, ys


def test_carries_and_results_of_loops_and_branches():
    drawing = draw(loops, jnp.ones(3), 5)
    lines = [line.split() for line in drawing.text().splitlines()]
    carries = [line[2:] for line in lines if line[0].startswith("in") and line[2:3] == ["carry"]]
    assert [name for _, name in carries] == [
        *("total", "most"),
        *("i", "acc"),
        *("state[0]", "state[1]"),
        *("k", "r"),  # the variables that hold them after the loop
    ]
    text = {line[0]: " ".join(line) for line in lines}
    assert text["0:scan"].endswith("# s, _, ys")
    assert text["1:scan"].endswith("# _, q")
    assert text["2:while"].endswith("# k, r")
    assert text["5:cond"].endswith("# chosen")
    program = taxpr.trace(loops, names=True)(jnp.ones(3), 5)
    held = {
        "0:scan.0": "var('s')",
        "0:scan.2": "var('ys')",
        "0:scan/body/in0": "var('carry[0]')",
        "1:scan.1": "var('q')",
        "2:while.0": "var('k')",
        "5:cond.0": "var('chosen')",
    }
    assert {address: str(program.var_of(address)) for address in held} == held


def test_an_underscore_is_no_name():
    def f(x):
        _ = x + 1
        return _ * 2

    assert "# _" not in draw(f, 1.0).text()
