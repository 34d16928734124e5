"""The sliders and fields that are made from declared parameters."""

import math

import ipywidgets
import pytest

import taxpr
from taxpr_jupyter._view._controls import ParamRow, close_all, slider_range, slider_step


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
    ("value", "kinds"),
    [
        (1.0, {ipywidgets.FloatSlider, ipywidgets.FloatText}),
        (1, {ipywidgets.IntSlider, ipywidgets.IntText}),
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
    row._field.value = type(value)(0)
    assert changes == [("p", 0)]


def test_a_slider_gives_round_numbers_and_the_field_what_is_typed():
    changes = []
    row = ParamRow("p", taxpr.Param(1.0, -2.0, 2.0), 1.0, lambda *change: changes.append(change))
    row._slider.value = 0.6000000000000001
    row._slider.value = 0.04999999999999982
    row._field.value = 0.123456789012
    assert changes == [("p", 0.6), ("p", 0.05), ("p", 0.123456789012)]


def test_a_hostile_name_is_never_a_description():
    """ipywidgets 7 puts descriptions into the page as HTML."""
    name = "<img src=x onerror=alert(1)>"
    row = ParamRow(name, taxpr.Param(1.0, help=name), 1.0, lambda *change: None)
    shown = {type(w) for w in widgets_of(row.box) if getattr(w, "value", None) == name}
    assert shown == {ipywidgets.Label}
    assert not any(getattr(w, "description", "") for w in widgets_of(row.box))


def test_what_is_not_finite_is_left_to_python():
    row = ParamRow("p", None, 1.0, lambda *change: None)
    row.show(float("inf"))
    assert row._field.value == 1.0


def test_an_infinite_value_stands_at_the_declared_end():
    """The bounds of `clip` that are not given."""
    changes = []
    param = taxpr.clip.params["low"]
    row = ParamRow("low", param, param.default, lambda *change: changes.append(change))

    def text():
        return [w.value for w in widgets_of(row.box) if isinstance(w, ipywidgets.Label)]

    assert (row._slider.value, row._field.value, changes) == (-10.0, -10.0, [])
    assert "now -inf" in text()
    row._slider.value = 0.5
    assert changes == [("low", 0.5)]
    row.show(0.5)
    assert "now -inf" not in text()
    row.show(-math.inf)
    assert row._slider.value == -10.0
    assert "now -inf" in text()


def test_closing_closes_everything():
    row = ParamRow("p", None, 1.0, lambda *change: None)
    widgets = list(widgets_of(row.box))
    close_all(row.box)
    assert len(widgets) == 6
    assert all(widget.comm is None for widget in widgets)
