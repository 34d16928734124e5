"""What goes between Python and the browser is what is declared."""

import re
import threading
import typing
from pathlib import Path

import pytest
import traitlets
from declared import is_declared, why_not

from taxpr_jupyter._messages.panel_traits import Traits
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._view.graph import Graph

VIEW = Path(__file__).resolve().parents[2] / "taxpr_jupyter" / "_view"


def sent():
    """The names of all messages that the browser can send."""
    for message in typing.get_args(Message):
        yield from typing.get_args(typing.get_type_hints(message)["do"])


@pytest.mark.parametrize("name", typing.get_type_hints(Traits))
def test_each_trait_is_sent_and_has_its_type_from_the_start(name):
    graph, hint = Graph(threading.RLock()), typing.get_type_hints(Traits)[name]
    sent = graph.get_state()[name]
    assert is_declared(getattr(graph, name), hint), why_not(sent, hint)


def test_a_trait_refuses_what_is_of_another_type():
    graph = Graph(threading.RLock())
    assert graph.view == "picture"
    for name, wrong in {
        "view": "pictures",
        "svg": 1,
        "tags": {},
        "rows": [],
        "live": "yes",
    }.items():
        with pytest.raises(traitlets.TraitError):
            setattr(graph, name, wrong)


@pytest.mark.parametrize("do", sorted(set(sent())))
def test_each_message_is_sent_and_handled(do):
    scripts = "".join(file.read_text("utf-8") for file in VIEW.glob("static/*.js"))
    modules = "".join(file.read_text("utf-8") for file in VIEW.rglob("*.py"))
    sent, taken = rf'\bdo: [^,}}]*"{do}"', rf'case {{\s*"do": [^,}}]*"{do}"'
    assert re.search(sent, scripts), f"no module in _view/static sends {{do: {do!r}}}"
    assert re.search(taken, modules), f"no `handle` in _view has a case for {{do: {do!r}}}"
