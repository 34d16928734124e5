"""The search of a saved page finds what the panel's search finds, whose words it gets."""

import base64
import random
import sys

import jax.numpy as jnp
import pytest
from drawn_programs import PROGRAMS
from searches import MISTAKES, SEARCHES, model, program

import taxpr
from taxpr_jupyter import PanelError
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._output.known import known_places
from taxpr_jupyter._output.modules import linked
from taxpr_jupyter._output.page import STATIC
from taxpr_jupyter._search.find import Finder
from taxpr_jupyter._search.grammar import GRAMMAR
from taxpr_jupyter._search.searched import Searched
from taxpr_jupyter._search.typed import is_selector
from taxpr_jupyter._text.short import file_and_line

FOUND = """async ([code, grammar, known, searches]) => {
  const { Mistake, Search, placesOf } = await import(code);
  const [search, places] = [new Search(grammar), placesOf(known)];
  return searches.map((text) => {
    try {
      return search.find(places, search.words(text)).map(({ place }) => place.address);
    } catch (error) {
      if (!(error instanceof Mistake)) throw error;
      return error.message;
    }
  });
}"""
MANY = 60  # searches of one program
NAMES = {*list(PROGRAMS)[::5], "hostile", "grad_remat", "batched", "linear_solve"}


def found_in_page(page, program, searches):
    code = base64.b64encode(linked(STATIC / "search.js").encode()).decode()
    known = known_places(Index(program), file_and_line, sys.maxsize)
    page.goto("about:blank")
    return page.evaluate(
        FOUND, [f"data:text/javascript;base64,{code}", GRAMMAR, known, list(searches)]
    )


def found_in_panel(program, searches):
    finder = Finder(Index(program))
    for text in searches:
        try:
            yield [hit.address for hit in finder.find(text)]
        except PanelError as error:
            yield str(error)


def test_what_a_search_finds(page):
    found = found_in_page(page, program(), [text for text, _ in SEARCHES])
    for (text, wanted), addresses in zip(SEARCHES, found, strict=True):
        assert sorted(addresses) == sorted(wanted), text


def test_what_makes_no_sense(page):
    found = found_in_page(page, program(), [text for text, _ in MISTAKES])
    for (text, message), said in zip(MISTAKES, found, strict=True):
        assert message in said, text


def test_a_selector_of_python_is_said_to_need_a_panel(page):
    makers = [f'{name}("h")' for name in ("var", "scope", "line", "tag", "prim", "taxpr.var")]
    typed = [*makers, '[var("h", line=3), taxpr.line(1', '{"name": "loss"}', 'var("h']
    assert all(is_selector(text) for text in typed)
    found = found_in_page(page, program(), [*typed, "[2,16]", "[*,16] tanh", "{a"])
    assert all("selector in Python, and a saved page has no" in one for one in found[: len(typed)])
    assert all(isinstance(one, list) for one in found[len(typed) :])


def test_variables_of_the_source(page):
    named = taxpr.trace(model, names=True)({"w": jnp.ones((3, 4))}, jnp.ones((5, 3)))
    searches = ["var:model.h", "var:params['w']", "var:step.*", "var:nothing", "helper.x", "ys"]
    found = found_in_page(page, named, searches)
    assert found[:4] == [["1:tanh"], ["in0"], found[2], []]
    assert len(found[2]) > 2
    for here, there in zip(found, found_in_panel(named, searches), strict=True):
        assert sorted(here) == sorted(there)
    [said] = found_in_page(page, program(), ["var:h"])
    assert [said] == list(found_in_panel(program(), ["var:h"]))
    assert "knows no variables" in said


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_page_finds_what_the_panel_finds(page, name):
    program = PROGRAMS[name]()
    searches = sorted(searches_of(program))
    searches = random.Random(name).sample(searches, min(MANY, len(searches)))
    panel = list(found_in_panel(program, searches))
    page = found_in_page(page, program, searches)
    for text, there, here in zip(searches, panel, page, strict=True):
        assert sorted(here) == sorted(there), text


def searches_of(program):
    """Words with and without a prefix that are in the program, whole and in part."""
    searched = Searched(Index(program), file_and_line)
    texts = {
        "prim": searched.columns["primitive"](),
        "name": searched.columns["name"](),
        "tag": searched.columns["tag"](),
        "source": searched.columns["source"](),
        "fn": searched.columns["function"](),
        "scope": searched.scopes,
        "": searched.columns["label"](),
        "shape": [type_ for types in searched.types for type_ in types],
    }
    for kind, column in texts.items():
        prefix = kind and f"{kind}:"
        for text in {text for text in column if text and '"' not in text}:
            yield from (f'{prefix}"{text}"', f'"{text}"', f'{prefix}"{text[:3]}"')
            yield f'{prefix}"{text[:2]}*"'
    for var, letter in searched.letters.items():
        yield f"{letter}:"
        yield f"dtype:{getattr(var.aval, 'dtype', 'f32')}"
    for row in searched.rows:
        yield from (row.address, f"{row.address}.0", f"{row.address.home}/*")
    for source in filter(None, searched.sources):
        yield from (f"line {source.line}", file_and_line(source).partition(" ")[0])
