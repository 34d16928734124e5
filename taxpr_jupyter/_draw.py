"""`draw`: a picture of a program without a notebook."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import taxpr
from taxpr import introspect
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import AsCompiled
from taxpr_jupyter._heat.measured import Colours
from taxpr_jupyter._layout.layout import TIMEOUT
from taxpr_jupyter._model.kinds import DRAWN_KINDS, DrawnKind, checked_heat, checked_limits
from taxpr_jupyter._output import saved
from taxpr_jupyter._output.drawing import OUTPUT_LINES, Drawing
from taxpr_jupyter._output.paper import paper_of
from taxpr_jupyter._output.shell import running_shell
from taxpr_jupyter._states.trace_pure import Names, unchanging
from taxpr_jupyter._text.hints import hint_of
from taxpr_jupyter._text.short import visible
from taxpr_jupyter._tracing.sources import source_text
from taxpr_jupyter._tracing.trace import traced, traced_before
from taxpr_jupyter._tree.fold import BUDGET


def draw(
    fun: Callable[..., Any] | taxpr.Program | Any,
    /,
    *args: Any,
    budget: int = BUDGET,
    unfold: str | Iterable[str] = (),
    fold: str | Iterable[str] = (),
    timeout: float = TIMEOUT,
    heat: DrawnKind | None = None,
    style: Literal["screen", "paper"] = "screen",
    width: str | None = None,
    types: bool | None = None,
    name: str | None = None,
    names: Names = None,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    **kwargs: Any,
) -> Drawing:
    """Draws a function or a traced program. Nothing is run.

    Args:
        fun: A function; or, without arguments, a `taxpr.Program`, an open or closed jaxpr, the
            result of `jax.jit(f).trace(x)`, or an error that tracing a function raised: then the
            finished part of the program is drawn, and the failure is marked.
        *args: Example arguments of the function: arrays, numbers, `jax.ShapeDtypeStruct`, PyTrees
            of them. Strings and functions among them are static.
        budget: About how many nodes to show; two names of inputs or outputs count as one. With more
            than the default, a program that has no more equations than that is drawn whole.
        unfold: Addresses to open in addition to the budget's choice, in this order.
        fold: Addresses to close.
        timeout: Seconds that a layout may take.
        heat: The quantity that colours nodes: "flops", "bytes", or None for their kinds. For
            "compiled" XLA compiles the program, which may take long: nodes of one kernel have one
            colour and number, removed ones are gray, and collectives are marked.
        style: "paper" for papers and slides: without types and without what is counted in folded
            nodes, in larger type.
        width: The width of a picture on paper, as of a column or a slide: "8.5cm", "85mm", "3.3in"
            or "240pt". By default text has 12 points.
        types: Whether a picture on paper has the types of values.
        name: Its name; by default the function's.
        names: As for `taxpr.trace`. With the name of a library, ``"optax"``, or several,
            ``("brax", "jax_md")``, the picture has their functions, statements and variables as if
            they were yours, where these leave the program unchanged.
        static_argnums: Positions of arguments that are not traced, as in `jax.jit`.
        static_argnames: Names of arguments that are not traced, as in `jax.jit`.
        **kwargs: Keyword arguments of the function. One that is called like an option above
            cannot be given here: trace the function yourself, ``draw(taxpr.trace(f)(x, name=y))``.

    Returns:
        The drawing. It shows itself in a notebook; `Drawing.save` writes it to a file.

    Raises:
        PanelError: If ``fun`` cannot be drawn, an argument cannot be traced, or an address in
            ``unfold`` or ``fold`` is not in the picture.
        Exception: If the function itself raises while it is traced. A notebook first shows the
            program so far; elsewhere, ``draw(error)`` draws it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr_jupyter import draw
        >>> drawing = draw(lambda x, *, y: jnp.sin(x) * y, jnp.ones(3), y=jnp.ones(3))
        >>> drawing
        <drawing of <lambda>: 2 equations>
        >>> print(drawing.text())
        <lambda>: 2 equations, 0 tags
          in0    a:f32[3]  x
          in1    b:f32[3]  y
          0:sin  c:f32[3] = sin a
          1:mul  d:f32[3] = mul c b
          out0   d  out
        >>> draw(jax.make_jaxpr(jnp.sin)(1.0))
        <drawing of jaxpr: 1 equation>
    """
    options = {
        "budget": budget != BUDGET,
        "unfold": bool(unfold),
        "fold": bool(fold),
        "timeout": timeout != TIMEOUT,
        "heat": heat is not None,
        "style": style != "screen",
        "width": width is not None,
        "types": types is not None,
        "name": name is not None,
        "names": names is not None,
    }
    _check_names(fun, options, kwargs)
    budget, timeout = checked_limits(budget, timeout)
    kind = checked_heat(heat, DRAWN_KINDS)
    paper = paper_of(style, width, types)
    notes: tuple[str, ...] = ()
    given: tuple[Any, ...] = ()  # what the program takes; without it the types of the trace
    named: Mapping[str, Any] = {}
    program = traced_before(fun)
    if program is None:
        with shown_until_error(running_shell()):
            noted = unchanging(names)
            start = traced(fun, args, kwargs, static_argnums, static_argnames, noted)
        program, notes = start.program, start.notes
        if start.pure is None:
            given, named = start.args, start.kwargs
    elif args or kwargs:
        raise PanelError(
            f"A {type(fun).__name__} is traced already: draw takes no arguments with it"
        )
    elif names is not None:
        raise PanelError(
            f"A {type(fun).__name__} is traced already: draw takes no names with it. Give them to "
            "its trace: draw(taxpr.trace(f, names=...)(x))"
        )
    if name is not None:
        program = dataclasses.replace(program, name=name)
    failed = _failed(program)
    if failed:
        notes += (_ended(failed[1]),)
    colours: Colours = None if kind == "compiled" else kind
    if kind == "compiled":
        if failed:
            raise PanelError('heat="compiled" needs a whole program: tracing this one failed')
        colours = AsCompiled(program, taxpr.compiled(program)(*given, **named))
    edited = Edited(program, Edits())
    known = colours.answer.shardings.values if isinstance(colours, AsCompiled) else None
    divided = edited.tagged.divided(known)
    drawing = Drawing(
        builder=Builder(program, budget, source_text, divided, paper is None or paper.types),
        outline=lambda limit: edited.rows(visible(program.name), limit, divided),
        timeout=timeout,
        heat=colours,
        paper=paper,
        notes=notes,
    )
    if failed:
        shown = drawing.builder.reveal(failed[0], None).unfolded
        drawing = dataclasses.replace(drawing, unfolded=shown | {failed[0]})
    return drawing.unfold(*_several(unfold)).fold(*_several(fold))


def _failed(program: taxpr.Program) -> tuple[str, introspect.Failure] | None:
    """The address of the error that ended the tracing of a program, and why; else None."""
    eqns = program.eqns
    if not (eqns and introspect.is_unfinished(eqns[-1])):
        return None
    every = (
        (address, introspect.failure_of(eqn)) for address, eqn in introspect.iter_eqns(program)
    )
    return next((address, failure) for address, failure in every if failure)


def _ended(failure: introspect.Failure) -> str:
    place = f" at {source_text(failure.source)}" if failure.source else ""
    advice = hint_of(failure.error, failure.message)
    advice = f" Hint: {advice}" if advice else ""
    reason = visible(failure.reason).rstrip(".")
    return f"Traced until an error{place}: {reason}.{advice}"


@contextlib.contextmanager
def shown_until_error(shell: Any, text_only: bool = False) -> Iterator[None]:
    """Show the program until an error, if there is a notebook or a prompt to show it."""
    try:
        yield
    except Exception as error:
        if shell is not None and taxpr.until_error(error) is not None:
            with contextlib.suppress(Exception):  # the error of the user comes first
                _show(draw(error), text_only)
        raise


def _show(drawing: Drawing, text_only: bool) -> None:
    if not text_only:
        with contextlib.suppress(NotImplementedError):  # where only text is shown
            return saved.publish(drawing)
    print("\n\n".join([drawing.text(OUTPUT_LINES), drawing.note]))


def _check_names(f: Any, options: Mapping[str, bool], kwargs: Mapping[str, Any]) -> None:
    """Refuses names that both `draw` and the function have, and those that neither has.

    Args:
        f: The function.
        options: The options of `draw`, and whether each was given.
        kwargs: The keyword arguments for the function.
    """
    try:
        parameters = inspect.signature(f).parameters if callable(f) else {}
    except (TypeError, ValueError):  # some builtins have none
        return
    if isinstance(f, taxpr.Program):
        return
    for option, given in options.items():
        if given and option in parameters:
            raise PanelError(
                f"{option} is an option of draw, and an argument of the function, too. Trace the "
                f"function yourself: draw(taxpr.trace(f)(..., {option}=...), {option}=...)"
            )
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in kwargs:
        near = difflib.get_close_matches(name, [*options, *parameters], 1)
        if near and name not in parameters:
            raise PanelError(
                f"draw has no option {name}, and the function no argument of that name. Nearest: "
                f"{near[0]}"
            )


def _several(addresses: str | Iterable[str]) -> Iterable[str]:
    return [addresses] if isinstance(addresses, str) else addresses
