"""The origin of an equation: its source lines, name scopes and transformations."""

import contextlib
import functools
import itertools
import operator
import os
import weakref
from collections.abc import Hashable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from taxpr._compat._custom import RanIn, transposed
from taxpr._compat._eqns import SaidOfAll
from taxpr._compat._private import GoneError, private
from taxpr._compat._types import JaxprEqn
from taxpr._given import of_equation
from taxpr._places import cell_text, file_text, is_generated, place_note, place_text

_source_info_util = private("source_info_util")
_partial_eval = private("interpreters.partial_eval")

# In the lines that JAX's errors name, too, frames of taxpr are skipped.
_OWN = os.path.dirname(os.path.dirname(__file__))
with contextlib.suppress(GoneError):
    _source_info_util.register_exclusion(_OWN)


class Source(NamedTuple):
    """A place in the user's code, as `source_of` finds it.

    Attributes:
        file: The name of the file, or Python's name for a notebook cell.
        line: The line, counted from 1.
        function: The name of the function.

    Example:
        >>> from taxpr import Source
        >>> str(Source("model.py", 42, "loss"))
        'model.py:42 in loss'
        >>> str(Source("<ipython-input-3-c05d3b5cd0e1>", 42, "loss"))
        'cell 3, line 42 in loss'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return self._at(self.file)

    @property
    def short(self) -> str:
        """The same, without the folders of the file."""
        return self._at(file_text(self.file))

    def _at(self, file: str) -> str:
        # A cell of a notebook is a file of a name that nobody knows.
        cell = cell_text(self.file)
        at = f"{cell}, line {self.line}" if cell else f"{file}:{self.line}"
        return f"{at} in {self.function}"


def source_note(source: Source | None, address: str = "") -> str:
    """`" (model.py:42 in loss, at 3:sin)"`, for a message; see `place_note`."""
    if source is None:
        return place_note("", address)
    # Some versions of JAX prepend the functions around it.
    function = source.function.rpartition("<locals>.")[2]
    return place_note(f"{place_text(source.file, source.line)} in {function}", address)


@of_equation
def source_of(eqn: JaxprEqn | None) -> Source | None:
    """The line of the user's code that made this equation; None if unknown.

    It is unknown in the jaxpr of a function of JAX, such as `jnp.where`, which is shared by all
    lines that call it. The equation that calls it has the line.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has no source.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import source_of, trace
        >>> def double(x):
        ...     return x * 2
        >>> [eqn] = trace(double)(1.0).eqns
        >>> source_of(eqn).line, source_of(eqn).function
        (2, 'double')
    """
    return next(_sources(*frames_of(eqn)), None)


def source_in(traceback: Any) -> Source | None:
    """The innermost line of the user's code in a traceback of JAX."""
    return next(_sources(*_frames(traceback)), None)


@of_equation
def sources_of(eqn: JaxprEqn | None) -> tuple[Source, ...]:
    """The call stack of the user's code that made this equation, innermost first.

    Empty if it is unknown. The first entry is `source_of`. It ends at the function that the
    equation's jaxpr was traced from: the equation that calls it has the rest.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has no source.

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
    return tuple(_sources(*frames_of(eqn)))


def _sources(codes: Sequence[CodeType], instructions: Sequence[int]) -> Iterator[Source]:
    for code, instruction in zip(codes, instructions, strict=True):
        lines = _known.get(id(code)) or _known.setdefault(id(code), _LineTable(code))
        if lines.of_user:
            yield lines.source(code, instruction)


def frames_of(
    eqn: JaxprEqn | None, with_rules: bool = True
) -> tuple[Sequence[CodeType], Sequence[int]]:
    """The code that made this equation, innermost first: of all functions, and the instructions.

    They end where its jaxpr was traced.
    """
    found = _frames(eqn.source_info.traceback if eqn else None)
    rules: list[RanIn] = []
    for one in _noted(eqn) if with_rules else ():
        if rules and one.run is rules[-1].run:
            rules.pop()  # which begins alike
        rules.append(one)
    for one in rules:
        codes, instructions = one.frames()
        found = [*codes, *found[0]], [*instructions, *found[1]]
    return found


def frames_key(eqn: JaxprEqn) -> Hashable:
    """A key that is equal only for equations with the same frames and the same source."""
    return id(eqn) if _noted(eqn) else eqn.source_info.traceback


def _frames(traceback: Any) -> tuple[Sequence[CodeType], Sequence[int]]:
    if traceback is None:
        return (), ()
    codes, instructions = traceback.raw_frames()
    if _HAS_SCOPES:
        return codes, instructions
    # There may be a hundred frames: no step of Python for each.
    called_so = itertools.compress(itertools.count(), map(_TRACERS.__contains__, map(_name, codes)))
    end = next((k for k in called_so if codes[k].co_filename == _partial_eval.__file__), None)
    return codes[:end], instructions[:end]


# Up to 0.9.0 a traceback goes on to the start of the program. JAX keeps a jaxpr for the next call
# of its function, so the frames around it are those of the first call, in another line or another
# program. From 0.9.1 JAX ends a traceback where it traces a jaxpr.
_HAS_SCOPES = hasattr(_partial_eval, "TracebackScope")
# JAX's functions that trace a jaxpr; the last one is there up to 0.7.
_TRACERS = {"trace_to_jaxpr", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_dynamic2"}
_name = operator.attrgetter("co_name")


def _noted(eqn: JaxprEqn | None) -> list[RanIn]:
    """The user's derivative rules that made an equation, the outermost first."""
    if eqn is None or eqn.source_info.traceback is None:
        return []
    stack: Any = eqn.source_info.name_stack.stack
    return [one for one in stack if type(one) is RanIn]


def is_of_rule(eqn: JaxprEqn | None) -> bool:
    """Whether a user's derivative rule made an equation, not a later transpose of it."""
    noted = _noted(eqn)
    first = next((one for one in noted if one.run is noted[-1].run), None)
    return first is not None and first.transposed == transposed(_stack(eqn))


def is_outside_jax(file: str) -> bool:
    """Whether a file belongs neither to JAX nor to taxpr."""
    return not file.startswith(_OWN) and _source_info_util.is_user_filename(file)


def associative_scan_in(codes: Sequence[CodeType]) -> int | None:
    """The number of the outermost call of `jax.lax.associative_scan` among some frames, or None.

    It is computed without a loop, so no equation says it.
    """
    found = [k for k, code in enumerate(codes) if code.co_name == "associative_scan"]
    own = [k for k in found if not is_outside_jax(codes[k].co_filename)]
    return own[-1] if own else None


class _LineTable:
    """The line table of a code object, without a reference to the code itself.

    Attributes:
        of_user: Whether the code is the user's.
    """

    def __init__(self, code: CodeType) -> None:
        number = id(code)
        self._alive = weakref.ref(code, lambda _: _known.pop(number, None))
        generated = is_generated(code.co_filename, code.co_qualname)
        self.of_user = is_outside_jax(code.co_filename) and not generated
        self._sources: dict[int, Source] = {}

    def source(self, code: CodeType, instruction: int) -> Source:
        """The source line of an instruction of the code."""
        source = self._sources.get(instruction)
        if source is None:
            frame = _source_info_util.raw_frame_to_frame(code, instruction)
            source = Source(frame.file_name, frame.start_line, frame.function_name)
            self._sources[instruction] = source
        return source


# By the id of the code, as its hash is slow. An entry goes when the code does.
_known: dict[int, _LineTable] = {}


@of_equation
def scope_of(eqn: JaxprEqn | None) -> str:
    """The name stack of an equation, such as ``"block_0/attention"``.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has none.

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
    return str(_stack(eqn))


@of_equation
def scopes_of(eqn: JaxprEqn | None) -> tuple[str, ...]:
    """The scopes in the name stack of an equation, such as ``("block_0", "attention")``.

    Outermost first, without transformations, which `transformations_of` returns.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has none.

    Example:
        >>> import jax
        >>> from taxpr import scopes_of, trace
        >>> def f(x):
        ...     with jax.named_scope("block_0"):
        ...         return x * x
        >>> [scopes_of(eqn) for eqn in trace(jax.grad(f))(1.0).eqns][0]
        ('block_0',)
    """
    return _names(_stack(eqn))[0]


@of_equation
def transformations_of(eqn: JaxprEqn | None) -> tuple[str, ...]:
    """The transformations in the name stack of an equation, such as ``("transpose", "jvp")``.

    Outermost first. JAX records jvp, transpose and vmap there.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has none.

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
    return _names(_stack(eqn))[1]


def _stack(eqn: JaxprEqn | None) -> Any:
    """The name stack of an equation as JAX made it."""
    found: Any = eqn.source_info.name_stack if eqn else _source_info_util.NameStack()
    for one in found.stack:
        if one.__class__ in _OF_TAXPR:
            own = tuple(one for one in found.stack if one.__class__ not in _OF_TAXPR)
            return _source_info_util.NameStack(own)
    return found


_OF_TAXPR = {RanIn, SaidOfAll}


@functools.lru_cache(maxsize=1 << 12)
def _names(name_stack: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The scopes and the transformations in a name stack."""
    scopes: list[str] = []
    transformations: list[str] = []
    for element in name_stack.stack:
        if isinstance(element, _source_info_util.Scope):
            scopes += element.name.split("/")
        else:
            transformations.append(element.name)
    return tuple(scopes), tuple(transformations)


def scope_parts(eqn: JaxprEqn) -> list[tuple[str, str]]:
    """The components of `scope_of`: each as shown, and without transformations.

    For ``"jvp(block_0)/attention"`` these are ``("jvp(block_0)", "block_0")`` and
    ``("attention", "attention")``.
    """
    parts: list[tuple[str, str]] = []
    around: list[str] = []
    for element in _stack(eqn).stack:
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


@of_equation
def is_recomputed(eqn: JaxprEqn | None) -> bool:
    """Whether `jax.checkpoint` computes the equation again, for a backward pass.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, is not.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import is_recomputed, iter_eqns, trace
        >>> f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
        >>> eqns = [eqn for *_, eqn in iter_eqns(trace(jax.grad(f))(1.0))]
        >>> [eqn.primitive.name for eqn in eqns if is_recomputed(eqn)]
        ['sin', 'cos', 'cos']
    """
    return "rematted_computation" in _names(_stack(eqn))[0]


def is_transposed(eqn: JaxprEqn | None) -> bool:
    """Whether an equation comes from transposing, as in a backward pass."""
    return "transpose" in transformations_of(eqn)


def is_backward(eqn: JaxprEqn) -> bool:
    """Whether an equation is of a backward pass: transposed, or computed again for one.

    It is asked of each equation of a program, so no name stack is hashed.
    """
    stack: Any = eqn.source_info.name_stack.stack
    return bool(stack) and (is_transposed(eqn) or is_recomputed(eqn))
