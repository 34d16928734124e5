"""The command `taxpr`."""

import json
import re
import shlex
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, draw
from taxpr_jupyter._cli import main as _main
from taxpr_jupyter._cli.arguments import parse
from taxpr_jupyter._cli.main import main
from taxpr_jupyter._lines.source import SourceRows
from taxpr_jupyter._tree.fold import BUDGET

MODEL = """
import jax
import jax.numpy as jnp
import neighbour

def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)

def dict_loss(params, x, rate=1.0):
    hidden = jax.jit(lambda x: jnp.tanh(x @ params["w"]))(x)
    return jnp.mean((hidden + params["b"][None]) ** 2) * rate

def example():
    return jnp.ones((64, 32)), jnp.ones((8, 64))

def with_names():
    return (jnp.ones((64, 32)),), {"x": jnp.ones((8, 64))}

def wrong():
    return jnp.ones(3)

class Model:
    def apply(self, x):
        return jnp.sin(x)

    class Inner:
        bias = 1.0

model = Model()
table = {"a": 1}
traced = jax.make_jaxpr(jnp.sin)(1.0)

def bad(x):
    return x if x > 0 else -x

def options(x, name, budget):
    return x * budget

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "neighbour.py").write_text("HERE = True\n")
    (tmp_path / "broken.py").write_text("import not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("model", "neighbour", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in ("model", "neighbour", "broken"):
        sys.modules.pop(name, None)


LOSS = ["model.py:loss", "--args", "f32[64,32] f32[8,64]"]


@pytest.mark.parametrize("suffix", ["svg", "html", "dot", "txt"])
def test_it_writes_what_draw_writes(folder, capsys, suffix):
    assert main(["draw", *LOSS, "-o", f"out.{suffix}"]) == 0
    assert capsys.readouterr().out == f"out.{suffix}: loss, 5 equations\n"
    from model import loss

    shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((64, 32), (8, 64))]
    expected = draw(loss, *shapes).save(folder / f"expected.{suffix}").read_bytes()
    assert (folder / f"out.{suffix}").read_bytes() == expected


EXAMPLES = re.findall(r"^    (taxpr draw .*)$", _main._EXAMPLES, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_help_work(folder, capsys, example):
    _, *argv = shlex.split(example)
    assert main(argv) == 0
    file = argv[-1]
    assert (folder / file).stat().st_size > 1000
    assert capsys.readouterr().out.startswith(f"{file}: ")


def test_there_are_three_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.slow
def test_as_a_command(folder):
    command = [sys.executable, "-m", "taxpr_jupyter", "draw", *LOSS, "-o", "out.dot"]
    import taxpr

    env = {"PYTHONPATH": taxpr.__file__.rpartition("/taxpr/")[0], "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=200)
    assert (run.returncode, run.stdout) == (0, "out.dot: loss, 5 equations\n"), run.stderr
    wrong = subprocess.run([*command[:-1], "x.gif"], capture_output=True, text=True, env=env)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert "Traceback" not in wrong.stderr


def test_the_help_says_what_a_newcomer_needs(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["draw", "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    for words in (".html", "path/to/file.py:function", "examples:", "exit codes", "f32[8,16]"):
        assert words in said
    assert f"({BUDGET})" in said


def test_on_paper(folder, capsys):
    paper = ["--paper", "--width", "8.5cm", "--types"]
    assert main(["draw", *LOSS, *paper, "-o", "out.svg"]) == 0
    from model import loss

    shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((64, 32), (8, 64))]
    expected = draw(loss, *shapes, style="paper", width="8.5cm", types=True)
    assert (folder / "out.svg").read_text() == expected.save(folder / "expected.svg").read_text()
    assert main(["draw", *LOSS, *paper[1:], "-o", "out.svg"]) == 2
    assert "is for pictures on paper" in capsys.readouterr().err


def test_a_library_as_if_it_were_yours(folder, capsys, monkeypatch):
    site = folder / "site-packages"
    site.mkdir()
    (site / "lib_of_cli.py").write_text(
        "import jax.numpy as jnp\ndef attend(x):\n    scores = jnp.sin(x)\n    return scores * 2\n"
    )
    (site / "other_of_cli.py").write_text("def scale(x):\n    factor = x + 1\n    return factor\n")
    (folder / "mine.py").write_text(
        "import lib_of_cli, other_of_cli\n"
        "def f(x):\n    y = lib_of_cli.attend(x)\n    return other_of_cli.scale(y)\n"
    )
    monkeypatch.syspath_prepend(site)
    call = ["mine.py:f", "--args", "f32[3]"]
    for command in (["text"], ["draw", "-o", "out.dot"]):
        assert main([*command, *call]) == 0
    without = capsys.readouterr().out + (folder / "out.dot").read_text()
    assert "scores" not in without
    names = ["--names", "lib_of_cli,", "--names=other_of_cli"]
    assert main(["text", *call, *names]) == 0
    assert {"scores", "factor"} <= set(capsys.readouterr().out.split())
    assert main(["draw", *call, *names, "-o", "out.dot"]) == 0
    assert "scores: f32[3]" in (folder / "out.dot").read_text()
    assert main(["source", *call]) == 0
    assert "scores" not in capsys.readouterr().out
    assert main(["source", *call, *names]) == 0
    assert "scores" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["text", *call, "--names", ","])
    assert "invalid list of modules value: ','" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "arguments", "name"),
    [
        ("model:loss", ["--args-from", "model:example"], "loss"),
        ("model:loss", ["--args-from", "model:with_names"], "loss"),
        ("model.py:model.apply", ["--args", "f32[3]"], "apply"),
        ("model:model.apply", ["--args", "x=f32[3]"], "apply"),
        (
            "model:dict_loss",
            ["--args", "{w: f32[4,3], 'b': f32[3]}, f32[2,4], rate=2"],
            "dict_loss",
        ),
        ("model:options", ["--args", "f32[] 'text' budget=2.0"], "options"),
        ("model:traced", [], "jaxpr"),
        ("jax.numpy:sin", ["--args", "f32"], "sin"),
    ],
)
def test_targets_and_arguments(folder, capsys, target, arguments, name):
    assert main(["draw", target, *arguments, "-o", "out.dot"]) == 0
    assert capsys.readouterr().out.startswith(f"out.dot: {name}, ")


@pytest.mark.parametrize("how", ["--static=shape", "--static=1"])
def test_a_static_argument(folder, capsys, how):
    (folder / "model.py").write_text(
        "import jax.numpy as jnp\ndef grid(x, shape):\n    return jnp.broadcast_to(x, shape)\n"
    )
    given = ["--args", "f32[] (2,3)" if how[-1] == "1" else "f32[] shape=(2,3)"]
    if how[-1] == "1":
        assert main(["text", "model:grid", *given]) == 1
        assert "or `static_argnames='NAME'` of `draw` and" in capsys.readouterr().err
    else:
        how = "--static=shape"
    assert main(["text", "model:grid", *given, how]) == 0
    assert "f32[2,3] = broadcast_in_dim" in capsys.readouterr().out


def test_a_function_and_its_arguments_of_one_file_share_its_classes(folder, capsys):
    (folder / "pairs.py").write_text(
        "import typing\n"
        "class Pair(typing.NamedTuple):\n    a: float\n    b: float\n"
        "def add(pair):\n    assert isinstance(pair, Pair)\n    return pair.a + pair.b\n"
        "def example():\n    return (Pair(1.0, 2.0),)\n"
    )
    assert main(["text", "pairs.py:add", "--args-from", "pairs.py:example"]) == 0
    assert capsys.readouterr().out.startswith("add: 1 equation")


def test_grad(folder, capsys):
    assert main(["text", *LOSS, "--grad"]) == 0
    from model import loss

    shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((64, 32), (8, 64))]
    assert capsys.readouterr().out == draw(jax.grad(loss), *shapes).text() + "\n"


def test_what_is_open(folder, capsys):
    call = ["model:dict_loss", "--args", "{w: f32[4,3], b: f32[3]} f32[2,4]", "-o", "out.dot"]
    assert main(["draw", *call, "--fold", "0:jit"]) == 0
    assert "2 of them folded" in capsys.readouterr().out
    assert main(["draw", *call, "--fold", "0:jit", "--unfold", "0:jit"]) == 0
    assert main(["draw", *call, "--budget", "1", "--timeout", "5.5"]) == 0
    assert "folded" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("argv", "message", "code"),
    [
        (["model"], r"'model' names no function. Write package.module:function, path", 2),
        (["nothing:f"], r"There is no module 'nothing' on Python's path or in ", 2),
        (["model.nothing:f"], r"There is no module 'model.nothing'|'model' is not a package", 2),
        (["nothing.py:f"], r"There is no file nothing.py", 2),
        (["model:nothing"], r"The module model has no 'nothing'. It has loss, dict_loss, exam", 2),
        (["model:dict_lss"], r"has no 'dict_lss'. It has dict_loss, loss, example, with_names,", 2),
        (["jax.numpy:sinn"], r"has no 'sinn'. It has sin, .*, …$", 2),
        (
            [*LOSS, "--unfold", "99:scan"],
            r"99:scan holds nothing .* closed. Nothing in the pict",
            2,
        ),
        (
            ["model:dict_loss", "--args", "{w: f32[4,3], b: f32[3]} f32[2,4]", "--unfold", "9:jit"],
            r"9:jit holds nothing that could be drawn open or closed. These do: 0:jit$",
            2,
        ),
        (["model:model.nothing"], r"Model has no 'nothing'", 2),
        (["model:table"], r"`\{'a': 1\}` cannot be called", 2),
        (
            ["broken:f"],
            r"ModuleNotFoundError: No module named 'not_there_at_all' \(.*broken.py:1",
            1,
        ),
        (
            ["model:loss", "--args", "f32[3"],
            r"The argument 'f32\[3' cannot be read. Write types",
            2,
        ),
        (["model:loss", "--args", "f31[3]"], r"'f31' in the argument 'f31\[3\]' is no type", 2),
        (["model:loss", "--args", "f32[n]"], r"In the argument 'f32\[n\]' a size is no number", 2),
        (
            ["model:loss", "--args-from", "model:wrong"],
            r"model:wrong gives an Array.*: return the arg",
            2,
        ),
        (["model:loss", "--args-from", "model:number"], r"model:number gives an int: return", 2),
        (["model:traced", "--args", "f32"], r"model:traced is traced already: it takes no arg", 2),
        (
            ["model:loss"],
            r"model:loss: missing a required argument: 'w'. It is loss\(w, x\), "
            r'and given are 0 by position: write --args "f32.*, or --args-from a function that '
            r"returns them$",
            2,
        ),
        (
            ["model:loss", "--args", "f32[3] rate=0.1", "--grad"],
            r"model:loss: .*It is loss\(w, x\), and given are 1 by position, rate=: write --args",
            2,
        ),
        (["model:bad", "--args", "f32"], r"TracerBoolConversionError: .*model.py:34\)$", 1),
        (["model:loss", "--args", "f32[2,2] f32[3,3]"], r"dot_general requires .*model.py:7\)", 1),
        ([*LOSS, "--fold", "7:scan"], r"7:scan holds nothing that could be drawn open or clos", 2),
        ([*LOSS, "-o", "out.gif"], r"out.gif cannot be written: the name must end in .svg", 2),
        (
            [*LOSS, "-o", "no/where.dot"],
            r"no/where.dot cannot be written: there is no folder no. Make it first$",
            2,
        ),
        (
            [*LOSS, "--timeout", "1e-300", "-o", "a.svg"],
            r"No picture: the layout took longer than",
            2,
        ),
    ],
)
def test_mistakes_are_one_line(folder, capsys, argv, message, code):
    assert main(["draw", "-o", "out.dot", *argv]) == code
    captured = capsys.readouterr()
    drawn = "equation" in captured.out
    assert drawn == message.startswith(("TracerBool", "dot_general"))
    first, *more = captured.err.splitlines()
    assert first.startswith("taxpr: ")
    assert re.search(message, first)
    hints = [line for line in more if line.startswith("taxpr: Hint: ")]
    assert bool(hints) == (code == 1 and "broken" not in argv[0])
    rest = more[len(hints) :]
    assert rest == (["taxpr: --traceback shows where it comes from"] if code == 1 else [])
    assert len(list(folder.glob("out.*"))) == drawn


def test_a_text_where_an_array_is_needed(folder, capsys):
    assert main(["draw", "model:loss", "--args", "'x' f32[8,64]", "-o", "out.dot"]) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert "loss was given w='x', which is no array, so the function got it as it is." in first


def test_the_source_tells_what_became_of_each_line(folder, capsys):
    assert main(["source", "model:loss", "--args", "f32[64,32] f32[8,64]", "--grad"]) == 0
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert title == "# model.py"
    assert head.split("#")[1] == " w: f32[64,32] · x: f32[8,64]"
    assert "return jnp.mean(jnp.tanh(x @ w) ** 2)  # " in lines[0]
    assert re.search(r"\d+ equations · ∂ \d+ · 100% of FLOPs$", lines[0])
    assert main(["source", "model:loss", "--args", "f32[64,32]"]) == 2


def test_no_line_has_a_share_where_a_loop_runs_nobody_knows_how_often():
    def halved(x):
        y = jnp.sin(x)
        return jax.lax.while_loop(lambda c: c > 1, lambda c: c / 2, y)

    text = SourceRows(taxpr.trace(halved)(8.0)).text()
    assert "in a loop" in text
    assert not re.search(r"\d% of FLOPs", text)


def test_a_traceback_for_those_who_ask(folder, capsys):
    assert main(["draw", "model:bad", "--args", "f32", "-o", "out.dot", "--traceback"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [[], ["draw"], ["draw", "model:loss"], ["draw", "m:f", "-o", "a.svg", "--budget", "0"]]
)
def test_wrong_options(capsys, argv):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage: taxpr" in capsys.readouterr().err


def described(value):
    return jax.tree.map(lambda a: f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else a, value)


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("", (), {}),
        ("f32[8,16] i32[8] 0.5", ("float32[8, 16]", "int32[8]", 0.5), {}),
        ("f32[8, 16],i32[] , -1", ("float32[8, 16]", "int32[]", -1), {}),
        ("bf16 bool[2] pred u8[3] c64[1]", None, {}),
        ("(f32[3], [i32[2], 1]) {'a b': f32[2]}", None, {}),
        ("{w: f32[3], n: {b: i8[]}}", ({"w": "float32[3]", "n": {"b": "int8[]"}},), {}),
        ("x=f32[3] y='a b, c'", (), {"x": "float32[3]", "y": "a b, c"}),
        ("True None 'a=b'", (True, None, "a=b"), {}),
        ("float32[2] int8[1]", ("float32[2]", "int8[1]"), {}),
        ("() []", ((), []), {}),
    ],
)
def test_arguments(text, args, kwargs):
    got = parse(text)
    if args is not None:
        assert described(got[0]) == args
    else:
        assert len(got[0]) >= 2
    assert described(got[1]) == kwargs


def test_a_key_can_be_used():
    (key,), _ = parse("key")
    drawing = draw(lambda key: jax.random.normal(key, (3,)), key)
    assert drawing.program.out_avals[0].shape == (3,)
    assert parse("key[4]")[0][0].shape == (4,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", "cannot be read"),
        ("f32[3].shape", "cannot be read"),
        ("f32[3:4]", "a size is no number"),
        ("{**a}", "a key is no name"),
        ("x=1 f32", "f32 comes after x=…: keyword arguments last"),
        ("x=1 x=2", "The argument x is given twice"),
        ("-f32", "cannot be read"),
        ("b'bytes'", "cannot be read"),
        ("1 +", "cannot be read"),
    ],
)
def test_arguments_that_cannot_be_read(text, message):
    with pytest.raises(PanelError, match=re.escape(message)):
        parse(text)


def test_what_jax_would_shorten_is_refused():
    if jax.config.jax_enable_x64:
        pytest.skip("nothing is shortened")
    with pytest.raises(PanelError, match=r"JAX makes float32 of f64 unless .* JAX_ENABLE_X64=1"):
        parse("f64[3]")
    assert parse("0.5")[0] == (np.float64(0.5),)


def test_check_exits_with_1_where_something_was_found(folder, capsys):
    (folder / "suspicious.py").write_text("def loss(x, y):\n    return x * 2\n")
    call = ["check", "suspicious.py:loss", "--args", "f32[3] f32[3]"]
    assert main(call) == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "check of loss: 1 finding\nsuspicious.py:1: unused: The argument y is not"
    )
    assert main([*call, "--json"]) == 1
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert (row["rule"], row["line"], row["variable"]) == ("unused", "suspicious.py:1", "y")
    assert main([*call, "--ignore", "unused"]) == 0
    assert main(["check", *LOSS, "--grad"]) == 0
    assert main([*call, "--ignore", "unusd"]) == 2
    assert "there is no rule 'unusd'" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["summary", "memory", "compiled", "compile-time", "profile"])
def test_other_questions_are_asked_of_the_call(folder, capsys, question):
    assert main([question, *LOSS, "--grad", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["headline"].startswith(f"{question.replace('-', ' ')} ")
    assert any("tanh(x @ w)" in row["code"] for row in found["rows"])
    assert main([question, *LOSS]) == 0
    assert capsys.readouterr().out.startswith(f"{question.replace('-', ' ')} ")


def test_find_nan_runs_the_call_and_exits_with_1_if_it_finds_one(folder, capsys):
    (folder / "roots.py").write_text(
        "import jax.numpy as jnp\n"
        "def f(x, n):\n    root = jnp.sqrt(x - 1.0)\n    return root.sum() * n\n"
        "def below():\n    return jnp.zeros(3), 2\n"
        "def above():\n    return jnp.full(3, 4.0), 2\n"
    )
    call = ["find-nan", "roots.py:f", "--args-from"]
    assert main([*call, "roots.py:below"]) == 1
    assert capsys.readouterr().out.startswith("find_nan of f: NaN in root (roots.py:3)")
    assert main([*call, "roots.py:above"]) == 0
    assert capsys.readouterr().out.startswith("find_nan of f: ")
    assert main(["find-nan", "roots.py:f", "--args", "f32[50] 2", "--json"]) == 1  # normal numbers
    assert [row["variable"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["root"]


@pytest.mark.parametrize("question", ["check", "memory", "profile"])
def test_json_is_alone_in_the_output(folder, capsys, question):
    (folder / "printing.py").write_text(
        "import jax, jax.numpy as jnp\n"
        'print("imported")\n'
        "def f(x):\n"
        '    print("traced")\n'
        '    jax.debug.print("ran {}", x)\n'
        "    return jnp.sin(x)\n"
    )
    sys.modules.pop("printing", None)
    main([question, "printing.py:f", "--args", "f32[3]", "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out)["headline"].startswith(f"{question} of f: ")
    assert "imported" in err
    assert "traced" in err
    assert ("ran [" in err) == (question == "profile")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("notes.txt:f", "notes.txt is no file of Python"),
        ("broken.py:f", "SyntaxError: '{' was never closed (broken.py, line 2)"),
        ("model.py:Model", "Model is a class: its object is no array"),
    ],
)
def test_what_cannot_be_asked(folder, capsys, target, message):
    (folder / "notes.txt").write_text("no Python {{{")
    (folder / "broken.py").write_text("a = 1\nb = {\n")
    assert main(["memory", target]) != 0
    said = capsys.readouterr().err
    assert message in said
    assert "importlib" not in said


def test_a_question_takes_what_trace_takes(folder, capsys):
    (folder / "asked.py").write_text(
        "import jax, jax.numpy as jnp, taxpr\n"
        "def power(x, k, n):\n"
        "    for _ in range(n):\n"
        "        y = x @ x + jax.random.normal(k, x.shape)\n"
        "    return y\n"
        "program = taxpr.trace(lambda x: jnp.sin(x) * 2, names=True)(jnp.ones((2, 3)))\n"
    )
    call = ["profile", "asked.py:power", "--args", "f32[64,64] key 2", "--static", "n", "--json"]
    assert main(call) == 0
    assert {row["variable"] for row in json.loads(capsys.readouterr().out)["rows"]} >= {"y"}
    assert main(["compiled", "asked.py:program"]) == 0
    assert "compiled <lambda> for cpu: 1 kernel," in capsys.readouterr().out
    assert main(["memory", "asked.py:program", "--args", "f32[3]"]) == 2
    assert "is traced already" in capsys.readouterr().err
