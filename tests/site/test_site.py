"""The site is built without a warning and without network, and needs none to be read."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import socket

def refuse(*args, **kwargs):
    raise AssertionError("the build asked for the network")

socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli()
"""
# What a browser fetches by itself, and so what must not be elsewhere. A link is followed by people.
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.fetched, self.links, self.ids, self.text = [], [], set(), []
        self.components = set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id") or given.get("name"))
        self.components.add(given.get("data-md-component"))
        if tag in FETCHED and given.get("rel") != "canonical":
            self.fetched.append(given.get(FETCHED[tag]) or "")
        if tag == "a" and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    # Not with --quiet: what is not printed is no error either.
    command = [sys.executable, "-c", BUILD, "build", "--strict", "--site-dir", folder]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_nothing_is_fetched_from_elsewhere(site, pages):
    fetched = {url for page in pages.values() for url in page.fetched}
    assert any(url.endswith(".js") for url in fetched)
    assert [url for url in fetched if urlsplit(url).netloc] == []
    # The theme's script asks GitHub for the stars of a repository that it is told.
    assert not any("source" in page.components for page in pages.values())
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text("utf-8")), path


def test_links_lead_somewhere(site, pages):
    lost = []
    for path, page in pages.items():
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / parts.path).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            found = pages.get(target)
            anchored = not parts.fragment or found is None or parts.fragment in found.ids
            if not target.is_file() or not anchored:
                lost.append(f"{path.relative_to(site)}: {url}")
    assert lost == []


def test_every_notebook_is_a_tutorial_with_its_pictures(site, pages):
    for notebook in ROOT.glob("notebooks/*.ipynb"):
        page = pages[site / "tutorials" / f"{notebook.stem}.html"]
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        drawn = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
        assert sum(url.endswith(".svg") for url in page.fetched) == len(drawn)
        said = "".join("".join(page.text).split())
        for output in outputs:
            assert "".join("".join(output.get("text", "")).split()) in said


def test_the_table_is_that_of_the_readme(site, pages):
    text = "".join(pages[site / "design" / "hops.html"].text)
    assert "custom_linear_solve" in text
    assert "refused: its jaxpr is a kernel" in text


def test_ready_injectors_are_shown_as_they_are_called(site, pages):
    text = "".join(pages[site / "reference" / "injectors.html"].text)
    assert "clip(low=-inf, high=inf)" in text
    assert "The smallest value let through; -inf: no bound." in text
    assert ">>> from taxpr import clip, tag, trace" in text
