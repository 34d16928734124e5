"""The table of higher-order primitives in the documents is the one that taxpr works by."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.newest_only
def test_the_page_has_the_table_of_the_newest_jax():
    spec = importlib.util.spec_from_file_location("table", ROOT / "tools" / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    page = table.PAGE.read_text(encoding="utf-8")
    assert page == table.written(page), "`.envs/newest/bin/python tools/table.py` writes it"
