"""How people know an equation: its place in their code, its scope, its letters."""

from __future__ import annotations

import functools
import os
import threading
from types import CodeType
from typing import Any, NamedTuple

from jax._src import core as _core
from jax._src import pretty_printer as _pp
from jax._src import source_info_util as _source_info_util

from taxpr._compat._jaxprs import DropVar, JaxprEqn, Var, is_jaxpr, open_jaxpr

# `source_of` passes over the frames of all of taxpr.
_source_info_util.register_exclusion(os.path.dirname(os.path.dirname(__file__)))


class Source(NamedTuple):
    """A place in the user's code, as `source_of` finds it.

    Attributes:
        file: The name of the file; of a cell in a notebook what Python calls it.
        line: The line, counted from 1.
        function: The name of the function.

    Example:
        >>> from taxpr import Source
        >>> str(Source("model.py", 42, "loss"))
        'model.py:42 in loss'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def source_of(eqn: JaxprEqn) -> Source | None:
    """Where the user's code made this equation; None when it is not known.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import source_of, trace
        >>> def double(x):
        ...     return x * 2
        >>> [eqn] = trace(double)(1.0).eqns
        >>> source_of(eqn).line, source_of(eqn).function
        (2, 'double')
    """
    frame = _source_info_util.user_frame(eqn.source_info.traceback)
    if frame is None:
        return None
    return Source(frame.file_name, frame.start_line, frame.function_name)


def sources_of(eqn: JaxprEqn) -> tuple[Source, ...]:
    """The calls in the user's code that led to this equation, innermost first.

    Empty where they are not known. The first one is `source_of`.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> from taxpr import sources_of, trace
        >>> def double(x):
        ...     return x * 2
        >>> def outer(x):
        ...     return double(x)
        >>> [eqn] = trace(outer)(1.0).eqns
        >>> [source.function for source in sources_of(eqn)[:2]]
        ['double', 'outer']
    """
    traceback = eqn.source_info.traceback
    if traceback is None:
        return ()
    found: list[Source] = []
    for code, instruction in zip(*traceback.raw_frames(), strict=True):
        if id(code) in _others:
            continue
        known = _sources.get((id(code), instruction))
        source = _source_at(code, instruction) if known is None else known[1]
        if source is not None:
            found.append(source)
    return tuple(found)


# By the id of the code, which is kept, so that its id stays its own: its hash takes long.
_sources: dict[tuple[int, int], tuple[CodeType, Source]] = {}
_others: dict[int, CodeType] = {}  # code that is none of the user's


def _source_at(code: CodeType, instruction: int) -> Source | None:
    """A frame, or None where it is none of the user's."""
    if not _source_info_util.is_user_filename(code.co_filename):
        _others[id(code)] = code
        return None
    frame = _source_info_util.raw_frame_to_frame(code, instruction)
    source = Source(frame.file_name, frame.start_line, frame.function_name)
    _sources[id(code), instruction] = code, source
    return source


def scope_of(eqn: JaxprEqn) -> str:
    """The name stack of an equation, such as ``"block_0/attention"``.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax
        >>> from taxpr import scope_of, trace
        >>> def f(x):
        ...     with jax.named_scope("block_0"), jax.named_scope("attention"):
        ...         return x * 2
        >>> [eqn] = trace(f)(1.0).eqns
        >>> scope_of(eqn)
        'block_0/attention'
    """
    return str(eqn.source_info.name_stack)


def scopes_of(eqn: JaxprEqn) -> tuple[str, ...]:
    """The scopes in the name stack of an equation, such as ``("block_0", "attention")``.

    Outermost first; without the transformations, which are `transformations_of`.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax
        >>> from taxpr import scopes_of, trace
        >>> def f(x):
        ...     with jax.named_scope("block_0"):
        ...         return x * x
        >>> [scopes_of(eqn) for eqn in trace(jax.grad(f))(1.0).eqns][0]
        ('block_0',)
    """
    return _names(eqn.source_info.name_stack)[0]


def transformations_of(eqn: JaxprEqn) -> tuple[str, ...]:
    """The transformations in the name stack of an equation, such as ``("transpose", "jvp")``.

    Outermost first. JAX notes jvp, transpose and vmap there.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import trace, transformations_of
        >>> def f(x):
        ...     with jax.named_scope("block_0"):
        ...         return jnp.sin(x)
        >>> last = trace(jax.grad(f))(1.0).eqns[-1]
        >>> last.primitive.name, transformations_of(last)
        ('mul', ('transpose', 'jvp'))
    """
    return _names(eqn.source_info.name_stack)[1]


@functools.lru_cache(maxsize=1 << 12)
def _names(name_stack: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the scopes and of the transformations in a name stack."""
    scopes: list[str] = []
    transformations: list[str] = []
    for element in name_stack.stack:
        if isinstance(element, _source_info_util.Scope):
            scopes += element.name.split("/")
        else:
            transformations.append(element.name)
    return tuple(scopes), tuple(transformations)


def scope_parts(eqn: JaxprEqn) -> list[tuple[str, str]]:
    """The components of `scope_of`, each as it is shown and without transformations.

    For ``"jvp(block_0)/attention"`` these are ``("jvp(block_0)", "block_0")`` and
    ``("attention", "attention")``.
    """
    parts: list[tuple[str, str]] = []
    around: list[str] = []
    for element in eqn.source_info.name_stack.stack:
        if not isinstance(element, _source_info_util.Scope):
            around.append(element.name)
            continue
        for name in element.name.split("/"):
            shown = name
            for transformation in reversed(around):
                shown = f"{transformation}({shown})"
            parts.append((shown, name))
            around = []
    return parts


_printing = threading.Lock()


def var_names(jaxpr: Any) -> dict[Var, str]:
    """The letters with which ``print(jaxpr)`` shows the variables of a program or jaxpr.

    In a few jaxprs, such as those of `custom_linear_solve`, it begins again with ``a``, so that a
    letter stands for several variables. Here these have letters of their own.

    Args:
        jaxpr: A `Program`, or an open or closed jaxpr.

    Example:
        >>> from taxpr import trace, var_names
        >>> program = trace(lambda x: x + 1)(1.0)
        >>> [var_names(program)[var] for var in (*program.invars, *program.outvars)]
        ['a', 'b']
    """
    inner = open_jaxpr(getattr(jaxpr, "jaxpr", jaxpr))
    made: list[Any] = []
    hops: list[JaxprEqn] = []

    class Context(_core.JaxprPpContext):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def pp_eqn(eqn: JaxprEqn, context: Any, settings: Any) -> Any:
        # What other threads print is none of ours.
        if type(context) is not Context or not _prints_plainly(eqn):
            hops.append(eqn)
            return original_eqn(eqn, context, settings)
        names = context.var_names  # which gives a letter to what it is asked for
        for atom in (*eqn.outvars, *eqn.invars):
            if isinstance(atom, Var) and not isinstance(atom, DropVar):
                names[atom]
        return _pp.nil()

    # The printer keeps the letters in a context that it makes itself. Which letters it
    # gives depends on which nested jaxprs it lists first, and that differs by version.
    # Of an equation without nested jaxprs only the order of its variables matters, and to write
    # it out takes ten times as long.
    with _printing:
        original, _core.JaxprPpContext = _core.JaxprPpContext, Context
        original_eqn, _core.pp_eqn = _core.pp_eqn, pp_eqn
        try:
            _core.pp_toplevel_jaxpr(inner, print_shapes=False)  # they take half the time
        finally:
            _core.JaxprPpContext = original
            _core.pp_eqn = original_eqn
    names = made[0].var_names
    known: dict[int, Any] = {}  # with the jaxprs, so that their ids stay their own
    for eqn in hops:
        for jaxpr in _core.jaxprs_in_params(eqn.params):
            _give_names(jaxpr, names, known)
    return {var: str(name) for var, name in names.items()}


def _give_names(jaxpr: Any, names: Any, known: dict[int, Any]) -> None:
    """Asks for the letters of all variables of a jaxpr, in the order of the program."""
    if id(jaxpr) in known:
        return
    known[id(jaxpr)] = jaxpr
    for eqn in (None, *jaxpr.eqns):
        for var in eqn.outvars if eqn else (*jaxpr.constvars, *jaxpr.invars):
            if not isinstance(var, DropVar):
                names[var]
        for inner in _core.jaxprs_in_params(eqn.params) if eqn else ():
            _give_names(inner, names, known)


def _prints_plainly(eqn: JaxprEqn) -> bool:
    """Whether an equation is printed as results, name, params without jaxprs, operands."""
    rule = _core.pp_eqn_rules.get(eqn.primitive)
    # Those of `jax.lax`, 0.7 to 0.12, only leave params out that say little.
    if rule is not None and rule.__module__ != "jax._src.lax.lax":
        return False
    return not any(
        is_jaxpr(value) or (isinstance(value, (tuple, list)) and any(map(is_jaxpr, value)))
        for value in eqn.params.values()
    )
