"""What a reader of a notebook sees of its pictures."""

from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

DRAWN = """\
from taxpr_jupyter import compare, draw
draw(lambda x: jnp.tanh(jnp.sin(x) * x) + x, 1.0)
"""
COMPARED = "compare(lambda x: jnp.sin(x) * 2, lambda x: jnp.sin(x) * 3, 1.0)"
# How many pictures are seen in each of these elements. Icons are smaller; maps are no pictures.
SEEN = """\
which => [...document.querySelectorAll(which)].map(element =>
  [...element.querySelectorAll("img, svg")].filter(picture =>
    !picture.closest(".tx-map") && picture.getBoundingClientRect().width > 80
    && (picture.localName == "svg" || picture.naturalWidth > 80)).length)
"""


def expect_seen(page: Any, cells: str, *pictures: int) -> None:
    """Waits until so many pictures are seen in each of the cells."""
    wanted = ",".join(map(str, pictures))
    try:
        page.wait_for_function(f"({SEEN})({cells!r}).join() == {wanted!r}")
    except sync_api.TimeoutError:
        assert page.evaluate(SEEN, cells) == list(pictures)
