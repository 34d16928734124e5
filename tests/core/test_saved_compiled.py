"""What XLA made of a call is saved, read again, and compared, also with another version of jax."""

import json

import jax.numpy as jnp
import pytest

import taxpr
from taxpr._errors import ArgumentError
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
    with pytest.raises(ArgumentError, match=r"save: 3 is a int, not the path of a file"):
        made.save(3)
    with pytest.raises(ArgumentError, match=r"save: .* cannot be written: .* There is no folder"):
        made.save(tmp_path / "no" / "made.json")
    with pytest.raises(ArgumentError, match=r"load_compiled: 3 is a int, not the path of a file"):
        load_compiled(3)
    with pytest.raises(ArgumentError, match=r"load_compiled: .* cannot be read: No such file"):
        load_compiled(tmp_path / "nothing.json")
    with pytest.raises(ArgumentError, match=r"load_compiled: .* cannot be read: Is a directory"):
        load_compiled(tmp_path)
    with pytest.raises(ArgumentError, match=r"save: this table has no program"):
        taxpr.questions.Compiled("nothing", []).save(tmp_path / "made.json")
