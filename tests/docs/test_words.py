"""Texts do not get harder to read: `tools/words.py` counts what makes them so."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

# Without its folder in the path, where other modules of tools/ would hide those of tests.
PATH = Path(__file__).resolve().parents[2] / "tools" / "words.py"
SPEC: Any = importlib.util.spec_from_file_location("words_tool", PATH)
words: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)

# The most of each phrase in documents, docstrings, notebooks and messages. Lower a number when you
# have made texts plainer; do not raise one: `python tools/words.py --where PHRASE` shows them.
MOST = {
    "what-subject": (3, 3, 3, 3),
    "what": (3, 4, 3, 3),
    "where": (1, 1, 1, 1),
    "that-of": (3, 3, 3, 3),
    "is-none": (5, 3, 4, 3),
    "stands": (4, 3, 4, 3),
    "preposition-which": (5, 4, 3, 4),
    "of-first": (1, 1, 1, 2),
    "own-words": (1, 1, 1, 2),
}


def test_every_phrase_has_a_ceiling():
    assert MOST.keys() == words.PHRASES.keys()


@pytest.mark.parametrize("phrase", MOST)
def test_texts_do_not_get_harder_to_read(phrase):
    for kind, most in zip(words.KINDS, MOST[phrase], strict=True):
        found = words.places(kind, phrase)
        assert len(found) <= most, "\n".join(f"{file}:{line}: {text}" for file, line, text in found)


def test_phrases_are_found(tmp_path, monkeypatch):
    text = "What is rounding is no row. See `what of it`.\n\n```python\nof what\n```\n\nGo on.\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Stand up. It stands.\n")
    (tmp_path / "docs" / "page.md").write_text(text)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert [line for _, line, _ in words.places("documents", "what-subject")] == [1]
    assert not words.places("documents", "what")
    assert len(words.places("documents", "stands")) == 1
