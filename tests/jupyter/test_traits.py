"""What goes between Python and the browser is what is declared."""

import re
import typing
from pathlib import Path

import pytest

from taxpr_jupyter._messages.panel_traits import Traits
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._view.graph import Graph

VIEW = Path(__file__).resolve().parents[2] / "taxpr_jupyter" / "_view"


def sent():
    """The names of all messages that the browser can send."""
    for message in typing.get_args(Message):
        yield from typing.get_args(typing.get_type_hints(message)["do"])


def test_each_trait_is_declared():
    own = set(Graph.class_traits(sync=True)) - set(Graph.__mro__[1].class_traits(sync=True))
    declared = set(typing.get_type_hints(Traits))
    assert own == declared, f"in Graph or in Traits alone: {sorted(own ^ declared)}"


@pytest.mark.parametrize("do", sorted(set(sent())))
def test_each_message_is_sent_and_handled(do):
    scripts = "".join(file.read_text("utf-8") for file in VIEW.glob("static/*.js"))
    modules = "".join(file.read_text("utf-8") for file in VIEW.rglob("*.py"))
    sent, taken = rf'\bdo: [^,}}]*"{do}"', rf'case {{\s*"do": [^,}}]*"{do}"'
    assert re.search(sent, scripts), f"no module in _view/static sends {{do: {do!r}}}"
    assert re.search(taken, modules), f"no `handle` in _view has a case for {{do: {do!r}}}"
