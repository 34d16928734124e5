"""What XLA made of a call is saved, read again, and compared, also with another version of jax."""

import json
import pathlib
import sys
import types

import jax.numpy as jnp
import pytest

import taxpr
from taxpr._errors import ArgumentError
from taxpr._kernels.compiled_answer import CompiledParts, KernelRow, compiled_of
from taxpr.questions import load_compiled

X = jnp.ones((64, 64))


def chain(x):
    wave = jnp.sin(x) * 2.0
    unused = jnp.cos(x)  # noqa: F841
    out = wave @ x
    return out


def test_a_saved_answer_is_the_same_as_before(tmp_path):
    made = taxpr.compiled(chain)(X)
    made.save(tmp_path / "made.json")
    read = load_compiled(str(tmp_path / "made.json"))
    assert str(read) == str(made)
    for name in ("rows", "text", "version", "notes"):
        assert getattr(read, name) == getattr(made, name)
    for name in ("fusions", "added", "removed", "collectives", "shardings"):
        one, other = getattr(read, name), getattr(made, name)
        assert (str(one), list(one.rows)) == (str(other), list(other.rows))
    assert read.removed.rows[0].variable == "unused"
    assert read.executable is None
    read.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "made.json").read_text()


def test_a_saved_answer_is_compared_with_another(tmp_path):
    taxpr.compiled(chain)(X).save(tmp_path / "before.json")
    before = load_compiled(tmp_path / "before.json")
    assert before.compare(taxpr.compiled(chain)(X)).rows == []
    half = taxpr.compiled(chain)(X[:32, :32])
    changes = before.compare(half)
    assert {(row.variable, row.before, row.after) for row in changes.rows} == {
        ("wave", 16384, 4096),
        ("out", 16384, 4096),
    }
    assert changes.notes == ()
    assert half.compare(before).rows[0].change > 0


def test_two_versions_of_jax_are_told(tmp_path):
    made = taxpr.compiled(chain)(X)
    made.save(tmp_path / "before.json")
    about = json.loads((tmp_path / "before.json").read_text())
    about["version"] = "0.1.2"
    about["rows"][0]["bytes"] += 4
    (tmp_path / "before.json").write_text(json.dumps(about))
    changes = load_compiled(tmp_path / "before.json").compare(made)
    assert [row.change for row in changes.rows] == [-4]
    assert changes.notes == (f"Compiled by jax 0.1.2 and {made.version}.",)
    assert changes.notes[0] in str(changes)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "{}", '{"format": "taxpr compiled 0"}', '{"rows": []}']
)
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ArgumentError, match=r"load_compiled: '.*other\.json' is no file of this"):
        load_compiled(tmp_path / "other.json")


def test_what_is_missing_of_a_file_is_refused(tmp_path):
    made = taxpr.compiled(chain)(X)
    made.save(tmp_path / "made.json")
    about = json.loads((tmp_path / "made.json").read_text())
    for name in set(about) - {"format"}:
        less = {key: value for key, value in about.items() if key != name}
        (tmp_path / "less.json").write_text(json.dumps(less))
        with pytest.raises(ArgumentError, match="is no file of this version of taxpr"):
            load_compiled(tmp_path / "less.json")
    about["rows"][0]["more"] = 3
    (tmp_path / "less.json").write_text(json.dumps(about))
    with pytest.raises(ArgumentError, match="is no file of this version of taxpr"):
        load_compiled(tmp_path / "less.json")


def test_files_that_cannot_be(tmp_path):
    made = taxpr.compiled(chain)(X)
    with pytest.raises(ArgumentError, match=r"save: 3 is an int, not the path of a file"):
        made.save(3)
    with pytest.raises(ArgumentError, match=r"save: .* cannot be written: .* There is no folder"):
        made.save(tmp_path / "no" / "made.json")
    with pytest.raises(ArgumentError, match=r"load_compiled: 3 is an int, not the path of a file"):
        load_compiled(3)
    with pytest.raises(ArgumentError, match=r"load_compiled: .* cannot be read: No such file"):
        load_compiled(tmp_path / "nothing.json")
    with pytest.raises(ArgumentError, match=r"load_compiled: .* cannot be read: Is a directory"):
        load_compiled(tmp_path)
    with pytest.raises(ArgumentError, match=r"save: this table has no program"):
        taxpr.questions.Compiled("nothing", []).save(tmp_path / "made.json")


HELPER = """
import jax.numpy as jnp

def wave(x):
    y = jnp.sin(x){behind}
    return y
"""
MODEL = """
import jax, jax.numpy as jnp
from {other} import wave
{above}
def twice(x):
    y = jnp.sin(x)
    return wave(y @ x) @ x
"""


def of_two_files(folder, name, *, above="", behind=""):
    """A function with the same text in two files, as `name.py` has it."""
    pathlib.Path(folder, "waves_" + name).mkdir()
    found = {}
    for file, text in (("helper", HELPER.format(behind=behind)), ("model", "")):
        text = text or MODEL.format(other=f"helper_{name}", above=above)
        path = pathlib.Path(folder, "waves_" + name, f"{file}.py")
        path.write_text(text)
        module = types.ModuleType(f"{file}_{name}")
        sys.modules[module.__name__] = module
        exec(compile(text, str(path), "exec"), module.__dict__)
        found[file] = module
    return found["model"].twice


def test_the_same_text_in_two_files_is_two_statements(tmp_path):
    before = taxpr.compiled(of_two_files(tmp_path, "before"))(X)
    same = taxpr.compiled(of_two_files(tmp_path, "moved", above="\n\n"))(X)
    assert before.compare(same).rows == []
    less = of_two_files(tmp_path, "less", behind="[:32]")
    changes = before.compare(taxpr.compiled(less)(X)).rows
    assert {(row.line.split(":")[0], row.code) for row in changes if "sin" in row.code} == {
        ("helper.py", "y = jnp.sin(x)"),
        ("helper.py", "y = jnp.sin(x)[:32]"),
    }


def compared_lines(before, after):
    """The kernels of one text, of 4 bytes times the number of the line, as two tables."""

    def made(lines):
        rows = [
            KernelRow("fusion", "y", line, "y = sin(x)", 1, 1, size, "0:sin", ("0:sin",), f"k{k}")
            for k, (line, size) in enumerate(lines)
        ]
        parts = CompiledParts("f", "cpu", "0", rows, [], [], [], [], "")
        return compiled_of(parts)

    return [(row.line, row.before, row.after) for row in made(before).compare(made(after)).rows]


def test_lines_of_one_text_are_told_apart_where_they_have_moved():
    a3, a9, b3 = ("a.py:3", 40), ("a.py:9", 80), ("b.py:3", 8)
    assert compared_lines([a3, a9, b3], [b3, ("a.py:4", 40), ("a.py:10", 80)]) == []
    assert compared_lines([a3, a9, b3], [a3, a9, ("b.py:3", 12)]) == [("b.py:3", 8, 12)]
    assert compared_lines([a3, b3], [b3]) == [("a.py:3", 40, 0)]
    assert compared_lines([a3, a9], [a9]) == [("a.py:3", 40, 0)]
    assert compared_lines([a3], [("cell 5:2", 40)]) == []
    assert compared_lines([("a.py:9, a.py:10", 4)], [("a.py:10, a.py:11", 4)]) == []
