"""The sliders and fields that are made from declared parameters."""

import math

import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session
from taxpr_jupyter._view.parts.controls import InjectorControls
from taxpr_jupyter._view.parts.params import ParamField, Scale, slider_range, slider_step


@pytest.mark.parametrize(
    ("value", "param", "ends"),
    [
        (1.0, taxpr.Param(1.0, -2.0, 2.0), (-2.0, 2.0)),
        (5.0, taxpr.Param(1.0, -2.0, 2.0), (-2.0, 5.0)),  # a value is never out of reach
        (2.0, taxpr.Param(2.0), (-2.0, 6.0)),  # without ends, as `interact` does it
        (-2.0, taxpr.Param(2.0, high=4.0), (-6.0, 4.0)),
        (0.0, None, (0.0, 1.0)),
        (3, None, (-3, 9)),
    ],
)
def test_the_ends_of_a_slider(value, param, ends):
    assert slider_range(value, param) == ends
    assert {type(end) for end in slider_range(value, param)} == {type(value)}


@pytest.mark.parametrize(
    ("ends", "step"),
    [((-2.0, 2.0), 0.05), ((0.0, 1.0), 0.01), ((-10.0, 10.0), 0.2), ((1.0, 1.0), 0.1)],
)
def test_the_step_of_a_slider_is_round(ends, step):
    assert slider_step(*ends) == step


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (1.0, taxpr.Param(1.0, -2.0, 2.0)),
        (-1.03, taxpr.Param(1.0, -1.03, 2.0)),  # the last step is a shorter one
        (0.3, None),
        (1e-14, None),
        (5e-324, None),
        (1.7e308, None),
        (math.inf, None),
        (math.nan, taxpr.Param(0.0, -math.inf, math.inf)),
        (0, None),
        (7, taxpr.Param(7, 0, 10)),
        (2**63 + 1, None),
        (10**400, None),
    ],
)
def test_each_position_of_a_slider_is_the_nearest_to_its_own_value(value, param):
    scale = Scale(value, param)
    assert 1 <= scale.last <= 10**6
    for position in {0, 1, scale.last // 3, scale.last - 1, scale.last}:
        there = scale.value(position)
        assert type(there) is type(value)
        assert math.isfinite(there)
        assert scale.value(scale.position(there)) == there
    assert scale.position(math.inf) == scale.last
    assert scale.position(-math.inf) == scale.position(math.nan) == 0


@pytest.mark.parametrize(("value", "flag"), [(1.0, False), (1, False), (True, True)])
def test_a_parameter_has_what_its_type_needs(value, flag):
    field = ParamField("p", None, value)
    assert field.state()["flag"] is flag
    assert (field.state()["last"] > 0) is not flag
    given = field.typed("False" if flag else "0")
    assert given == 0
    assert type(given) is type(value)


READY = [
    (kind.name, name)
    for kind in taxpr.ready_injectors().values()
    for name, param in kind.params.items()
    if isinstance(param.default, float)
]


def test_the_numbers_of_the_ready_injectors_are_known():
    names = {"scale.factor", "add.value", "replace.value", "clip.low", "clip.high", "noise.stddev"}
    assert names <= {".".join(one) for one in READY}


@pytest.mark.parametrize("text", ["0.001", "-0.001", "1e-6", "0.25", "1000", "inf", "-inf"])
@pytest.mark.parametrize(("kind", "name"), READY)
def test_a_number_is_kept_as_it_is_typed(kind, name, text):
    param = taxpr.ready_injectors()[kind].params[name]
    field = ParamField(name, param, param.default)
    value = field.typed(text)
    field.show(value)
    assert value == float(text)
    assert field.state()["text"] == text
    assert field.state()["mistake"] == ""


def test_a_slider_sets_the_field_and_gives_round_numbers():
    field = ParamField("p", taxpr.Param(1.0, -2.0, 2.0), 1.0)
    given = []
    for act in (
        lambda: field.moved(52),
        lambda: field.typed("0.123456789012"),
        lambda: field.moved(41),
    ):
        given.append(act())
        field.show(given[-1])
    assert given == [0.6, 0.123456789012, 0.05]
    assert (field.state()["position"], field.state()["text"]) == (41, "0.05")


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        (1.0, "abc", "'abc' is not a number: p is still 1.0"),
        (1.0, "", "'' is not a number: p is still 1.0"),
        (3, "1.5", "'1.5' is not an integer: p is still 3"),
        (3, "inf", "'inf' is not an integer: p is still 3"),
    ],
)
def test_what_is_no_such_number_stays_with_a_message(value, text, message):
    field = ParamField("p", None, value)
    assert field.typed(text) is None
    field.show(value)
    assert (field.state()["text"], field.state()["mistake"]) == (text, message)
    assert field.typed("4") == 4
    assert field.state()["mistake"] == ""


def test_a_large_integer_is_exact():
    field = ParamField("p", taxpr.Param(0, 0, 10), 0)
    assert field.typed(str(2**63 + 1)) == 2**63 + 1


def test_an_infinite_value_stands_at_the_declared_end():
    """The bounds of `clip` that are not given."""
    param = taxpr.clip.params["low"]
    field = ParamField("low", param, param.default)
    assert (field.state()["position"], field.state()["text"]) == (0, "-inf")
    assert field.moved(50) == 0.0
    field.show(-math.inf)
    field.show(0.0)
    field.show(-math.inf)
    assert (field.state()["position"], field.state()["text"]) == (0, "-inf")


# ---- functions of the notebook ---------------------------------------------------


def total(ctx, token, params, factor=(0.0, 2.0)):
    """Add up."""
    return token * factor, ctx + token


@pytest.fixture
def panel():
    names = {"total": total, "start": 5.0}
    session = Session(lambda x: taxpr.tag(x, name="x"), (jnp.float32(3),), namespace=names)
    shown = {}
    controls = InjectorControls(session, lambda state: (shown.clear(), shown.update(state)))
    controls.show(session.inspect("t0"))

    def send(do, **content):
        controls.handle({"do": do, "address": "in0", **content})
        return shown

    return session, send


def test_a_ctx_is_asked_for_where_one_is_needed(panel):
    session, send = panel
    shown = send("attach", injector="total")
    assert shown["doc"] == "Add up."
    assert "Its ctx is ()" in shown["failure"]
    ctx, factor = shown["fields"]
    assert (ctx["name"], ctx["text"], ctx["last"]) == ("ctx", "", 0)
    assert (factor["name"], factor["text"]) == ("factor", "1.0")
    for text, mistake in (("1 +", "SyntaxError"), ("stat", "name 'stat' is not defined")):
        [ctx, _] = send("value", param="ctx", text=text)["fields"]
        assert mistake in ctx["mistake"]
        assert ctx["text"] == text
    shown = send("value", param="ctx", text="start + 1.0")
    assert (shown["failure"], shown["fields"][0]["mistake"]) == ("", "")
    assert session.injectors["in0"].ctx == 6.0
    run = session.run()
    assert (float(run.outputs), float(run.records["in0"].report["ctx"])) == (3.0, 9.0)
    shown = send("value", param="factor", position=shown["fields"][1]["last"], drag=1)
    assert (session.injectors["in0"].values, shown["fields"][0]["text"]) == (
        {"factor": 2.0},
        "start + 1.0",
    )
    # What is no context is told where it was typed.
    shown = send("value", param="ctx", text="'no'")
    assert "'no'" in shown["failure"]
    assert [field["name"] for field in send("attach", injector="scale")["fields"]] == ["factor"]
    assert send("attach", injector="")["fields"] == []


def needs(ctx, token, params, factor=0.5):
    return token * factor + ctx, ctx


@pytest.fixture
def two():
    """A function that needs a ctx at two values; the controls show the first one."""
    session = Session(lambda x: jnp.sin(x) + jnp.cos(x), (0.5,), namespace={"needs": needs})
    for address in ("0:sin", "1:cos"):
        session.attach(address, "needs", ctx=1.0)
    shown = {}
    controls = InjectorControls(session, lambda state: (shown.clear(), shown.update(state)))
    controls.show(session.inspect("0:sin.0"))

    def send(address, **content):
        controls.handle({"do": "value", "address": address, **content})

    return session, shown, send


def test_what_is_typed_arrives_also_where_the_selection_moved_first(two):
    session, shown, send = two
    send("1:cos.0", param="ctx", text="2.0 + 3")
    assert session.injectors["1:cos.0"].ctx == 5.0
    assert session.injectors["0:sin.0"].ctx == 1.0
    assert shown["fields"][0]["text"] == "1.0"
    with pytest.raises(PanelError, match=r"needs at 1:cos.0, ctx: NameError: name 'no' is not"):
        send("1:cos.0", param="ctx", text="no")
    with pytest.raises(PanelError, match=r"needs at 1:cos.0, factor: 'no' is not a number"):
        send("1:cos.0", param="factor", text="no")
    assert [field["mistake"] for field in shown["fields"]] == ["", ""]


def test_the_field_of_a_ctx_follows_the_session(two):
    session, shown, send = two

    def text():
        return shown["fields"][0]["text"]

    send("0:sin.0", param="ctx", text="1.0 + 1")
    assert text() == "1.0 + 1"
    session.set_ctx("0:sin.0", 7.0)
    send("0:sin.0", param="factor", text="0.25")
    assert text() == "7.0"
    session.set_ctx("0:sin.0", 2.0)
    send("0:sin.0", param="factor", text="0.5")
    assert text() == "2.0"
    send("0:sin.0", param="ctx", text="None")
    assert session.injectors["0:sin.0"].ctx is None
    assert text() == "None"
