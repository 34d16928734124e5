"""The selected node, its values, and the injector there."""

from typing import Literal, TypedDict

Facts = list[tuple[str, str]]


class Empty(TypedDict):
    """Nothing to show."""


class Tag(TypedDict):
    address: str
    name: str
    type: str
    where: str
    added: bool
    injector: str


class ChosenValue(TypedDict):
    """One of several selected values; ``tag`` and ``injector`` are empty without one."""

    address: str
    text: str
    tag: str
    injector: str


class Several(TypedDict):
    """What is selected, if it is more than one place; ``more`` values are not sent.

    ``elements`` are the nodes of the picture that have something of it in them.
    ``bare`` values have no tag, ``added`` ones a tag that was added, ``injected`` ones an injector.
    """

    title: str
    note: str
    values: list[ChosenValue]
    more: int
    elements: list[str]
    bare: int
    added: int
    injected: int
    injectors: list[str]


class NodeValue(TypedDict):
    address: str
    text: str
    tag: Tag | None
    refused: str


class SelectedNode(TypedDict):
    address: str
    title: str
    kind: str
    facts: Facts
    inputs: list[str]
    outputs: list[str]
    values: list[NodeValue]
    source: str
    line: str
    valueSource: str
    valueLine: str
    addedBy: str
    scope: str
    cost: list[str]
    tag: Tag | None
    tagParams: Facts
    toggle: Literal["", "fold", "unfold"]
    note: str


class Param(TypedDict):
    """A parameter of an injector; ``last`` is the slider's last position, from 0."""

    name: str
    help: str
    text: str
    mistake: str
    flag: bool
    position: int
    last: int


class InOrder(TypedDict):
    """One of several injectors of a tag."""

    text: str
    on: bool


class Controls(TypedDict):
    """The injector at the selected value, and the places where one can be.

    ``line`` is the line of Python that was typed for it, or empty; ``off`` whether it is switched
    off. ``several`` are its injectors in order, if they are more than one.
    """

    address: str
    places: Facts
    injectors: list[str]
    injector: str
    line: str
    off: bool
    several: list[InOrder]
    doc: str
    note: str
    failure: str
    fields: list[Param]
