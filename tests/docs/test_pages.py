"""The code of pages that is no doctest runs, and the reference has every public name.

That a page's doctests pass is tested where all doctests run.
"""

import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import taxpr

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)
DOCS = ROOT / "docs"


def fenced(page, language):
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


def python(*args):
    return subprocess.run([sys.executable, *args], check=True, capture_output=True, text=True)


def test_the_new_hop_works():
    # In a process of its own: it adds to the table of higher-order primitives.
    code = "\n".join(fenced("how-to/new-hop.md", "python"))
    checks = "import jax; jax.config.update('jax_enable_checks', True)\n"
    python("-c", checks + code)


def test_the_commands_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    from taxpr_jupyter._cli.main import main

    [model] = fenced("how-to/command-line.md", "python")
    (tmp_path / "model.py").write_text(model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "model", None)  # which the command replaces
    for block in fenced("how-to/command-line.md", "console"):
        for command, said in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            program, *args = shlex.split(command)
            assert program == "taxpr"
            assert main(args) == 0
            assert capsys.readouterr().out.strip() == said.strip()
            for flag, name in itertools.pairwise(args):
                assert flag != "-o" or (tmp_path / name).stat().st_size > 0


def test_the_reference_has_every_public_name_once():
    todo = "write `<!-- ::: NAME -->` into a page of docs/reference, and run tools/reference.py"
    assert reference.missing() == [], todo
    shown = [path.rpartition(".") for path in reference.named()]
    assert len(shown) == len({name for *_, name in shown})
    modules = {module.__name__: module for module in reference.MODULES}
    older = importlib.import_module("taxpr._drop_in").__all__
    wrong = [name for home, _, name in shown if name not in {*modules[home].__all__, *older}]
    assert wrong == []


def test_what_one_types_is_shown_as_taxpr_has_it():
    shown = reference.named()
    assert [f"taxpr.{name}" for name in taxpr.__all__ if f"taxpr.{name}" not in shown] == []


def test_pages_say_what_is_in_the_menu():
    nav = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert {page for page in pages if f"- {page}\n" not in nav} == set()
