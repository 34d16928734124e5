"""What the user is told when something goes wrong: one clear message, checked by its text."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jupyter_samples import XS, H, W, nested

import taxpr
from taxpr_jupyter import PanelError, Session, compare, draw, panel
from taxpr_jupyter._text.hints import hint


def double(ctx, token, params):
    return token * 2.0, ctx


# ---- mistakes in a cell ----------------------------------------------------------


@pytest.mark.spread(18)
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%taxpr\nx + 1", r"`x \+ 1` is no call, and taxpr traces one call of a function"),
        ("%taxpr x", r"`x` is no call.*`%taxpr f\(x\)`"),
        ("%taxpr", r"There is no call to trace. End the cell with a call such as `f\(x\)`"),
        ("%%taxpr\n# nothing", r"There is no call to trace"),
        ("%%taxpr\ny = f(x)", r"The cell ends with an assignment, not with a call"),
        ("%%taxpr\nwith open('/dev/null'):\n    pass", r"ends with a statement \(with\)"),
        ("%%taxpr\ndef g():\n    pass", r"ends with a statement \(function definition\)"),
        ("%%taxpr\nfor i in x:\n    f(i)", r"ends with a statement \(for\)"),
        (
            "%taxpr blah",
            r"knows no word 'blah'. .* one of its words: tag, inject, edit, watch, run",
        ),
        ("%taxpr injct h scale", r"knows no word 'injct'. .* one of its words: inject, tag, "),
        ("%taxpr --nme p f(x)", r"Unknown option --nme: did you mean --name\? The options are --n"),
        ("%taxpr --q f(x)", r"Unknown option --q: The options are --name, --names, --text, "),
        ("%taxpr --name", r"--name needs a value: --name NAME"),
        ("%taxpr --text=1 f(x)", r"--text takes no value"),
        ("%taxpr --budget many f(x)", r"argument --budget: invalid int value: 'many'"),
        ("%taxpr --name 3x f(x)", r"--name needs the name of a variable, not '3x'"),
        ("%taxpr --name for f(x)", r"--name needs the name of a variable, not 'for'"),
        ("%taxpr --device gpu:9 f(x)", r"There is no device 'gpu:9'. There are cpu:0"),
        ("%taxpr --static q f(x)", r"There is no argument 'q' to be static; given are x"),
        ("%taxpr --static 3 f(x)", r"no positional argument 3 to be static; the call has 1"),
        ("%taxpr 3(x)", r"`3` cannot be called, so there is nothing to trace"),
        ("%taxpr --static x f([x])", r"The argument x is static and must be hashable, but is a l"),
        ("%taxpr f(x=1, **{'x': 2})", r"The call gives the argument `x` twice"),
    ],
)
def test_one_line_for_each_mistake(notebook, cell, message):
    notebook.good("def f(x):\n    return taxpr.tag(x, name='h')\nx = jnp.ones(2)")
    session = notebook.good("%taxpr --name kept f(x)")
    session.attach("h", "scale", factor=0.5)
    found = notebook.run(cell)
    assert isinstance(found.error, PanelError), found.shown
    assert re.search(message, str(found.error))
    assert found.shown.strip() == f"PanelError: {found.error}"
    assert "\n" not in str(found.error)
    # Nothing is lost, and the kernel goes on.
    assert notebook.names["kept"] is session
    assert notebook.good("kept.run().ok")


def test_wrong_arguments_are_told_with_the_signature(notebook):
    notebook.good("def f(x):\n    return x")
    found = notebook.run("%taxpr f()")
    assert isinstance(found.error, TypeError)
    *_, message, hint = filter(None, found.shown.splitlines())  # IPython 7 has an empty one between
    assert "f(x) was called with other arguments: missing a required argument: 'x'" in message
    assert hint.startswith("Hint: f takes (x). Give an example of each argument")
    assert "Traceback" not in found.shown


# ---- functions that fail while they are traced -------------------------------------


def _static(x, n):
    return jax.jit(lambda x, n: x * n, static_argnums=1)(x, n)


CASES = [
    (lambda x: x if x > 0 else -x, (1.0,), "jax.lax.cond"),
    (lambda x: np.sin(x), (1.0,), "function of the same name from `jax.numpy`"),
    (lambda n: [0 for _ in range(n)], (3,), "jax.lax.fori_loop"),
    (lambda n: jnp.zeros(n), (3,), "A shape must be known while tracing"),
    (lambda x: float(x), (1.0,), "Python needs a known one"),
    (lambda x: x[x > 0], (jnp.ones(3),), "jnp.where(mask, x, 0)"),
    (_static, (1.0, 2), "numbers are traced unless told otherwise"),
    (jax.vmap(_static, (None, 0)), (1.0, jnp.arange(2)), "`jax.vmap` maps over an argument"),
    (
        lambda x: jax.jit(lambda x, n: x, static_argnums=1)(x, [1]),
        (1.0,),
        "must be hashable: pass a tuple",
    ),
    (lambda x, y: x + y, (jnp.ones(3), jnp.ones(4)), "Two shapes do not fit"),
    (lambda x, y: x @ y, (jnp.ones((2, 3)), jnp.ones((2, 3))), "Two shapes do not fit"),
    (lambda x: x.reshape(2, 2), (jnp.ones(3),), "Two shapes do not fit"),
    (
        lambda x: jax.lax.scan(lambda c, _: (jnp.stack([c, c]), c), x, None, length=2),
        (1.0,),
        "shape and dtype of the carry it gets",
    ),
    (
        lambda x: jax.lax.while_loop(lambda c: True, lambda c: (c, c), x),
        (1.0,),
        "shape and dtype of the carry it gets",
    ),
    (
        lambda x: jax.lax.cond(True, lambda x: x, lambda x: (x, x), x),
        (1.0,),
        "All branches must return the same structure",
    ),
    (lambda x: object(), (1.0,), "takes and returns arrays and numbers"),
    (lambda x: jax.jit(lambda x, how: x)(x, "add"), (1.0,), "static_argnames='NAME'"),
    (lambda x: jnp.sum([x, x]), (1.0,), "jnp.asarray(x)"),
    (lambda x: {1: x}[x], (1,), "A traced value has no hash"),
    (lambda x: f"{x:.2f}", (1.0,), "jax.debug.print"),
    (
        jax.grad(lambda x: jax.lax.while_loop(lambda c: c < 9, lambda c: c * x, x)),
        (2.0,),
        "a known number of iterations",
    ),
    (
        lambda i, x: jax.lax.switch(i, [lambda x: x, lambda x: x + 1, lambda x: 1], x),
        (1, 1.0),
        "All branches must return the same structure",
    ),
]


@pytest.mark.parametrize(("fn", "args", "fix"), CASES)
def test_hints_for_errors_of_tracing(fn, args, fix):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each has a class of its own
        panel(fn)(*args)
    assert fix in hint(caught.value)
    assert not isinstance(caught.value, PanelError)


def test_a_leaked_tracer():
    leaked = []

    def f(x):
        jax.jit(lambda v: leaked.append(v * 2.0))(x)
        return x + leaked[0]

    with pytest.raises((PanelError, jax.errors.UnexpectedTracerError)) as caught:
        panel(f)(1.0)
    assert "left the function that was traced" in f"{caught.value} {hint(caught.value)}"


def test_no_hint_where_there_is_nothing_to_say():
    for error in (ValueError("anything"), KeyError("k"), ZeroDivisionError(), TypeError("no")):
        assert hint(error) is None


def test_the_hint_follows_the_users_frames(notebook):
    found = notebook.run("%%taxpr\ndef f(x):\n    return x if x > 0 else -x\nf(1.0)")
    assert isinstance(found.error, jax.errors.TracerBoolConversionError)
    assert "----> 3     return x if x > 0 else -x" in found.shown
    last = found.shown.strip().splitlines()[-1]
    assert last.startswith("Hint: A Python `if`")
    assert "--static" in last


def test_an_error_with_a_cause_and_without_frames_of_the_user(notebook):
    """JAX hangs the place of the loop on what it says about its derivative."""
    loop = "def f(x):\n    return jax.lax.while_loop(lambda c: c < 9, lambda c: c * x, x)\n"
    found = notebook.run(f"%%taxpr\n{loop}jax.grad(f)(2.0)")
    assert isinstance(found.error, ValueError)
    assert found.error.__cause__ is not None
    assert "Traceback" not in found.shown
    *shown, last = found.shown.strip().splitlines()
    assert any(line.startswith("ValueError: Reverse-mode differentiation does") for line in shown)
    assert last.startswith("Hint: The gradient of a loop")


# ---- mistakes in a session ----------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda s: s.tag("0:scn"), "There is no value '0:scn' in the program; near it are 0:scan"),
        (lambda s: s.tag("bigg"), "no value 'bigg' in the program; near it are big, i. Tags"),
        (lambda s: s.tag("zzzz"), "no value 'zzzz' in the program. Tags"),
        (lambda s: s.tag("0:scan"), "0:scan has 2 results: say which, of 0:scan.0, 0:scan.1"),
        (lambda s: s.tag(H), r"is tagged already, as 'h' \(.*at 0:scan/body/t0\), in the source"),
        (lambda s: s.tag("w", "v"), r"w is tagged already, as 'w' \(.*at t0\): attach an injector"),
        (
            lambda s: s.tag("in1", "h"),
            r"'h' is taken by the tag 'h' \(.*, at 0:scan/body/t0\)",
        ),
        (lambda s: s.tag("in1", bad=[1]), "bad"),
        (
            lambda s: s.untag("h"),
            r"'h' \(jupyter_samples.py:\d+ in .*, at 0:scan/body/t0\) is in the source and can on",
        ),
        (lambda s: s.untag("in1"), r"There is no tag at 'in1'. Tags: 'w' \(.*at t0\), 'h'"),
        (lambda s: s.detach("v"), r"The tag 'v' \(.*\) has no injector"),
        (lambda s: s.attach("h", "scle"), "There is no injector 'scle'. There are scale, replace"),
        (
            lambda s: s.attach("h", 3),
            "3 is no injector: give the name of one, a taxpr.injectors.Injector",
        ),
        (
            lambda s: s.attach("h", "scale", by=1),
            "unexpected keyword argument 'by'. It takes factor",
        ),
        (lambda s: s.attach("h", taxpr.scale(1.0), by=1), "scale has no parameter 'by'"),
        (lambda s: s.attach("h", double, by=1), "double is a plain function without a parameter"),
        (lambda s: s.attach("h", "scale", factor="x"), "scale: factor must be a number, not 'x'"),
        (lambda s: s.set_value("w", "by", 1), "scale has factor, and no parameter 'by' to set"),
        (lambda s: s.set_value("w", "factor", None), "scale: factor must be a number, not None"),
        (lambda s: s.unfold("in0"), "in0 holds nothing that could be drawn open or closed"),
        (lambda s: s.unfold("99:scan"), r"99:scan holds nothing .* closed. These do: 0:scan"),
        (lambda s: s.attach("hh", "scale"), r"no value 'hh' in the program.*\. Tags: 'h' \("),
        (lambda s: s.tag("nowhere_at_all"), r"no value 'nowhere_at_all' .*\. Tags: 'w.*'h' \("),
        (lambda s: s.save("p.gif"), r"p.gif cannot be written: the name must end in .svg, .png"),
    ],
)
def test_messages_of_the_session(mistake, message):
    session = Session(nested, (W, XS))
    session.attach("in0", "scale", factor=2.0)
    with pytest.raises(PanelError, match=message) as caught:
        mistake(session)
    assert caught.value._render_traceback_() == [f"PanelError: {caught.value}"]
    assert session.injectors["in0"].values == {"factor": 2.0}


def test_two_tags_of_one_name_must_be_told_apart():
    def f(x):
        return taxpr.tag(x, name="a") + taxpr.tag(x * 2.0, name="a")

    session = Session(f, (1.0,))
    with pytest.raises(
        PanelError, match=r"Several tags have the name 'a': .* of .*at t0\), .*at t1\)"
    ):
        session.attach("a", "scale")
    session.attach("t1", "scale", factor=0.0)
    assert float(session.run().outputs) == 1.0


def _raises(ctx, token, params):
    raise ValueError("no such luck")


def _shape(ctx, token, params):
    return token[0], ctx


def _dtype(ctx, token, params):
    return token.astype(jnp.bfloat16), ctx


def _grows(ctx, token, params):
    return token, (ctx, ctx)


def _alone(ctx, token, params):
    return token


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("injector", "message"),
    [
        (
            _raises,
            r"The injector '_raises' at the tag 'h'.* raised ValueError: no such luck \(line ",
        ),
        (
            _shape,
            r"injector '_shape' at tag 'h' \(\S+.py:\d+ in .*, at 0:scan/body/t0\) changed to",
        ),
        (_dtype, r"expected float32\[2\], got bfloat16\[2\]"),
        (_grows, r"changed the structure of the ctx"),
        (_alone, r"An injector returns \(token, ctx\)"),
    ],
)
def test_injectors_that_cannot_work(injector, message):
    session = Session(nested, (W, XS))
    session.tag("in0", "w")
    session.attach("w", "scale", factor=2.0)
    attached = session.attach("h", injector)
    assert re.search(message, attached.error)
    assert "\n" not in attached.error
    assert f"(!) {attached.error}" in session.tags_table()
    run = session.run()
    assert run.error == f"Nothing was run. {attached.error}"
    assert session.injectors["in0"].values == {"factor": 2.0}
    session.detach("h")
    assert session.run().ok


def test_no_engine_and_a_layout_that_takes_too_long(monkeypatch):
    from taxpr_jupyter._layout.layout import LaidOut
    from taxpr_jupyter._output import drawing

    late = Session(nested, (W, XS), timeout=0.0)
    assert late.svg() is None
    assert late.layout_note
    assert "\n" not in late.layout_note
    note = "There is no layout engine: install Graphviz."
    monkeypatch.setattr(drawing, "lay_out", lambda *_: LaidOut(None, "", 0.0, note))
    session = Session(nested, (W, XS))
    data, _ = session._repr_mimebundle_()
    assert "image/svg+xml" not in data
    assert note in data["text/plain"]
    with pytest.raises(PanelError, match=r"There is no layout eng"):
        session.save("p.svg")
    assert session.run().ok


@pytest.mark.parametrize("budget", [-1, 0, 1.5, "3", None, True])
def test_a_budget_that_is_no_number_of_nodes(budget):
    message = rf"budget={budget!r} is not about how many nodes to show: give a whole number from 1"
    for use in (draw, compare_with_itself, lambda f, x, **options: Session(f, (x,), **options)):
        with pytest.raises(PanelError, match=message):
            use(jnp.sin, 1.0, budget=budget)


@pytest.mark.parametrize("timeout", [-1, "3", None, float("nan")])
def test_a_timeout_that_is_no_number_of_seconds(timeout):
    for use in (draw, compare_with_itself, lambda f, x, **options: Session(f, (x,), **options)):
        with pytest.raises(PanelError, match=rf"timeout={timeout!r} is not how many seconds"):
            use(jnp.sin, 1.0, timeout=timeout)


def compare_with_itself(f, x, **options):
    return compare(f, f, x, **options)
