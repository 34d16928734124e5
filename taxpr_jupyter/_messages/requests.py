"""Requests of a browser to the panel."""

from typing import Literal, NotRequired, TypedDict


class Plain(TypedDict):
    """A request without data."""

    do: Literal["cancel", "shown", "gone", "only", "all", "writeStates", "undo", "redo", "choose"]


class At(TypedDict):
    """A request about an address, an expression, or a name: of a state, a view, a kind of heat.

    A line of source is called by its file and number: ``model.py:12``.
    """

    do: Literal[
        "untag",
        "fold",
        "unfold",
        "toggle",
        "heat",
        "place",
        "upstream",
        "downstream",
        "line",
        "unedit",
        "reveal",
        "keepState",
        "resetState",
        "watch",
        "unwatch",
        "keepView",
        "view",
        "dropView",
        "watchExpression",
        "unwatchExpression",
    ]
    address: str


class AddTag(TypedDict):
    """Tags a value; without a name if it is empty."""

    do: Literal["tag"]
    address: str
    name: str


class Attach(TypedDict):
    """Attaches an injector, or one more; removes all if the name is empty."""

    do: Literal["attach", "append"]
    address: str
    injector: str


class Switch(TypedDict):
    """Switches an injector on or off, or one of several, by its number from 0."""

    do: Literal["switch"]
    address: str
    on: bool
    part: NotRequired[int]


class Arrange(TypedDict):
    """Puts the injectors of a tag in another order; those that are not named are removed."""

    do: Literal["arrange"]
    address: str
    order: list[int]


class TagSeveral(TypedDict):
    """Tags all values at these places, or removes their tags."""

    do: Literal["tagAll", "untagAll"]
    addresses: list[str]


class AttachSeveral(TypedDict):
    """Attaches an injector to all values at these places; removes theirs if the name is empty."""

    do: Literal["attachAll"]
    addresses: list[str]
    injector: str


class SetText(TypedDict):
    """Sets a parameter to a typed text."""

    do: Literal["value"]
    address: str
    param: str
    text: str


class SetPosition(TypedDict):
    """Sets a parameter to a position of its slider.

    Undo takes back all positions in a row with the same number of their drag.
    """

    do: Literal["value"]
    address: str
    param: str
    position: int
    drag: int


class SetState(TypedDict):
    """Sets the initial value of an array of a state to a typed text."""

    do: Literal["state"]
    address: str
    value: str


class Find(TypedDict):
    """Searches, and goes on by so many hits; "enter" selects all hits of a selector in Python."""

    do: Literal["find", "enter"]
    text: str
    step: int


class Between(TypedDict):
    """Shows the paths between two places."""

    do: Literal["between"]
    address: str
    to: str


class ToggleBoth(TypedDict):
    """Opens or closes something in both programs of the comparison."""

    do: Literal["toggleBoth"]
    address: str
    side: Literal["before", "after"]


class StartRun(TypedDict):
    do: Literal["run"]
    device: str


class OfRun(TypedDict):
    """Shows a run next to the one with the number ``against``, or the untouched program if it is 0.

    Or gives the session again what it had in this run.
    """

    do: Literal["showRun", "restoreRun"]
    run: int
    against: int


class NameRun(TypedDict):
    """Gives a run a name."""

    do: Literal["nameRun"]
    run: int
    name: str


class ShowTable(TypedDict):
    """Shows the table of runs from now on, or no longer."""

    do: Literal["runTable"]
    open: bool


class AskValues(TypedDict):
    """Shows what variables held, recording it first where that is not done.

    In one iteration of the outermost loops, and for one example of the outermost `jax.vmap`; -1
    means all. With the changes of the session, or without them; and with cotangents.
    """

    do: Literal["record"]
    iteration: int
    example: int
    injectors: bool
    cotangents: bool


class EditLine(TypedDict):
    """Replaces the right-hand side of a line of the source."""

    do: Literal["edit"]
    address: str
    text: str


class Ask(TypedDict):
    """Asks a question of the program."""

    do: Literal["ask"]
    question: str
    of: NotRequired[str]  # the result whose gradients are asked for, if it is not the first one


Message = (
    Plain
    | At
    | AddTag
    | Attach
    | Switch
    | Arrange
    | TagSeveral
    | AttachSeveral
    | SetText
    | SetPosition
    | SetState
    | Find
    | Between
    | ToggleBoth
    | StartRun
    | OfRun
    | NameRun
    | ShowTable
    | AskValues
    | EditLine
    | Ask
)


# Comes with each message: the name of the page, and the message's number there.
Numbered = TypedDict("Numbered", {"from": str, "number": int})
