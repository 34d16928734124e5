"""The table of higher-order primitives in the README is the one that taxpr works by."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.newest_only
def test_the_readme_has_the_table_of_the_newest_jax():
    spec = importlib.util.spec_from_file_location("table", ROOT / "tools" / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    readme = table.README.read_text(encoding="utf-8")
    assert readme == table.written(readme), "`.envs/newest/bin/python tools/table.py` writes it"
