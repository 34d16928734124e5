"""Write the labels of the nodes and clusters of a picture."""

import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import numpy as np

from taxpr import introspect
from taxpr_jupyter._analysis.names import function_of
from taxpr_jupyter._analysis.sizes import Size, is_loop
from taxpr_jupyter._closed import listed, loops
from taxpr_jupyter._closed.branches import NAMELESS, Called, branches_in
from taxpr_jupyter._closed.kept_buffers import kept_in
from taxpr_jupyter._closed.numbers import numbers_in
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text import short, titles
from taxpr_jupyter._text.operations import OPERATIONS, Operation
from taxpr_jupyter._text.paths import members, path_parts, shared_title
from taxpr_jupyter._tree.tree import BlockEnd, Item

_PLUMBING = frozenset(
    {
        *(p.broadcast_in_dim_p, p.copy_p, p.reshape_p, p.squeeze_p, p.stop_gradient_p),
        introspect.pvary_p,  # which says along which axes of a mesh a value may differ
    }
)

# Facts about a nested jaxpr that its title says already.
_FACTS_IN_TITLE = frozenset({"differentiated", "index", "name", "unfinished"})

FAILED = "✗"  # before what failed while it was traced
_HOLDS = 36  # characters of a line that says how much is in a folded node, or of a list of names
_LOOPS = 2  # lines of the loops in it
_PARAM = 40  # characters of a param in the text of an equation

# Integer params that only repeat the shape of the result, or that no reader asks for.
_DULL_PARAMS = frozenset(
    {"bit_width", "broadcast_dimensions", "new_sizes", "shape", "sizes", "slice_sizes", "unroll"}
)


class Inside(NamedTuple):
    """Words on the inside of a closed part, which have lines of their own.

    Attributes:
        back: The parts of the user's code that it goes back through.
        said: The statements of the user's in it.
        casts: The conversions of floats in it.
    """

    back: Sequence[str] = ()
    said: Sequence[listed.StatementWords] = ()
    casts: str = ""


NOTHING_INSIDE = Inside()


def ordered(eqn: introspect.JaxprEqn) -> bool:
    """Whether a reader must know which operand is which."""
    values = sum(not introspect.is_literal(atom) for atom in eqn.invars)
    return values > 1 and not OPERATIONS.get(eqn.primitive, Operation()).commutes


def eqn_lines(
    eqn: introspect.JaxprEqn, title: str = "", name: str = "", typed: short.TypeOf = short.type_of
) -> list[str]:
    """The label of a first-order equation, such as `mul(•, 2.0)` and `f32[3]`.

    Args:
        eqn: The equation.
        title: Its source, if the equation is all of a statement.
        name: The variables that held its results.
        typed: Writes the type of a value.
    """
    lines = [*operation_lines(eqn), *_result_lines(eqn, typed, name)]
    if not title and not name and len(lines) == 2 and is_plumbing(eqn):
        return [" ".join(lines)]
    return [*titles.source_lines(title), *lines]


def fills(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation only fills an array with a number."""
    if introspect.is_hop(eqn) or eqn.effects or not eqn.invars:
        return False
    return all(map(introspect.is_literal, eqn.invars))


def is_plumbing(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation only arranges values: their shape, or a type that is as precise."""
    if eqn.primitive is p.convert_element_type_p:
        given: Any = eqn.invars[0].aval
        made: Any = eqn.outvars[0].aval
        return given.dtype == made.dtype
    return eqn.primitive in _PLUMBING


def failure_lines(failure: introspect.Failure) -> list[str]:
    """The label of a failed equation: its text, its operands, the error."""
    text, given = short.visible(failure.text), short.visible(failure.given)
    lines = [
        *titles.source_lines(f"{FAILED} {text or 'failed'}"),
        short.shortened(given, 2 * short.LINE),
    ]
    reason = textwrap.wrap(
        short.visible(failure.reason), 2 * short.LINE, max_lines=3, placeholder=" …"
    )
    return [line for line in (*lines, *reason) if line]


def operation_lines(eqn: introspect.JaxprEqn) -> list[str]:
    """The label of a first-order equation without the types of its results."""
    if failure := introspect.failure_of(eqn):
        return failure_lines(failure)
    head = short.visible(eqn.primitive.name)
    if any(introspect.is_literal(atom) for atom in eqn.invars):
        atoms = (short.literal_text(a) if introspect.is_literal(a) else "•" for a in eqn.invars)
        head = f"{head}({', '.join(atoms)})"
    is_convolution = eqn.primitive is p.conv_general_dilated_p
    params = _convolution(eqn) if is_convolution else _param_lines(eqn.params)
    return [short.shortened(head, short.LINE), *params]


def _convolution(eqn: introspect.JaxprEqn) -> list[str]:
    """The kernel and how it goes over its operand: `kernel 3×3 stride 2×2`, `padding 1`."""
    params = eqn.params
    given: Any = eqn.invars[1].aval
    kernel = [given.shape[k] for k in params["dimension_numbers"].rhs_spec[2:]]
    first = f"kernel {_sides(kernel)}"
    if set(params["window_strides"]) - {1}:
        first += f" stride {_sides(params['window_strides'])}"
    more = []
    sides = {side for pair in params["padding"] for side in pair}
    if sides - {0}:
        pairs = ", ".join(f"{low}:{high}" for low, high in params["padding"])
        more.append(f"padding {sides.pop() if len(sides) == 1 else pairs}")
    for word, param in {"dilation": "rhs_dilation", "input dilation": "lhs_dilation"}.items():
        if set(params[param]) - {1}:
            more.append(f"{word} {_sides(params[param])}")
    for word in ("feature_group_count", "batch_group_count"):
        if params[word] > 1:
            more.append(f"{word.partition('_')[0]} groups {params[word]}")
    return [short.shortened(line, short.LINE) for line in (first, *more)]


def _sides(sizes: Sequence[Any]) -> str:
    return "×".join(map(str, sizes))


def _result_lines(eqn: introspect.JaxprEqn, typed: short.TypeOf, name: str = "") -> list[str]:
    """The types of the results with their variables; no line without results."""
    text = short.types_text(eqn.outvars, typed)
    if name and len(eqn.outvars) == 1:
        room = max(short.LINE - len(text) - 2, 8)
        name, text = "", f"{short.shortened(name, room)}: {text}" if text else name
    return [short.shortened(text, short.LINE) for text in (name, text) if text]


def _param_lines(params: Mapping[str, Any]) -> list[str]:
    """The params that change what is computed and take little room: `axes=(0,)`."""
    texts = [
        f"{name}={value}".replace(" ", "")
        for name, value in sorted(params.items())
        if name not in _DULL_PARAMS and _is_small(value)
    ]
    line = " ".join(texts)
    return [line] if 0 < len(line) <= short.LINE else []


def _is_small(value: Any) -> bool:
    if isinstance(value, tuple):
        return 0 < len(value) <= 4 and all(type(item) is int for item in value)
    return type(value) is int


def param_texts(eqn: introspect.JaxprEqn) -> list[str]:
    """The params in the text of an equation: `axes=(0,)`; None, False and empty ones are left out.

    For a tag they are the user's; for an equation that holds jaxprs, numbers and names only.
    """
    if introspect.is_tag(eqn):
        params = introspect.tag_params(eqn).items()
        return [f"{key}={short.shortened(short.param_text(v), _PARAM)}" for key, v in params]
    hop = introspect.is_hop(eqn)
    return [
        f"{name}={short.shortened(short.without_places(str(value)), _PARAM)}"
        for name, value in sorted(eqn.params.items())
        if not _is_empty(value)
        and not (hop and (name in _DULL_PARAMS or not isinstance(value, int | str)))
    ]


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (type(value) in (tuple, str) and not value)


def tag_lines(eqn: introspect.JaxprEqn, typed: short.TypeOf = short.type_of) -> list[str]:
    """The label of a tag: its name, its other params, its type."""
    params = introspect.tag_params(eqn)
    name = params.pop("name", None)
    lines = [short.shortened(f"tag {name}" if name is not None else "tag", short.LINE)]
    texts = [
        short.shortened(f"{key}={short.param_text(value)}", short.LINE)
        for key, value in params.items()
    ]
    lines += texts[:3]
    if len(params) > 3:
        lines.append(f"+{len(params) - 3}")
    return [*lines, *_result_lines(eqn, typed)]


def open_title(
    eqn: introspect.JaxprEqn, source: str, jaxprs: Iterable[introspect.Nested] = ()
) -> tuple[str, ...]:
    """The label of the box around an open equation, which is all of a statement.

    The jaxprs are those that have no box with a title of their own.
    """
    if failure := introspect.failure_of(eqn):
        return tuple(failure_lines(failure))
    lines, title = titles.source_lines(source), short.visible(eqn.primitive.name)
    return (*lines, with_functions(title, eqn, jaxprs, lines))


def hop_title(eqn: introspect.JaxprEqn) -> str:
    """The label of an equation with nested jaxprs: `jit softmax`, `scan ×5`, `while`."""
    nested = introspect.nested_jaxprs(eqn)
    if len(nested) == 1 and takes_part(nested[0]):
        return block_lines(nested[0])[0].replace(" body", "", 1)
    return short.visible(eqn.primitive.name)


def with_functions(
    title: str,
    eqn: introspect.JaxprEqn,
    jaxprs: Iterable[introspect.Nested],
    told: Iterable[str] = (),
) -> str:
    """A title with the user's functions that it runs, but for those told: `scan ×5 · step`.

    Args:
        title: The title.
        eqn: The equation.
        jaxprs: Those of its nested jaxprs that are meant.
        told: Texts that are shown already.
    """
    words = {"", *re.findall(r"\w+", " ".join((title, *told)))}
    found = dict.fromkeys(function_of(nested, eqn) for nested in jaxprs)
    names = [name for name in found if name not in words]
    return " · ".join(filter(None, (title, ", ".join(names))))


def takes_part(nested: introspect.Nested) -> bool:
    """Whether what enters and leaves a nested jaxpr are values of the equation.

    Not so the `add` of a scatter, or a kernel.
    """
    ends = (*nested.operands, *nested.results)
    return not ends or any(end is not None for end in ends)


def block_lines(nested: introspect.Nested) -> list[str]:
    """The label of a nested jaxpr, `scan body ×5 reverse`, and longer facts about it."""
    words, facts = [nested.title], []
    times = nested.facts.get("length", nested.trips)  # a scan has it as a fact, 1 too
    if times is not None and (times != 1 or "length" in nested.facts):
        words.append(f"×{times}")
    for name, value in nested.facts.items():
        if name == "length":
            continue
        if value is True and name not in _FACTS_IN_TITLE:
            words.append(name)
        elif name not in _FACTS_IN_TITLE:
            items = value if isinstance(value, tuple) else (value,)
            facts += [f"{name}={_counted(items)}"] if items else []
    lines = [" ".join(words), *facts]
    return [short.shortened(line, 2 * short.LINE) for line in lines if line]


def _counted(items: Sequence[Any]) -> str:
    """`3×P(), P('x',)`: repeated items in a row are written once."""
    runs = ((text, len(list(same))) for text, same in itertools.groupby(map(str, items)))
    return ", ".join(f"{number}×{text}" if number > 1 else text for text, number in runs)


def content(size: Size, within: Iterable[introspect.JaxprEqn] = ()) -> str:
    """`23 equations · 2 tags · scan ×5 reverse`: how much, and the loops in these equations."""
    return " · ".join(_contents(size, within))


def _contents(size: Size, within: Iterable[introspect.JaxprEqn]) -> list[str]:
    texts = [count_of(size.eqns, "equation")] if size.eqns or not size.tags else []
    texts += [count_of(size.tags, "tag")] if size.tags else []
    told = loops.each_of(size.first, size.loops, _HOLDS, within)
    long = size.loops > 1 and len(" · ".join(told)) > _LOOPS * _HOLDS
    return [*texts, *([f"{size.loops:,} loops"] if long else told)]


def _content_lines(size: Size, within: Iterable[introspect.JaxprEqn]) -> list[str]:
    """The same in lines of a label, and the arrays that a while loop keeps."""
    lines: list[str] = []
    for text in _contents(size, within):
        together = f"{lines[-1]} · {text}" if lines else text
        lines[-1:] = [together] if len(together) <= _HOLDS else [*lines[-1:], text]
    return [*lines, *(_kept_lines(size.first[0].eqn) if size.loops == 1 else ())]


def _kept_lines(loop: introspect.JaxprEqn) -> list[str]:
    lines = [f"keeps {kept}" for kept in kept_in(loop)]
    return [short.shortened(line, short.LINE) for line in lines]


def hop_lines(
    eqn: introspect.JaxprEqn,
    size: Size,
    typed: short.TypeOf,
    source: str = "",
    name: str = "",
    rest: str = "",
    inside: Inside = NOTHING_INSIDE,
    called: Called = NAMELESS,
) -> list[str]:
    """The label of a folded equation that holds so much, and is all of a statement or the rest.

    With the user's statements in it, and the names of a conditional's operands and results.
    """
    own = [loops.words(eqn)] if rest and is_loop(eqn) else []
    if rest:
        holds = [*own, *_kept_lines(eqn), *_content_lines(size, [eqn])]
        return [rest, *holds, *_result_lines(eqn, typed, name)]
    lines = titles.source_lines(source)
    title = with_functions(hop_title(eqn), eqn, introspect.nested_jaxprs(eqn), lines)
    title = short.shortened(title, short.LINE)
    if condition := loops.condition_of(eqn):
        own += titles.source_lines(f"while {condition}")
    if bound := loops.bound_of(eqn):
        own.append(f"{bound.words} iteration{'' if bound.most == 1 else 's'}")
    facts = [nested.facts for nested in introspect.nested_jaxprs(eqn)]
    rules = [f"rule={_counted(found['rule'])}" for found in facts if found.get("rule")]
    rules = [short.shortened(rule, short.LINE) for rule in rules]
    own += _branch_lines(branches_in(eqn, called))
    numbers: Iterable[str] = ()
    if found := loops.condition_statement(eqn):
        tests = (one.jaxpr.eqns for one in introspect.nested_jaxprs(eqn) if not one.back)
        numbers = numbers_in(found, itertools.chain.from_iterable(tests))
    held = _untold(inside, (*lines, title, *rules, *own), size.total, numbers)
    holds = [*own, *_kept_lines(eqn), *_content_lines(size, [eqn]), *held]
    return [*lines, title, *rules, *holds, *_result_lines(eqn, typed, name)]


def _branch_lines(branches: Sequence[str]) -> list[str]:
    """The branches of a conditional: one behind the other, or each on lines of its own."""
    together = titles.list_lines(" · ".join(branches), _HOLDS)
    if len(together) > 2:
        return [line for one in branches for line in titles.list_lines(one, _HOLDS)]
    return [line.removesuffix(" ·") for line in together]


def _untold(
    inside: Inside, told: Sequence[str], equations: int, numbers: Iterable[str] = ()
) -> list[str]:
    """The lines on the inside, without names that are told already."""
    text = " ".join(told).replace("(recomputed) · ", "recomputes ")
    back = [one for one in inside.back if not re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)]
    held = titles.list_lines(", ".join(back), _HOLDS) if back else []
    held += listed.lines_of(inside.said, _HOLDS, told, equations, numbers)
    return [*held, *([short.shortened(inside.casts, _HOLDS)] if inside.casts else [])]


def group_lines(
    item: Item,
    size: Size,
    leaving: Sequence[Any],
    typed: short.TypeOf,
    unused: Sequence[str] = (),
    names: Sequence[str] = (),
    inside: Inside = NOTHING_INSIDE,
    updates: Sequence[str] = (),
) -> list[str]:
    """The label of a folded group: its title, its note, its size, and its results.

    Args:
        item: The group.
        size: Its size.
        leaving: Its results.
        typed: Writes the type of a value.
        unused: The parts of it that make what nothing uses.
        names: The names of its results, if all are known. Zeros are told by them.
        inside: Words on its inside.
        updates: The parts of an optimizer.
    """
    types = short.types_text(leaving, typed, most=1, largest=True)
    holds = _content_lines(size, (eqn for _, eqn in item.eqns))
    if leaving and all(is_zeros(eqn) for _, eqn in item.eqns):
        of = short_path(shared_title(names)) if names else ""
        holds = [" ".join(filter(None, ("zeros", of)))]
    idle = titles.list_lines(f"unused: {', '.join(unused)}") if unused else []
    note, told, loops = ("", "", "") if item.parts else item.note.partition(", in ")
    notes = [note, f"in {loops}" if told else ""]  # each in full
    if len(item.note) <= short.LINE and told:
        notes = [item.note]
    head, dot, times = item.note.rpartition(" · ")
    if item.kind == "repeat" and dot:  # the head of a loop of Python
        notes = [*titles.source_lines(head), times]
    lines = [
        *(short.shortened(line, short.LINE) for line in (*notes, *idle) if line),
        *updates,
        *(short.shortened(line, _HOLDS) for line in holds),
        *_untold(inside, [item.title], size.total),
        *([short.shortened(types, short.LINE)] if types else []),
    ]
    if item.rest:
        return [item.rest, *lines]
    return [*titles.source_lines(item.title), *lines]


def is_zeros(eqn: introspect.JaxprEqn) -> bool:
    """Whether an equation makes an array of zeros, such as the derivative by an unused input."""
    if eqn.primitive is not p.broadcast_in_dim_p or not introspect.is_literal(eqn.invars[0]):
        return False
    value: Any = eqn.invars[0]
    return not np.any(value.val)


def group_title(item: Item) -> str:
    """The title of an open group in one line."""
    return titles.shortened_source(_title(item), 2 * short.LINE)


def frame_lines(item: Item) -> tuple[str, ...]:
    """The label of an open group."""
    return tuple(titles.frame_lines(_title(item)))


def _title(item: Item) -> str:
    note = " → ".join(item.parts) or item.note
    return short.visible(" · ".join(filter(None, (item.title, note))))


def end_lines(name: str, role: str | None, kind: str, own_type: bool = False) -> list[str]:
    """The label of an input or output.

    Args:
        name: Its name.
        role: Its role in the equation around it; None for the program's own.
        kind: Its type.
        own_type: Whether the type may differ from outside, as where each device has a part.
    """
    name, kind = short_path(name), short.shortened(kind, short.LINE)
    if role is None:
        return [name, kind]
    if role == "predicate":
        return ["continue?"]
    if own_type:
        return [name, kind]
    # What only enters or leaves a call has its type at the other end of the edge.
    return [name] if role in {"arg", "out"} else [f"{name} {kind}"]


def short_path(name: str, width: int = short.LINE) -> str:
    """The name of a value in a PyTree in one line: the end says most, `params…['w'][0]`.

    A long key, such as a path of a module in Haiku, has its last names: `params['…/conv_0']['w']`.
    """
    if len(name) <= width:
        return short.visible(name)
    first, *rest = path_parts(name)
    kept: list[str] = []
    while rest and len(first) + 1 + sum(map(len, kept)) + len(rest[-1]) <= width:
        kept.insert(0, rest.pop())
    ended = "".join(kept)
    if rest and rest[-1][:2] in ("['", '["'):
        key, room = rest[-1][2:-2], width - len(f"{first}['…']{ended}")
        tails = (key[m.start() :] for m in re.finditer(r"[/.]", key))
        if tail := next((tail for tail in tails if len(tail) <= room), ""):
            return short.visible(f"{first}['…{tail}']{ended}")
    shown = f"{first}…{ended}" if kept else name
    return short.shortened(shown, width)


def bundle_lines(title: str, names: Sequence[str]) -> list[str]:
    """The label of several inputs or outputs, with the keys that tell them apart."""
    keys = titles.list_lines(members(names), most=2)
    return [short_path(title), count_of(len(names), "array"), *keys]


def returned_lines(lines: Sequence[str], names: Sequence[str], held: Sequence[str]) -> list[str]:
    """The label of outputs of a program, with the variable that the function returns there.

    `out[2]`, `opt_state: 79 arrays`. It has none if it says the same: `out['loss']` of `loss`.

    Args:
        lines: The label.
        names: The names of the outputs.
        held: The variable, or the part of one, that holds each of them; "" if it is unknown.
    """
    title = (shared_title(held) if len(held) > 1 else held[0]) if all(held) else ""
    keys = re.findall(r"\w+", shared_title(names) if len(names) > 1 else names[0])
    if not title or " … " in title or len(keys) < 2 or keys[-1] == title:
        return [*lines]
    text = f": {lines[1]}" if lines[1:] and lines[1] else ""
    return [lines[0], f"{short_path(title, max(short.LINE - len(text), 8))}{text}", *lines[2:]]


def state_title(end: BlockEnd, names: Sequence[str]) -> str:
    """The label of a state, or of a part of its value."""
    assert end.state is not None
    if end.states:
        return f"{count_of(end.states, 'state')} of {end.state.name}"
    if len(end.indices) == len(end.state.ins):
        return f"state {end.state.name}"
    return end.title or names[end.indices[0]]
