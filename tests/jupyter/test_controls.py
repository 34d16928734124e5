"""The sliders and fields that are made from declared parameters."""

import math

import ipywidgets
import pytest

import taxpr
from taxpr_jupyter._view.params import ParamRow, Scale, close_all, slider_range, slider_step


def widgets_of(widget):
    """A widget and all widgets in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from widgets_of(child)


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


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (1.0, {ipywidgets.IntSlider, ipywidgets.Text}),
        (1, {ipywidgets.IntSlider, ipywidgets.Text}),
        (True, {ipywidgets.Checkbox}),
    ],
)
def test_a_parameter_gets_the_widgets_of_its_type(value, kinds):
    changes = []
    row = ParamRow("p", None, value, lambda *change: changes.append(change))
    labels = {ipywidgets.Label, ipywidgets.HBox, ipywidgets.VBox}
    assert {type(widget) for widget in widgets_of(row.box)} - labels == kinds
    row.show(value)
    assert changes == []
    row._field.value = False if value is True else "0"
    assert changes == [("p", 0)]
    assert type(changes[0][1]) is type(value)


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
    """ipywidgets 8 sends back what its slider is set to, rounded to the slider's step."""
    changes = []
    param = taxpr.ready_injectors()[kind].params[name]
    row = ParamRow(name, param, param.default, lambda *change: changes.append(change))
    row._field.value = text
    step = row._slider.step
    browser = row._slider.min + step * round((row._slider.value - row._slider.min) / step)
    assert browser == row._slider.value
    row._slider.value = browser
    row.show(float(text))
    assert changes == ([(name, float(text))] if param.default != float(text) else [])
    assert row._field.value == text


def test_a_slider_sets_the_field_and_gives_round_numbers():
    changes = []
    row = ParamRow("p", taxpr.Param(1.0, -2.0, 2.0), 1.0, lambda *change: changes.append(change))
    row._slider.value = 52
    assert row._field.value == "0.6"
    row._field.value = "0.123456789012"
    assert row._slider.value == 42
    row._slider.value = 41
    assert changes == [("p", 0.6), ("p", 0.123456789012), ("p", 0.05)]
    assert row._field.value == "0.05"


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
    changes = []
    row = ParamRow("p", None, value, lambda *change: changes.append(change))
    row._field.value = text
    assert (changes, row._field.value) == ([], text)
    assert (row._mistake.value, row._mistake.layout.display) == (message, None)
    row._field.value = "4"
    assert (row._mistake.value, row._mistake.layout.display) == ("", "none")
    assert changes == [("p", 4)]


def test_a_large_integer_is_exact():
    changes = []
    row = ParamRow("p", taxpr.Param(0, 0, 10), 0, lambda *change: changes.append(change))
    row._field.value = str(2**63 + 1)
    assert changes == [("p", 2**63 + 1)]


def test_a_hostile_name_is_never_a_description():
    """ipywidgets 7 puts descriptions into the page as HTML."""
    name = "<img src=x onerror=alert(1)>"
    row = ParamRow(name, taxpr.Param(1.0, help=name), 1.0, lambda *change: None)
    shown = {type(w) for w in widgets_of(row.box) if getattr(w, "value", None) == name}
    assert shown == {ipywidgets.Label}
    assert not any(getattr(w, "description", "") for w in widgets_of(row.box))


def test_an_infinite_value_stands_at_the_declared_end():
    """The bounds of `clip` that are not given."""
    changes = []
    param = taxpr.clip.params["low"]
    row = ParamRow("low", param, param.default, lambda *change: changes.append(change))
    assert (row._slider.value, row._field.value, changes) == (0, "-inf", [])
    row._slider.value = 50
    assert changes == [("low", 0.0)]
    row.show(-math.inf)
    assert (row._slider.value, row._field.value) == (0, "-inf")


def test_closing_closes_everything():
    row = ParamRow("p", None, 1.0, lambda *change: None)
    widgets = list(widgets_of(row.box))
    close_all(row.box)
    assert len(widgets) == 6
    assert all(widget.comm is None for widget in widgets)
