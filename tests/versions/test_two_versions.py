"""What one version of jax has compiled is read, and compared, by another.

The environments with the older ones run this: the newest stands beside them by then, and compiles
in a process of its own.
"""

import os
import subprocess
from pathlib import Path

import compiled_programs
import jax
import pytest

import taxpr
from taxpr.questions import load_compiled

ROOT = Path(__file__).resolve().parents[2]
OTHERS = [ROOT / ".envs" / name / "bin" / "python" for name in ("newest", "jax-0.7")]
SAVING = """
import pathlib, sys
import jax, taxpr
from compiled_programs import PROGRAMS, arguments

for name, fun in PROGRAMS.items():
    made = taxpr.compiled(fun)(*arguments(name))
    made.save(pathlib.Path(sys.argv[1], f"{name}.json"))
    pathlib.Path(sys.argv[1], f"{name}.txt").write_text(str(made))
print(jax.__version__)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """What another version made of each program, in a folder, and that version."""
    folder = tmp_path_factory.mktemp("elsewhere")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    for python in OTHERS:
        assert python.exists(), f"{python} is made by: make test ENVS={python.parts[-3]}"
        command = [str(python), "-c", SAVING, str(folder)]
        made = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        assert made.returncode == 0, made.stderr
        if (version := made.stdout.strip()) != jax.__version__:
            return folder, version
    raise AssertionError(f"all environments have jax {jax.__version__}")


@pytest.mark.parametrize("name", compiled_programs.PROGRAMS)
def test_two_versions_are_compared_statement_by_statement(elsewhere, name, tmp_path):
    folder, version = elsewhere
    there = load_compiled(folder / f"{name}.json")
    assert str(there) == (folder / f"{name}.txt").read_text()
    assert there.version == version
    here = taxpr.compiled(compiled_programs.PROGRAMS[name])(*compiled_programs.arguments(name))
    assert there.compare(there).rows == []
    changes = there.compare(here)
    assert changes.notes == (f"Compiled by jax {version} and {jax.__version__}.",)
    written = [sum(row.bytes for row in one.rows) for one in (there, here)]
    assert sum(row.change for row in changes.rows) == written[1] - written[0]
    back = {(row.code, row.variable, -row.change) for row in here.compare(there).rows}
    assert back == {(row.code, row.variable, row.change) for row in changes.rows}
    source = Path(compiled_programs.__file__).read_text().splitlines()
    for row in changes.rows:
        if row.address and row.line.startswith("compiled_programs.py:") and "," not in row.line:
            said = source[int(row.line.partition(":")[2]) - 1].strip()
            assert any(said.startswith(one) for one in _spelled(row.code)), row
    there.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (folder / f"{name}.json").read_text()


def _spelled(code):
    """A statement without what is said of it, and without the end that is cut off."""
    return [one.strip().removeprefix("∂ ").rstrip("…") for one in code.split("; ")]
