"""The diff of lines that were typed over: `git apply` makes the file that was typed."""

import importlib.util
import subprocess

import jax.numpy as jnp
import pytest

from taxpr_jupyter import Session

BEFORE = '''\
import jax.numpy as jnp


def f(x):
    """Ünï → "q"."""
    y = jnp.sin(x)  # → y
    z = (y * 2, "→")[0]
    w = (
        z
        + y
    )
    return w.sum()
'''
AFTER = BEFORE.replace("jnp.sin(x)", "jnp.cos(x)").replace("w.sum()", "(w\n    .mean())")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    git("init", "-q", tmp_path)
    (tmp_path / "package" / "part").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def git(*command):
    done = subprocess.run(["git", *command], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def module_of(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def edited(file):
    session = Session(module_of(file).f, (jnp.ones(3),))
    session.edit("f.y", "jnp.cos(x)")
    session.edit("f.return", "w\n    .mean()")
    return session


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("plain", lambda text: text),
        ("no_end", lambda text: text.removesuffix("\n")),
        ("crlf", lambda text: text.replace("\n", "\r\n")),
        ("tabs", lambda text: text.replace("    ", "\t")),
        ("bom", lambda text: f"\ufeff{text}"),
        ("feed", lambda text: text.replace("\n\n\n", "\n\x0c\n")),
    ],
)
def test_git_applies_it(folder, name, changed):
    file = folder / "package" / "part" / f"{name}.py"
    file.write_bytes(changed(BEFORE).encode())
    (folder / "edits.diff").write_bytes(edited(file).diff().encode())
    git("apply", "edits.diff")
    wanted = changed(AFTER).replace("\t.mean", "    .mean")
    assert file.read_bytes().decode() == wanted


def test_the_name_of_the_file_is_as_git_has_it(folder, monkeypatch):
    file = folder / "package" / "part" / "plain.py"
    file.write_text(BEFORE, "utf-8")
    session = edited(file)
    (folder / "notebooks").mkdir()
    monkeypatch.chdir(folder / "notebooks")
    assert session.diff().startswith("--- a/package/part/plain.py\n+++ b/package/part/plain.py\n")


def test_without_git_it_is_from_the_folder_of_the_notebook(tmp_path, monkeypatch):
    file = tmp_path / "a part" / "plain.py"
    file.parent.mkdir()
    file.write_text(BEFORE, "utf-8")
    session = edited(file)
    monkeypatch.chdir(tmp_path)
    assert session.diff().startswith("--- a/a part/plain.py\t\n+++ b/a part/plain.py\t\n")
    monkeypatch.chdir(tmp_path.parent.parent)
    (tmp_path.parent / "elsewhere").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path.parent / "elsewhere")
    assert session.diff().startswith("--- a/plain.py\n+++ b/plain.py\n")


def test_a_file_that_was_saved_since(folder):
    file = folder / "package" / "part" / "plain.py"
    file.write_text(BEFORE, "utf-8")
    session = edited(file)
    file.write_text(f"# A line more.\n{BEFORE}", "utf-8")
    (folder / "edits.diff").write_bytes(session.diff().encode())
    git("apply", "edits.diff")
    assert file.read_text("utf-8") == f"# A line more.\n{AFTER}"
