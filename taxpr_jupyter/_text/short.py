"""Write short texts for labels and tooltips. They do not depend on the process or the machine."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from jax.core import Tracer

import taxpr
from taxpr import introspect
from taxpr_jupyter._text.hints import hint_of

LINE = 28  # characters in one line of a label
BLANK = "•"  # `introspect.statements_of` writes it for an operand that is computed
_RESULTS = 6  # of an equation, of which the variables are told
TOOLTIP = 160  # characters in one line of a tooltip
_LINES = 12  # lines of a tooltip
_NUMBERS = 24  # entries of an array that are told

# By the kind of a dtype.
_NUMBER_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "b": lambda one: "T" if one else "F",
    "i": str,
    "u": str,
    "f": lambda one: f"{one:.4g}",
}

T = TypeVar("T")
Where = Callable[[introspect.Source], str]


def visible(text: str) -> str:
    """Escape characters that do not print or that change the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else repr(c)[1:-1] for c in text)


_JOINERS = "\u200c\u200d"  # needed to write Persian, Indian languages and emoji


def shortened(text: str, width: int) -> str:
    """Cut the middle out of a text, so that at most `width` characters are left."""
    text = visible(text)
    if len(text) <= width:
        return text
    end = (width - 1) // 3
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def aval_text(aval: Any) -> str:
    """A type, such as `f32[3,4]`."""
    try:
        return aval.str_short(short_dtypes=True)
    except (AttributeError, TypeError):  # an aval class of another library
        return without_places(str(aval))


def size_text(aval: Any) -> str:
    """` weak, 12 B`: the weak type and the size, which a label does not show."""
    weak = " weak" if getattr(aval, "weak_type", False) else ""
    return f"{weak}, {introspect.quantity(size, 'B')}" if (size := _known_bytes(aval)) else weak


def _known_bytes(aval: Any) -> int:
    """Its size; 0 where its shape is known only at run time."""
    try:
        return introspect.n_bytes(aval)
    except TypeError:
        return 0


def type_of(atom: introspect.Atom) -> str:
    """The type of a value, such as `f32[3,4]`."""
    return aval_text(atom.aval)


TypeOf = Callable[[introspect.Atom], str]


def types_text(
    atoms: Sequence[introspect.Atom], typed: TypeOf = type_of, most: int = 2, largest: bool = False
) -> str:
    """Types in one line of a label: `f32[3,4], i32[]`, `3×f32[3]`, or `f32[3,4], +4` of many.

    Args:
        atoms: The values.
        typed: Writes the type of one.
        most: How many are told of many.
        largest: Whether these are the largest; otherwise the first ones.
    """
    texts = [text for text in map(typed, atoms) if text]
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{len(texts)}×{texts[0]}"
    text = ", ".join(texts)
    if len(texts) <= most + 1 and len(text) <= LINE:
        return text
    if largest:
        sizes = [_known_bytes(atom.aval) for atom in atoms]
        order = sorted(range(len(texts)), key=sizes.__getitem__, reverse=True)
        texts = [texts[k] for k in order]
    for shown in range(min(most, len(texts) - 1), 0, -1):
        text = ", ".join([*texts[:shown], f"+{len(texts) - shown}"])
        if len(text) <= LINE:
            break
    return text


def scalar_text(value: Any) -> str | None:
    """A number, such as `2.0`; None if the value is no plain number."""
    # A tracer has no value yet. An array on other machines has none here.
    if isinstance(value, Tracer) or not getattr(value, "is_fully_addressable", True):
        return None
    if np.shape(value) != ():
        return None
    try:
        number = np.asarray(value)
        match number.dtype.kind:
            case "b":
                return str(bool(number))
            case "i" | "u":
                return str(int(number))
            case "c":
                return f"{complex(number):.4g}"
        text = f"{float(number):.6g}"  # works for dtypes registered with numpy, such as bfloat16
    except (TypeError, ValueError, RuntimeError):  # a key, a string, a donated array
        return None
    return text if re.search(r"[.einf]", text) else f"{text}.0"


def value_lines(value: Any) -> list[str]:
    """The numbers of a small array with one or two axes, in lines; [] of any other value.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter._text.short import value_lines
        >>> value_lines(jnp.eye(2, dtype=bool))
        ['T, F', 'F, T']
        >>> value_lines(jnp.full(3, 0.5))
        ['all 0.5']
        >>> value_lines(jnp.array([0.5, 0.50001]))
        ['all ≈ 0.5']
    """
    if isinstance(value, Tracer) or not getattr(value, "is_fully_addressable", True):
        return []
    if not 0 < len(np.shape(value)) < 3 or not 0 < np.size(value) <= _NUMBERS:
        return []
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # keys, or a donated array
        return []
    if numbers.dtype.kind not in _NUMBER_TEXTS:
        return []
    text = _NUMBER_TEXTS[numbers.dtype.kind]
    if numbers.size > 1 and len({*map(text, numbers.flat)}) == 1:
        first = numbers.flat[0]  # if it is NaN, so are all, as they have one text
        is_same = first != first or bool(np.all(numbers == first))
        return [f"all {text(first)}" if is_same else f"all ≈ {text(first)}"]
    rows = [", ".join(map(text, row)) for row in np.atleast_2d(numbers)]
    return [line for row in rows for line in textwrap.wrap(row, 2 * LINE)]


def param_text(value: Any) -> str:
    """The `repr` of a tag's param without parts that differ between processes."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(param_text, value)))}}}"
    if type(value) is tuple:
        return f"({', '.join(map(param_text, value))}{',' if len(value) == 1 else ''})"
    return without_places(repr(value))


def without_places(text: str) -> str:
    """A `repr` without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def literal_text(literal: Any) -> str:
    """The value of a literal, or its type if it is not a number."""
    text = scalar_text(literal.val)
    return aval_text(literal.aval) if text is None else text


class Tooltips:
    """Writes tooltips, with the letters that `print(jaxpr)` shows.

    Args:
        letters: The letters.
        where: Writes a source, for example as "cell 3, line 4".
        held: The variable of the source that held the value at an address, or "".
        divided: How values are divided among devices.
        labelled: Whether labels have types.
    """

    def __init__(
        self,
        letters: Mapping[Any, str],
        where: Where | None = None,
        held: Callable[[str], str] = lambda address: "",
        divided: introspect.Divisions | None = None,
        labelled: bool = True,
    ):
        self.held = held
        self._labelled = labelled
        self._divided = divided or introspect.Divisions()
        self._letters = letters
        self._where = where or file_and_line
        self._values: dict[int, tuple[Any, str]] = {}  # by id, with the atom to keep it alive

    def results(self, address: str, eqn: introspect.JaxprEqn) -> str:
        """The variables that held the results of an equation: `s, _, ys`, or ""."""
        values = map(taxpr.Address(address).value, range(len(eqn.outvars)))
        names = list(map(self.held, values)) if len(eqn.outvars) <= _RESULTS else []
        return ", ".join(name or "_" for name in names) if any(names) else ""

    def value(self, atom: introspect.Atom) -> str:
        """A value: `d:f32[3,4], 48 B`, `d:f32[] weak, 4 B`, or `2.0` for a literal.

        If several devices share it, also the part on each of them.
        """
        known = self._values.get(id(atom))
        if known is None:
            size = "" if introspect.is_literal(atom) else size_text(atom.aval)
            shared = f"; {divided.words}" if (divided := self._divided.of(atom)) else ""
            known = self._values[id(atom)] = atom, self.typed(atom) + size + shared
        return known[1]

    def typed(self, atom: introspect.Atom) -> str:
        """A value without its size: `d:f32[3,4]`, or `2.0` for a literal."""
        if introspect.is_literal(atom):
            return literal_text(atom)
        letter = "_" if introspect.is_dropped(atom) else self._letters.get(atom, "")
        return f"{letter}:{self.type(atom)}" if letter else self.type(atom)

    def type(self, atom: introspect.Atom) -> str:
        """The type of a value, with the axes of the mesh that divide it."""
        divided = self._divided.of(atom)
        return divided.type if divided else type_of(atom)

    def label_type(self, atom: introspect.Atom) -> str:
        """The type of a value as a label has it; "" where labels have none."""
        return self.type(atom) if self._labelled else ""

    def eqn(self, address: str, eqn: introspect.JaxprEqn) -> str:
        """An equation: address, line as in `print(jaxpr)`, tag params, scope, source line."""
        if failure := introspect.failure_of(eqn):
            return tooltip([address, *self._failed(failure)])
        outs = " ".join(self.typed(var) for var in eqn.outvars)
        operands = " ".join(self._letter(atom) for atom in eqn.invars)
        held = self.results(address, eqn)
        outs = f"{held} · {outs}" if held else outs
        lines = [address, f"{outs} = {eqn.primitive.name} {operands}".strip()]
        divided = (one for var in eqn.outvars if (one := self._divided.of(var)))
        lines += dict.fromkeys(one.words for one in divided)
        if introspect.is_tag(eqn):
            params = introspect.tag_params(eqn)
            lines += [f"{key}={param_text(value)}" for key, value in params.items()]
        if scope := introspect.scope_of(eqn):
            lines.append(f"in {scope}")
        if source := introspect.source_of(eqn):
            lines.append(self._where(source))
        return tooltip(lines)

    def failed(self, failure: introspect.Failure) -> str:
        """The same in one line, without the hint."""
        place = self._where(failure.source) if failure.source else ""
        return " · ".join(filter(None, (visible(failure.given), place, visible(failure.reason))))

    def _failed(self, failure: introspect.Failure) -> list[str]:
        """The lines on a failure of tracing: the error, its place, and how to fix it."""
        advice = hint_of(failure.error, failure.message)
        head, *more = failure.message.splitlines() or [""]
        lines = [f"{failure.error.__name__}: {head}", *(line for line in more if line.strip())]
        lines += [f"given {failure.given}"] if failure.given else []
        lines += [self._where(failure.source)] if failure.source else []
        return lines + (textwrap.wrap(f"Hint: {advice}", TOOLTIP) if advice else [])

    def operand(self, atom: introspect.Atom) -> str:
        """An operand: `d`, or `2.0:f32[]` for a literal."""
        if not introspect.is_literal(atom):
            return self._letter(atom)
        text, aval = scalar_text(atom.val), aval_text(atom.aval)
        return aval if text is None else f"{text}:{aval}"

    def _letter(self, atom: introspect.Atom) -> str:
        if introspect.is_literal(atom):
            return literal_text(atom)
        return self._letters.get(atom) or aval_text(atom.aval)


def file_and_line(source: introspect.Source) -> str:
    """A source line: `model.py:12 in f`, or `cell 3, line 12 in f`."""
    # Without the folder, which differs between machines and notebook kernels.
    return source._replace(function=function_name(source)).short


def function_name(source: introspect.Source) -> str:
    """The function's own name; some versions of JAX prepend the functions around it."""
    return source.function.rpartition("<locals>.")[2]


def tooltip(lines: Iterable[T], write: Callable[[T], str] = str) -> str:
    """Join lines, each shortened. If there are too many, the last line has their number.

    Args:
        lines: The lines.
        write: Writes a line that is shown.
    """
    lines = list(lines)
    shown = len(lines) if len(lines) <= _LINES else _LINES - 1
    more = [f"and {len(lines) - shown:,} more"] if shown < len(lines) else []
    return "\n".join([*(shortened(write(line), TOOLTIP) for line in lines[:shown]), *more])
