"""The pictures of pages show what the examples before them draw today."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pictures)


@pytest.mark.parametrize("page", pictures.with_pictures(), ids=lambda page: page.stem)
def test_pictures_are_not_older_than_their_examples(page):
    drawn = pictures.drawn(page)
    assert drawn
    for name, drawing in drawn.items():
        saved, new = page.with_name(name).read_text("utf-8"), pictures.numbered(name, drawing)
        assert pictures.words(saved) == pictures.words(new), "`make shots` draws them anew"
        for number in range(1, len(pictures.NUMBERED.get(name, ())) + 1):
            assert f">{number}</text>" in saved


def test_every_number_is_explained_below_its_picture():
    for page in pictures.with_pictures():
        parts = pictures.IMAGE.split(page.read_text("utf-8"))
        for name, below in zip(parts[1::2], parts[2::2], strict=True):
            items = below.strip().split("\n\n")[0].split("\n")
            if name in pictures.NUMBERED:
                assert len(items) == len(pictures.NUMBERED[name]), name
