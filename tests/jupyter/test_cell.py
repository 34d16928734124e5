"""Taking a cell apart: what is run, what is not called, and where its code stands."""

import ast

import pytest

from taxpr_jupyter import PanelError
from taxpr_jupyter._ipython.cell import CodePosition, run, run_to_call, transformed
from taxpr_jupyter._ipython.options import OPTIONS, split

PLACE = CodePosition("<cell>", 0)


class Shell:
    """The parts of a shell that are used here."""

    def __init__(self, **names):
        self.user_ns = self.user_global_ns = names

    def transform_ast(self, tree):
        return tree

    def transform_cell(self, cell):
        return cell.lstrip("\n")

    def compile(self, tree, filename, mode):
        return compile(tree, filename, mode)


def f(*args, **kwargs):
    raise AssertionError("it must not be called")


def call_of(source, **names):
    return run_to_call(source, Shell(f=f, **names), PLACE, magic="%%taxpr")


@pytest.mark.parametrize(
    ("source", "args", "kwargs", "text"),
    [
        ("f()", (), {}, "f()"),
        ("f(1, 2)", (1, 2), {}, "f(1, 2)"),
        ("f(*a, 3, *a)", (1, 2, 3, 1, 2), {}, "f(*a, 3, *a)"),
        ("f(1, k=2, **d, m=3)", (1,), {"k": 2, "d": 4, "m": 3}, "f(1, k=2, **d, m=3)"),
        ("f((y := 5), y)", (5, 5), {}, "f((y := 5), y)"),
        ("f(1);", (1,), {}, "f(1)"),
        ("f(1)  # comment", (1,), {}, "f(1)"),
        ("y = 2\nf(y)", (2,), {}, "f(y)"),
        ("f(1,\n  2)", (1, 2), {}, "f(1, 2)"),
        ("1; f(2)", (2,), {}, "f(2)"),
        ("f(i for i in a)", None, {}, "f((i for i in a))"),
    ],
)
def test_calls(source, args, kwargs, text):
    call = call_of(source, a=[1, 2], d={"d": 4})
    assert call.fun is f
    if args is None:
        assert [list(arg) for arg in call.args] == [[1, 2]]
        return
    assert (call.args, call.kwargs, call.text) == (args, kwargs, text)
    assert ast.parse(call.text)


def test_names_are_bound_as_in_a_cell():
    shell = Shell(f=f)
    run_to_call(
        "import math\ny = math.pi\ndef g():\n    return y\nf(g(), z := 1)",
        shell,
        PLACE,
        magic="%%taxpr",
    )
    assert {"math", "y", "g", "z"} <= set(shell.user_ns)
    assert not [name for name in shell.user_ns if "taxpr" in name]


def test_nothing_runs_when_there_is_no_call():
    shell = Shell()
    with pytest.raises(PanelError, match="is no call"):
        run_to_call("y = 1\ny + 1", shell, PLACE, magic="%%taxpr")
    assert "y" not in shell.user_ns


def test_an_argument_given_twice():
    with pytest.raises(PanelError, match="gives the argument `k` twice"):
        call_of("f(k=1, **{'k': 2})")


def test_lines():
    shell = Shell(f=f)
    place = CodePosition("<cell>", 4)
    run("def g():\n    return 1\n", shell, place)
    assert shell.user_ns["g"].__code__.co_firstlineno == 5
    assert shell.user_ns["g"].__code__.co_filename == "<cell>"
    with pytest.raises(ZeroDivisionError) as caught:
        run_to_call("\n\nf(1 / 0)", shell, place, magic="%%taxpr")
    assert caught.traceback[-1].lineno + 1 == 7
    with pytest.raises(SyntaxError) as broken:
        run("y = (", shell, place)
    assert (broken.value.filename, broken.value.lineno) == ("<cell>", 5)


def test_empty_lines_at_the_beginning_are_kept():
    assert transformed("\n\nf(1)\n", Shell()) == "\n\nf(1)\n"
    assert transformed("f(1)\n", Shell()) == "f(1)\n"
    assert transformed("\n", Shell()) == ""


@pytest.mark.parametrize(
    ("line", "words", "rest"),
    [
        ("", [], ""),
        ("f(x)", [], "f(x)"),
        ("--text f(x)", ["--text"], "f(x)"),
        ("--name p f(x, k=1)", ["--name=p"], "f(x, k=1)"),
        ("--name=p f(x)", ["--name=p"], "f(x)"),
        ("--unfold '3:scan' --budget 9", ["--unfold=3:scan", "--budget=9"], ""),
        ("""--text f("a  'b",  --x)""", ["--text"], """f("a  'b",  --x)"""),
        ("-f(x)", [], "-f(x)"),
    ],
)
def test_options(line, words, rest):
    assert split(line) == (words, rest)


def test_every_option_has_help():
    assert all(option.help and option.flag.startswith("--") for option in OPTIONS)
