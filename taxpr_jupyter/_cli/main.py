"""The commands `taxpr draw`, `taxpr text`, `taxpr source`, `taxpr check` and other questions."""

import argparse
import contextlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import jax

import taxpr
from taxpr_jupyter._cli.loaded import call_of, program_of
from taxpr_jupyter._draw import draw
from taxpr_jupyter._errors import one_line
from taxpr_jupyter._layout.layout import TIMEOUT
from taxpr_jupyter._lines.source import SourceRows
from taxpr_jupyter._model.kinds import DRAWN_KINDS
from taxpr_jupyter._output.drawing import Drawing
from taxpr_jupyter._states.trace_pure import unchanging
from taxpr_jupyter._tracing.tracebacks import users_frames
from taxpr_jupyter._tree.fold import BUDGET

MISTAKE, FAILED = 2, 1  # exit codes: a wrong command line; an error of the user's function

_ABOUT = "Draw JAX functions without running them."
_DRAW = """\
Draw a JAX function as a picture. The function is traced, as jax.jit would do it, and not run.

TARGET says where the function is: package.module:function, path/to/file.py:function, or
module:object.method. The current directory is on Python's path.
"""
_CHECK = """\
Say what is suspicious in a JAX function: floats that become wider unasked, large constants, what
nothing uses or is computed twice, and more. The function is traced and not run.

A comment  # taxpr: ignore[RULE]  switches a rule off for its line.

exit codes: 0 nothing was found, 1 something was, or the function could not be traced, 2 what was
asked for cannot be done.
"""
# Questions of `taxpr` that are asked of a function alone: what each is for, in short and whole.
_QUESTIONS = {
    "find_nan": (
        "find the first value that is not finite",
        "Run a call, and say which of its values first became NaN or infinite. Arguments that are "
        "given as types are random numbers, and zeros where they are no floats. Exits with 1 if a "
        "result is not finite.",
    ),
    "summary": (
        "say what each function costs",
        "Print the tree of the functions that are called, each with its calls, parameters, FLOPs "
        "and the bytes that a gradient keeps. The function is traced, and not run.",
    ),
    "memory": (
        "say what holds the memory",
        "Print what holds the memory of a call where it needs the most, by variable and line. The "
        "function is compiled, and not run.",
    ),
    "profile": (
        "measure how long each statement takes",
        "Print how long each statement of a call takes, measured in some runs. Arguments that are "
        "given as types are random numbers, and zeros where they are no floats.",
    ),
    "compiled": (
        "say what XLA made of each statement",
        "Print the kernels of the compiled call, and the values moved between devices, by "
        "variable and line. The function is compiled, and not run.",
    ),
    "compile_time": (
        "say what is slow to compile",
        "Print which functions make tracing, lowering and compiling slow. Nothing is run.",
    ),
}
_RUN = ("find_nan", "profile")  # questions that run the function
_EXAMPLES = """\
examples:
  A function of two arrays, as a picture:
    taxpr draw model.py:loss --args "f32[64,32] f32[8,64]" -o loss.svg

  Its gradient, as a page to walk through in a browser. The first argument is a dict:
    taxpr draw model.py:dict_loss --grad --args "{w: f32[64,32], b: f32[32]} f32[8,64]" -o grad.html

  Arguments made by a function of yours, which returns them as a tuple, or as (tuple, dict):
    taxpr draw model.py:loss --args-from model.py:example -o loss.png

arguments:
  Types with shapes: f32[8,16]  bf16[4]  i32[]  u8  bool[3]  key (of jax.random)
  Values:            0.5  3  True  None  'text'  (numbers are traced, texts are not)
  Containers:        (f32[3], f32[4])  [f32[3], f32[3]]  {w: f32[3], b: f32[]}
  Keyword arguments: rate=0.1
  Not traced:        --static rate   (or its position: --static 2)

exit codes: 0 written, 1 the function could not be traced (then what was traced until the error is
written), 2 what was asked for cannot be done.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: Its arguments; None means the process's.

    Returns:
        The exit code.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print("taxpr: stopped", file=sys.stderr)
        return 130
    except Exception as error:
        if options.traceback:
            traceback.print_exc()
        ours = isinstance(error, (taxpr.TaxprError, OSError))
        place = "" if ours else _place(error)
        print(f"taxpr: {one_line(error)}{place}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            if note.startswith("Hint: ") and not options.traceback:
                print(f"taxpr: {note}", file=sys.stderr)
        if not ours and not options.traceback:
            print("taxpr: --traceback shows where it comes from", file=sys.stderr)
        return MISTAKE if ours else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("taxpr", description=_ABOUT)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    draw = _command(commands, "draw", "draw a function as a picture", _DRAW, _draw)
    draw.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="the file to write: .svg, .png, .pdf, .html (to walk through), .dot or .txt",
    )
    draw.add_argument(
        "--budget",
        type=_positive(int),
        default=BUDGET,
        metavar="N",
        help="about how many nodes to show; two names of inputs or outputs count as one "
        "(%(default)s)",
    )
    for flag, what in (("--unfold", "open"), ("--fold", "closed")):
        draw.add_argument(
            flag,
            action="append",
            default=[],
            metavar="ADDRESS",
            help=f"draw this equation or group {what}, such as 3:scan; may be repeated",
        )
    draw.add_argument(
        "--heat",
        choices=DRAWN_KINDS,
        help="colour by operations, bytes moved, or as XLA has compiled it, not by kind",
    )
    draw.add_argument(
        "--paper",
        action="store_true",
        help="for papers and slides: larger type, no types, nothing counted in folded nodes",
    )
    draw.add_argument(
        "--width", metavar="LENGTH", help="the width on paper, such as 8.5cm, 85mm, 3.3in or 240pt"
    )
    draw.add_argument(
        "--types", action="store_true", default=None, help="with --paper: the types of values, too"
    )
    draw.add_argument(
        "--timeout",
        type=_positive(float),
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long the layout may take (%(default)g)",
    )
    about = "Print a function's equations as text, with the addresses that --unfold takes."
    text = _command(commands, "text", "print a function's equations", about, _text)
    about = "Print a function's source: types of variables, equations and FLOPs of each line."
    source = _command(commands, "source", "print a function's source with notes", about, _source)
    for command in (draw, text, source):
        command.add_argument(
            "--names",
            action="extend",
            type=_modules,
            metavar="MODULES",
            help="show functions of these libraries as if they were yours, such as brax,jax_md",
        )
    check = _command(commands, "check", "say what is suspicious in a function", _CHECK, _check)
    check.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="RULE",
        help="do not ask this rule, such as unrolled; may be repeated",
    )
    asked = [check]
    for question, (summary, about) in _QUESTIONS.items():
        name = question.replace("_", "-")
        asked.append(_command(commands, name, summary, about, _ask))
        asked[-1].set_defaults(question=question)
    for command in asked:
        command.add_argument("--json", action="store_true", help="print what was found as JSON")
    return parser


def _command(commands: Any, name: str, summary: str, about: str, run: Any) -> Any:
    command = commands.add_parser(
        name,
        help=summary,
        description=about,
        epilog=_EXAMPLES if name == "draw" else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("target", metavar="TARGET", help="where the function is")
    given = command.add_mutually_exclusive_group()
    given.add_argument(
        "--args", default="", metavar="ARGUMENTS", help='types of arguments: "f32[8,16] i32[8] 0.5"'
    )
    given.add_argument(
        "--args-from", metavar="TARGET", help="a function that returns the arguments, or a tuple"
    )
    command.add_argument(
        "--static",
        action="append",
        default=[],
        metavar="NAME",
        help="an argument that is not traced: its name, or its position from 0; may be repeated",
    )
    command.add_argument(
        "--grad", action="store_true", help="its gradient by the first argument instead"
    )
    command.add_argument(
        "--traceback", action="store_true", help="after an error, show where it comes from"
    )
    command.set_defaults(run=run)
    return command


def _positive(kind: Any) -> Any:
    def read(text: str) -> Any:
        number = kind(text)
        if not number > 0:
            raise ValueError(text)
        return number

    read.__name__ = f"positive {kind.__name__}"
    return read


def _modules(text: str) -> list[str]:
    modules = [one.strip() for one in text.split(",") if one.strip()]
    if not modules:
        raise ValueError(text)
    return modules


_modules.__name__ = "list of modules"  # what argparse says of a wrong one


def _draw(options: argparse.Namespace) -> int:
    drawing, error = _drawing(
        options,
        budget=options.budget,
        unfold=options.unfold,
        fold=options.fold,
        timeout=options.timeout,
        heat=options.heat,
        style="paper" if options.paper else "screen",
        width=options.width,
        types=options.types,
    )
    file = drawing.save(options.out)
    until = ", until an error" if error else ""
    print(f"{file}: {drawing.program.name}, {drawing.picture.counts}{until}")
    if drawing.note and not error:  # which is printed whole
        print(f"taxpr: {drawing.note}", file=sys.stderr)
    return _done(error)


def _text(options: argparse.Namespace) -> int:
    drawing, error = _drawing(options)
    _print(drawing.text())
    return _done(error)


def _source(options: argparse.Namespace) -> int:
    _print(SourceRows(program_of(options, names=options.names or True)).text())
    return 0


def _check(options: argparse.Namespace) -> int:
    with _own_prints(options):
        found = taxpr.check(program_of(options, names=None), ignore=options.ignore)()
    _answered(found, options)
    return int(bool(found))


def _ask(options: argparse.Namespace) -> int:
    with _own_prints(options):
        fun, args, kwargs = call_of(options, values=options.question in _RUN)
        found = getattr(taxpr, options.question)(fun)(*args, **kwargs)
        jax.effects_barrier()  # of `jax.debug.print`
    _answered(found, options)
    return int(options.question == "find_nan" and bool(found))


def _own_prints(options: argparse.Namespace) -> contextlib.AbstractContextManager[Any]:
    """Around the user's code: what it prints goes to stderr where stdout is JSON."""
    return contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()


def _answered(found: taxpr.questions.Answer, options: argparse.Namespace) -> None:
    _print(found.to_json().rstrip() if options.json else str(found))


def _print(text: str) -> None:
    """Print a text; half of a pair of surrogates, which no file takes, becomes a question mark."""
    print(text.encode(errors="replace").decode())


def _drawing(options: argparse.Namespace, **more: Any) -> tuple[Drawing, Exception | None]:
    """The drawing of a function, or of its program until an error, and the error."""
    try:
        return draw(program_of(options, unchanging(options.names)), **more), None
    except Exception as error:
        if taxpr.until_error(error) is None:
            raise
        return draw(error, **more), error


def _done(error: Exception | None) -> int:
    if error is not None:
        raise error
    return 0


def _place(error: BaseException) -> str:
    """The innermost line of the user's own code."""
    every = traceback.extract_tb(users_frames(error.__traceback__))
    frames = [one for one in every if not one.filename.startswith("<frozen ")]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
