"""Answers of questions: the same table as text, HTML, CSV, JSON and data frame, and a picture."""

import csv
import dataclasses
import io
import json
import re
import sys
import threading
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._answers.charts import Heat, Lines
from taxpr._answers.later import Later
from taxpr._answers.progress import Progress


@dataclasses.dataclass(frozen=True)
class Row:
    variable: str
    line: str
    value: float
    norms: object = None
    iteration: int | None = None


class Found(taxpr.Answer):
    _columns = ("variable", "value", "norms", "iteration")

    def chart(self):
        return Lines({row.variable: row.norms for row in self.rows}) if self.rows else None


ROWS = [
    Row("loss.<a>", "m.py:3", 1.5, np.array([0.0, 1.0, np.nan])),
    Row("loss.b", "m.py:4", float("inf"), jnp.arange(3.0)),
]
ANSWER = Found("found in loss: 2", ROWS, ("One value was skipped.",))


def test_it_is_a_table_without_empty_columns():
    assert str(ANSWER).splitlines() == [
        "found in loss: 2",
        "variable  value  norms",
        "loss.<a>  1.5    ▁█×  0 … 1",
        "loss.b    inf    ▁▅█  0 … 2",
        "One value was skipped.",
    ]
    assert len(ANSWER) == 2
    assert ANSWER
    assert not Found("found in loss: nothing", [])
    assert str(Found("found in loss: nothing", [])) == "found in loss: nothing"


def test_long_tables_are_cut_and_say_so():
    text = str(taxpr.Answer("many", [{"k": k, "words": "x" * 100} for k in range(100)]))
    assert text.endswith("… and 80 more, in .rows")
    assert max(map(len, text.splitlines())) < 70


def test_it_shows_itself_in_a_notebook():
    bundle = ANSWER._repr_mimebundle_()
    assert bundle["text/plain"] == str(ANSWER)
    page = ET.fromstring(bundle["text/html"])  # well formed
    assert len(list(page.iter("{http://www.w3.org/2000/svg}svg"))) == 3
    assert "loss.<a>" in [td.text for td in page.iter("td")]
    assert "script" not in bundle["text/html"]


def test_rows_are_handed_out(tmp_path):
    rows = list(csv.DictReader(io.StringIO(ANSWER.to_csv(tmp_path / "a.csv"), newline="")))
    assert rows[0]["line"] == "m.py:3"
    assert json.loads(rows[0]["norms"]) == [0.0, 1.0, "nan"]
    assert (tmp_path / "a.csv").read_text() == ANSWER.to_csv().replace("\r\n", "\n")
    found = json.loads(ANSWER.to_json(tmp_path / "a.json"), parse_constant=pytest.fail)
    assert found["rows"][1]["value"] == "inf"
    assert (found["complete"], found["notes"]) == (True, ["One value was skipped."])
    assert json.loads((tmp_path / "a.json").read_text()) == found
    low = taxpr.Answer("half", [{"x": jnp.ones(2, jnp.bfloat16), "at": jnp.float32(0.5)}])
    assert json.loads(low.to_json())["rows"] == [{"x": [1.0, 1.0], "at": 0.5}]


def test_json_has_numbers_of_the_whole_but_no_large_results():
    def step(params, x):
        return {"params": params["w"] * x, "loss": x.sum()}

    found = taxpr.find_nan(step)({"w": jnp.ones(1000)}, jnp.ones(1000))
    assert set(found.out) == {"params", "loss"}
    assert len(found.to_json()) < 1000
    compiled = taxpr.compiled(lambda x: jnp.sin(x) * 2)(jnp.ones(3))
    assert "HloModule" in compiled.text
    assert "HloModule" not in compiled.to_json()
    times = json.loads(taxpr.compile_time(jnp.sin)(1.0).to_json())["stages"]
    assert set(times) == {"trace", "lower", "compile"}


def test_without_libraries_it_is_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    chart = ANSWER.plot()
    assert str(chart).splitlines() == ["loss.<a>  ▁█×  0 … 1", "loss.b    ▁▅█  0 … 2"]
    ET.fromstring(chart._repr_mimebundle_()["text/html"])
    with pytest.raises(taxpr.TaxprError, match=r"pandas is not installed.*\.to_csv\(\)"):
        ANSWER.to_pandas()
    with pytest.raises(taxpr.ArgumentError, match="nothing to draw"):
        taxpr.Answer("empty", []).plot()


def test_pandas():
    pytest.importorskip("pandas")
    frame = ANSWER.to_pandas()
    assert list(frame.columns) == ["variable", "line", "value", "norms", "iteration"]
    assert frame.value.tolist() == [1.5, float("inf")]


HEAT = Heat([[0.0, -1.0], [np.nan, 2.0]], ["a", "b<"], ["x", "y"], "head", "layer")


def test_matplotlib():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    ax = ANSWER.plot()
    assert [line.get_label() for line in ax.lines] == ["loss.<a>", "loss.b"]
    assert ANSWER.plot(ax) is ax
    figure = ax.figure.__class__()
    HEAT.draw(figure.subplots())
    figure.canvas.draw()


def test_heat_maps():
    assert HEAT.text().splitlines() == ["a   ▒░", "b<  ×█", "    -1 … 2"]
    cells = list(ET.fromstring(HEAT.svg()).iter("{http://www.w3.org/2000/svg}rect"))
    assert [cell[0].text for cell in cells] == ["a, x: 0", "a, y: -1", "b<, x: nan", "b<, y: 2"]
    wide = Heat(np.zeros((10, 5000)), [str(k) for k in range(10)], [""] * 5000)
    assert wide.svg().count("<rect") <= 4000


def test_threads_read_what_is_made_later():
    both = threading.Barrier(2)

    def make():
        both.wait(60)
        return [1, 2]

    made = Later(make)
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(len, [made, made])] == [2, 2]
    assert made == [1, 2]


def test_heat_maps_have_names_at_both_axes():
    texts = ET.fromstring(HEAT.svg()).iter("{http://www.w3.org/2000/svg}text")
    assert [text.text for text in texts] == [
        "head",
        *("a", "b<"),
        *("x", "y"),
        "layer; colours: -1 … 2",
    ]
    columns = [str(k) for k in range(100)]
    narrow = Heat(np.zeros((1, 100)), ["row"], columns).svg()
    assert re.findall(r"middle'>(\d+)<", narrow) == columns[::4]


@pytest.mark.parametrize("values", [[], [1.0], [np.nan], [3, 3], np.arange(100), [True, False]])
def test_sparklines_of_anything(values):
    ET.fromstring(Lines({"": np.array(values)}).sparkline())
    ET.fromstring(Lines({"": np.array(values)}).svg())
    line = Lines({"": np.array(values)}).text().strip()
    assert len(line.partition(" ")[0]) == min(len(values), 24)


def test_what_is_stopped_keeps_what_is_done(capsys):
    done = []
    with Progress("squares", 5) as steps:
        for k in steps.over(range(5)):
            if k == 3:
                raise KeyboardInterrupt
            done.append(k * k)
    assert done == [0, 1, 4]
    assert steps.note == "Stopped: 3 of 5 steps are done."
    with pytest.raises(ZeroDivisionError), Progress("squares", 5):
        _ = 1 / 0
    assert capsys.readouterr().err == ""  # it took no second


def test_what_takes_long_says_how_far_it_is(capsys, monkeypatch):
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Progress("squares", 3) as steps:
        list(steps.over("abc"))
    assert capsys.readouterr().err.splitlines() == [
        "squares: 1 of 3, about 4 s left",
        "squares: 2 of 3, about 2 s left",
    ]
    with Progress("squares", 3, tells=False) as steps:
        list(steps.over("abc"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        (Lines({"a<b": [1.0, 3.0]}, xlabel="step's"), "Lines over step&#x27;s: a&lt;b 1 … 3"),
        (
            Heat(np.array([[0.0, 2.0]]), ["row"], ["c", "d"], ylabel="layers", xlabel="heads"),
            "Heat map, 1 × 2 layers by heads: 0 … 2",
        ),
    ],
)
def test_a_chart_has_a_text_in_its_place(chart, words):
    drawn = [chart.svg()] + ([chart.sparkline()] if isinstance(chart, Lines) else [])
    for svg in drawn:
        assert f"role='img' aria-label='{words}'" in svg
