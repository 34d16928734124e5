"""Name the inputs and outputs of jaxprs.

The program's own have the names that the user gave them. An input of a nested jaxpr is named by its
role and its name outside: `carry params['b1']`. If it has no name outside, it gets the name of the
inner function's argument, which JAX knows, or of the variable that holds it outside. A carry has
only at first the value from outside, so it is called like the variable in the loop.
"""

import pathlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.stateful import shown_names
from taxpr_jupyter._text.paths import path_parts

# JAX names one step's slice of a scan's input; the name of the whole input says more.
_WORDS: Mapping[str, str] = {"x": "xs", "y": "ys"}
_PASSED = re.compile(r"(args|kwargs)\[")  # to a function of any arguments
_NUMBERS = re.compile(r"(\[\d+\])*")
_JAX = pathlib.PurePath(jax.__file__).parent


@dataclass(frozen=True)
class Names:
    """The names in one jaxpr, at its place in the program.

    Attributes:
        ins: The name of each input.
        outs: The name of each output.
        known: The names of inputs, constants and tagged inputs, without their roles, by variable.
        results: The names of values that are outputs of the program, by variable.
        taken: The user's names of the program's arguments.
        closed: Gives the name of a constant.
    """

    ins: Sequence[str]
    outs: Sequence[str]
    known: Mapping[Any, str]
    results: Mapping[Any, str]
    taken: frozenset[str]
    closed: Callable[[Any], str]


def names_of(program: taxpr.Program, variable: Callable[[int], str] = lambda k: "") -> Names:
    """The names of a program.

    Args:
        program: The program.
        variable: Gives the first variable that held an input, or "". One that is passed on, as
            `args[0]`, is called like it.
    """
    ins, outs = shown_names(program)
    ins = [variable(k) or name if _PASSED.match(name) else name for k, name in enumerate(ins)]
    results: dict[Any, str] = {}
    for atom, name in zip(program.outvars, outs, strict=True):
        if not introspect.is_literal(atom):
            results.setdefault(atom, name)
    _untagged(program, results)
    held = _constants(program.constvars, program.consts, program.const_name)
    known = _tagged(program, held | dict(zip(program.invars, ins, strict=True)))
    taken = frozenset(path_parts(name)[0] for name in ins if name)
    return Names(ins, outs, known, results, taken, program.const_name)


def names_inside(
    outer: Names,
    eqn: introspect.JaxprEqn,
    nested: introspect.Nested,
    held: Sequence[str] | None = None,
    variable: Callable[[Any], str] = lambda atom: "",
    made: Callable[[int], str] = lambda j: "",
) -> Names:
    """The names of a nested jaxpr.

    Args:
        outer: The names in the jaxpr of the equation.
        eqn: The equation.
        nested: The nested jaxpr.
        held: For each input the variable of the user's that held it; "" where none is known.
        variable: Gives the variable of the user's that held a value outside, or "".
        made: Gives the variable that held an output inside, or "".
    """
    operands = [None if k is None else eqn.invars[k] for k in nested.operands]
    outside = [
        "" if atom is None or introspect.is_literal(atom) else outer.known.get(atom, "")
        for atom in operands
    ]
    variables = [
        "" if name or atom is None or introspect.is_literal(atom) else variable(atom)
        for atom, name in zip(operands, outside, strict=True)
    ]
    # What a derivative adds up in a loop begins with zeros, which have no name: its sum has one.
    ended = _ended(outer, eqn, nested, variable)
    variables = [name or end for name, end in zip(variables, ended, strict=True)]
    names = _in_names(eqn, nested, outside, held or [""] * len(operands), variables, ended)
    numbers = numbered([_word(outer, nested, role) for role in nested.in_roles])
    ins = [
        _shown(role, name, number)
        for role, name, number in zip(nested.in_roles, names, numbers, strict=True)
    ]
    # Jaxprs further inside get these names without roles, so only unique ones are of use; and what
    # an iteration gets of an array is not what the loop got: it has the body's own name, or none.
    # A carry has that of the body, too, if there is one.
    own = argument_names(nested) if not is_of_library(nested, eqn) else [""] * len(names)
    own = [name or arg for name, arg in zip(held or [""] * len(names), own, strict=True)]
    deeper = [
        ((name or inner) if _PASSED.match(inner) else (inner or name))
        if role == "carry"
        else inner
        if role == "x"
        else name
        for role, name, inner in zip(nested.in_roles, names, own, strict=True)
    ]
    once = Counter(deeper)
    known = {
        var: name
        for var, name, role in zip(nested.jaxpr.invars, deeper, nested.in_roles, strict=True)
        if name and (once[name] == 1 or role == "const")
    }
    known |= _constants(nested.jaxpr.constvars, nested.consts, outer.closed)
    results: dict[Any, str] = {}
    for atom, role, k in zip(nested.jaxpr.outvars, nested.out_roles, nested.results, strict=True):
        name = "" if k is None or role != "out" else outer.results.get(eqn.outvars[k], "")
        if name and not introspect.is_literal(atom):
            results.setdefault(atom, name)
    _untagged(nested.jaxpr, results)
    outs = _out_names(outer, eqn, nested, dict(enumerate(names)), made)
    return Names(ins, outs, _tagged(nested.jaxpr, known), results, outer.taken, outer.closed)


def _ended(
    outer: Names,
    eqn: introspect.JaxprEqn,
    nested: introspect.Nested,
    variable: Callable[[Any], str],
) -> list[str]:
    """For each input of a loop the name of a carry after the loop; "" of another one."""
    names = [""] * len(nested.in_roles)
    for j, i in nested.back:
        if (k := nested.results[j]) is not None:
            var = eqn.outvars[k]
            names[i] = names[i] or outer.results.get(var) or variable(var)
    return names


def _constants(
    constvars: Sequence[Any], values: Sequence[Any], name_of: Callable[[Any], str]
) -> dict[Any, str]:
    # Some equations have operands for their constvars. Then the values are unknown.
    named = ((var, name_of(value)) for var, value in zip(constvars, values, strict=False))
    return {var: name for var, name in named if name}


def numbered(roles: Sequence[str]) -> list[str]:
    """A text for each role: `carry`, or `xs 0`, `xs 1` if the role occurs more than once."""
    total, seen = Counter(roles), Counter()
    names = []
    for role in roles:
        word = _WORDS.get(role, role)
        names.append(f"{word} {seen[role]}" if total[role] > 1 else word)
        seen[role] += 1
    return names


def argument_names(nested: introspect.Nested) -> Sequence[str]:
    """The names of the inputs as arguments in the source code; "" for an input without."""
    names = getattr(nested.jaxpr.debug_info, "arg_names", None)
    if names is None or len(names) != len(nested.in_roles):  # JAX made it from another jaxpr
        return [""] * len(nested.in_roles)
    # Two functions in one jaxpr, such as a call and its closure, may use a name twice.
    return [name if names.count(name) == 1 else "" for name in names]


def is_of_library(nested: introspect.Nested, eqn: introspect.JaxprEqn | None) -> bool:
    """Whether a nested jaxpr was traced from a function that is not the user's own.

    Args:
        nested: The jaxpr.
        eqn: The equation that has it, or one in it, which knows whose functions are the user's.
    """
    file = _file_of(nested)
    return bool(file) and introspect.is_library_file(file, eqn)


def is_of_jax(nested: introspect.Nested) -> bool:
    """Whether a nested jaxpr was traced from a function of JAX itself."""
    return pathlib.PurePath(_file_of(nested)).is_relative_to(_JAX)


def function_of(nested: introspect.Nested, eqn: introspect.JaxprEqn) -> str:
    """The name of the user's function that a nested jaxpr was traced from; "" of another one.

    Args:
        nested: The jaxpr.
        eqn: The equation that has it.
    """
    name, _, place = _source_of(nested).partition(" at ")
    return name if place and name.isidentifier() and not is_of_library(nested, eqn) else ""


def _file_of(nested: introspect.Nested) -> str:
    return _source_of(nested).rpartition(" at ")[2].rpartition(":")[0]


def _source_of(nested: introspect.Nested) -> str:
    """`step at model.py:12`; "" where JAX does not know it."""
    return getattr(nested.jaxpr.debug_info, "func_src_info", None) or ""


# --- inside ---------------------------------------------------------------------------------------


def _in_names(
    eqn: introspect.JaxprEqn,
    nested: introspect.Nested,
    outside: Sequence[str],
    held: Sequence[str],
    variables: Sequence[str],
    ended: Sequence[str],
) -> list[str]:
    """The names of inputs, of those outside and inside, without their roles; "" for one without."""
    own = [name or arg for name, arg in zip(held, argument_names(nested), strict=True)]
    library = is_of_library(nested, eqn)
    first: list[str] = []
    for k, (role, out, inner) in enumerate(zip(nested.in_roles, outside, own, strict=True)):
        # Argument names inside are the user's words only if the function is the user's.
        inside = held[k] if library else inner
        if not held[k] and role != "arg" and _PASSED.match(inner):
            inside = variables[k] or inner
        if role == "arg" and not library:
            name = inner or out or variables[k]
        elif role == "carry" and (within := _in_loop(held[k], out or variables[k], ended[k])):
            name = within
        else:
            name = out or inside or variables[k] or (inner if role == "arg" else "")
        first.append(name)
    # If one array enters twice, the names inside tell the two apart. Constants keep their names.
    once = Counter(zip(nested.in_roles, first, strict=True))
    places = Counter(first)
    second = [
        name
        if library or (once[role, name] == 1 and (role == "const" or places[name] == 1))
        else (inner or name)
        for role, name, inner in zip(nested.in_roles, first, own, strict=True)
    ]
    again = Counter(zip(nested.in_roles, second, strict=True))
    return [
        name if again[role, name] == 1 else ""
        for role, name in zip(nested.in_roles, second, strict=True)
    ]


def _in_loop(held: str, out: str, ended: str) -> str:
    """The name of a carry by the variable that an iteration holds it in; "" if that says no more.

    Args:
        held: This variable, or the part of one; "" if none is known.
        out: The name of its first value, outside.
        ended: The variable that holds its last value, outside.

    Example:
        >>> _in_loop("opt_state", "", "")
        'opt_state'
        >>> _in_loop("s.truth", "truth0", "")  # a field of a named tuple
        's.truth'
        >>> _in_loop("stats[2]", "0.0", "count")  # and the variable where it was taken apart
        'count'
        >>> _in_loop("params['w']", "carry[0]['w']", "")
        "params['w']"
    """
    if held.isidentifier():
        return held if held != "carry" else ""
    parts, others = path_parts(held), path_parts(out)
    if len(parts) == 2 and parts[1].startswith(".") and len(others) < 2:
        return held
    if _is_numbered(parts) and ended.isidentifier():
        return ended
    return held if _is_numbered(others) and 0 < len(parts) < len(others) else ""


def _is_numbered(parts: Sequence[str]) -> bool:
    """Whether a path begins with a number, as `carry[0]['w']` does."""
    return len(parts) > 1 and bool(_NUMBERS.fullmatch(parts[1]))


def _out_names(
    outer: Names,
    eqn: introspect.JaxprEqn,
    nested: introspect.Nested,
    in_names: Mapping[int, str],
    made: Callable[[int], str],
) -> list[str]:
    """The names of outputs. A carry has the name of the input that it goes back to."""
    back = {j: in_names[i] for j, i in nested.back}
    own = _result_paths(nested)
    numbers = numbered([_word(outer, nested, role) for role in nested.out_roles])
    shown: list[str] = []
    for j, (role, k) in enumerate(zip(nested.out_roles, nested.results, strict=True)):
        name = back.get(j, "")
        if role == "y":
            name = "" if k is None else outer.results.get(eqn.outvars[k], "")
            # A key of a dictionary says more than a variable, which says more than a number.
            if not re.sub(r"^out|\[\d+\]", "", name) and _NUMBERS.fullmatch(own[j]):
                name = made(j) or name
            if not name and own[j]:
                shown.append(f"{_word(outer, nested, role)}{own[j]}")
                continue
        shown.append(_shown(role, name, numbers[j]))
    once = Counter(shown)
    return [name if once[name] == 1 else numbers[j] for j, name in enumerate(shown)]


def _result_paths(nested: introspect.Nested) -> Sequence[str]:
    """For each output of a scan's body, its path in the PyTree of `ys`, `['loss']`; or ""."""
    paths = getattr(nested.jaxpr.debug_info, "result_paths", None)
    if not isinstance(paths, tuple) or len(paths) != len(nested.out_roles):
        return [""] * len(nested.out_roles)
    start = "result[1]"
    return [path.removeprefix(start) if path.startswith(start) else "" for path in paths]


def _shown(role: str, name: str, number: str) -> str:
    """A name with its role before it; without a name, the role with its number."""
    if not name:
        return number
    word = _WORDS.get(role, role)
    return name if role == "arg" or path_parts(name)[0] == word else f"{word} {name}"


def _word(outer: Names, nested: introspect.Nested, role: str) -> str:
    """The role, or `scan ys` if the user has an argument of the same name."""
    word = _WORDS.get(role, role)
    return f"{nested.title.split()[0]} {word}" if word in outer.taken else word


def _untagged(jaxpr: Any, results: dict[Any, str]) -> None:
    """Give the names of tagged results also to the untagged values."""
    for eqn in reversed(jaxpr.eqns):
        if introspect.is_tag(eqn):
            for var, atom in zip(eqn.outvars, eqn.invars, strict=True):
                if not introspect.is_literal(atom) and var in results:
                    results.setdefault(atom, results[var])


def _tagged(jaxpr: Any, known: dict[Any, str]) -> dict[Any, str]:
    """Names of values, also for their tagged versions."""
    for eqn in jaxpr.eqns if known else ():
        if introspect.is_tag(eqn):
            for var, atom in zip(eqn.outvars, eqn.invars, strict=True):
                if not introspect.is_literal(atom) and atom in known:
                    known[var] = known[atom]
    return known
