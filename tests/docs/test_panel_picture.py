"""The picture at the top of the README shows the panel of today."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_of_the_panel_is_not_older_than_the_panel():
    spec = importlib.util.spec_from_file_location("shots", ROOT / "tools" / "shots.py")
    shots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shots)
    assert shots.said(shots.PICTURE.read_bytes()) == shots.taken_of(), "`make shots` takes it anew"
    assert shots.said(b"\x89PNG\r\n\x1a\n") == ""
