"""The table of the questions that a panel asks. How to add one: docs/how-to/new-question.md."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.tabs import QuestionButton


class Question(NamedTuple):
    """A question: a function of taxpr that is given a function, then its arguments.

    Attributes:
        button: The text of the button.
        title: Its tooltip.
        function: The name of the function in `taxpr`.
        group: The words before the buttons of several questions.
        other: The function's argument beside the program, such as ``"op by op"``.
        needs: The things that the question needs: variables; a loss, which is a result and may be
            chosen; injectors, and then the other program is the one with them.
        of_function: Whether it is asked of the function, and not of its program, which has types.
        runs: Whether the program runs.
        compiles: Whether it does not run, but is compiled for the devices of its arguments.
        sentences: Whether a row of the answer has sentences, and not numbers.
    """

    button: str
    title: str
    function: str
    group: str = ""
    other: str = ""
    needs: Literal["", "variables", "loss", "injectors"] = ""
    of_function: bool = False
    runs: bool = True
    compiles: bool = False
    sentences: bool = False


_DIFFERENCE = "First difference from"

QUESTIONS: Mapping[str, Question] = {
    "find_nan": Question(
        "First NaN",
        "Where the first value comes from that is not finite",
        "find_nan",
        sentences=True,
    ),
    "flow": Question(
        "Sizes and gradients",
        "How large the values of a loss are, and the gradients that flow back to them",
        "flow",
        needs="loss",
    ),
    "check": Question(
        "Check",
        "What is suspicious in the program; nothing is run",
        "check",
        runs=False,
        sentences=True,
    ),
    "check_grad": Question(
        "Check gradients",
        "Which rule for a derivative is wrong, by finite differences",
        "check_grad",
        of_function=True,
    ),
    "summary": Question(
        "Summary",
        "What each function costs: parameters, FLOPs, bytes for the backward pass; nothing is run",
        "summary",
        runs=False,
    ),
    "memory": Question(
        "Memory",
        "What holds the memory where the program needs the most; it is compiled, and not run",
        "memory",
        runs=False,
        compiles=True,
    ),
    "profile": Question(
        "Time",
        "How long each statement takes, measured in some runs",
        "profile",
    ),
    "compiled": Question(
        "Compiled",
        "What XLA made of each statement; nothing is run",
        "compiled",
        runs=False,
        compiles=True,
    ),
    "compile_time": Question(
        "Compile time",
        "Which functions make lowering and compiling slow; nothing is run",
        "compile_time",
        runs=False,
        compiles=True,
    ),
    "injectors": Question(
        "with the changes",
        "Where the program with injectors and changed lines stops agreeing with the one without",
        "first_difference",
        _DIFFERENCE,
        needs="injectors",
    ),
    "op by op": Question(
        "op by op",
        "Where the compiled program stops agreeing with each equation run by itself",
        "first_difference",
        _DIFFERENCE,
        "op by op",
    ),
    "bfloat16": Question(
        "in bfloat16",
        "The values that lose most precision when all float arguments are cast to bfloat16",
        "first_difference",
        _DIFFERENCE,
        "bfloat16",
        of_function=True,
    ),
}


def question_of(name: str) -> Question:
    """An entry of the table."""
    if name not in QUESTIONS:
        raise PanelError(f"There is no question {name!r}, but {', '.join(map(repr, QUESTIONS))}.")
    return QUESTIONS[name]


def question_buttons() -> list[QuestionButton]:
    """The table as the browser gets it."""
    return [
        {
            "question": name,
            "group": one.group,
            "button": one.button,
            "title": one.title,
            "needs": one.needs,
            "sentences": one.sentences,
        }
        for name, one in QUESTIONS.items()
    ]
