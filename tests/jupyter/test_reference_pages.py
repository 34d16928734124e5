"""The pages of the reference say something of each name also where they are read as files."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))


@pytest.mark.newest_only
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_line_for_each_name(page):
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    text = page.read_text(encoding="utf-8")
    assert text == reference.written(text), (
        "`.envs/newest/bin/python tools/reference.py` writes them"
    )
    assert text.count("\n* [`") == text.count("<!-- ::: ") > 0
    assert reference.for_site(text).count("\n::: ") == text.count("<!-- ::: ")
