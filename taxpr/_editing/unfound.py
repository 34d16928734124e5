"""Say why an edit has changed nothing."""

import gc
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr._editing.bindings import in_comprehension, near
from taxpr._editing.changer import Edits
from taxpr._editing.exchange import own_code
from taxpr._editing.functions import found_at
from taxpr._editing.reached import every_function
from taxpr._editing.spelled import RETURN, Spelled, owners_of, place_of
from taxpr._errors import RefusedError
from taxpr._sites.criteria import nearest
from taxpr._source.parsed import codes_in

_LATER = (
    "If it is the rule of a derivative that is taken around the edit, edit the derivative: "
    "edit(jax.grad(f), ...)."
)
_TRACED = (
    "A traced or compiled function, such as a Program, has no lines: edit the function that it "
    "was made of."
)
_WITH_RULES: Any = (jax.custom_vjp, jax.custom_jvp)


def why_unfound(edits: Edits, number: int, fun: Callable[..., Any]) -> str:
    """Why an edit changed nothing in a run of the function."""
    one = edits.edits[number]
    of = Spelled(one.text.removesuffix(RETURN), one.line, one.of.within)
    codes = edits.ran_in(of.within[0] if of.within else "")
    known, lines = near(codes, of)
    if (why := edits.missed.get(number)) is not None:
        return f"{why}."
    if lines and one.line is not None:
        return f"it is bound in line {', '.join(map(str, lines))}."
    if in_comprehension(codes, of):
        return (
            "a comprehension binds it, and has no place for an edit. Write a loop, or edit the "
            "list that it goes over."
        )
    if lines:
        return "no line that ran binds it."
    if why := _of_rules(edits, of):
        return why
    if (code := edits.exchanged.get(number)) is not None:
        return _not_called(code)
    if why := _of_function(one.text, fun):
        return why
    if not known:
        return f"none of your functions ran. {_TRACED}"
    in_function = "." in one.text and one.text not in known
    if in_function and (code := _idle(edits, of)) is not None:
        return f"{_not_called(code)} {_LATER}"
    if _is_global(codes, of, fun):
        return "it is a global variable. Edit a variable of a function that is computed with it."
    why = "no line that ran binds such a variable." + nearest(one.text, sorted(known))
    return f"{why} {_LATER}" if in_function else why


def _not_called(code: types.CodeType) -> str:
    return f"{code.co_qualname} ({place_of(code)}) was not called."


def _idle(edits: Edits, of: Spelled) -> types.CodeType | None:
    """A function that the text names, and that has the variable and has not run."""
    every = (code for function in every_function() for code in codes_in(own_code(function)))
    named = (code for code in every if code.co_name in of.text.split("."))
    return next((code for code in named if id(code) not in edits.ran and _has(code, of)), None)


def _is_global(codes: Sequence[types.CodeType], of: Spelled, fun: Callable[..., Any]) -> bool:
    name = of.text.partition("[")[0]
    known = getattr(inspect.unwrap(fun), "__globals__", {})
    return name in known and any(name in code.co_names for code in codes)


def _of_rules(edits: Edits, of: Spelled) -> str:
    """That a function has the variable, but a rule of its own ran in its place."""
    for function in gc.get_objects():
        if type(function) not in _WITH_RULES:
            continue
        code = getattr(function.__wrapped__, "__code__", None)
        rule = getattr(function, "fwd", None) or getattr(function, "jvp", None)
        if not isinstance(code, types.CodeType) or not _has(code, of):
            continue
        name, ruled = code.co_qualname, getattr(rule, "__code__", None)
        if ruled is None or id(ruled) not in edits.ran:
            continue
        rules = ".".join(owners_of(ruled.co_qualname))
        kind = "fwd" if hasattr(function, "fwd") else "jvp"
        place = place_of(ruled)
        return (
            f"{name} has a derivative rule of its own, and where a derivative is taken that runs "
            f"in its place: {rules} ({place}) as {kind}. Edit a variable of the rule, such as "
            f"{_first(ruled, rules)!r}, or the one that holds what {name} returns."
        )
    return ""


def _has(code: types.CodeType, of: Spelled) -> bool:
    names: Sequence[str] = (*code.co_varnames, *code.co_cellvars)
    file, function = code.co_filename, code.co_qualname
    return any(of.rest(file, function, name) is not None for name in names)


def _first(code: types.CodeType, function: str) -> str:
    """A variable of a function, for a selector: if possible, a variable that a line binds."""
    every = code.co_varnames
    parameters = code.co_argcount + code.co_kwonlyargcount
    return f"{function}.{(every[parameters:] or every)[0]}"


def _of_function(text: str, fun: Callable[..., Any]) -> str:
    """That the text names a function, which an expression does not change."""
    if "." not in text and text not in getattr(inspect.unwrap(fun), "__globals__", {}):
        return ""  # one of that name in another module is in nobody's way
    try:
        found = list(found_at(text, fun))
    except RefusedError as why:
        return str(why).removeprefix("edit: ")
    if not found:
        return ""
    code, name = found[0].__code__, text.rpartition(".")[2]
    return (
        f"it is a function ({place_of(code)}) and no variable. "
        f"Give what makes another function of it, such as lambda {name}: jax.checkpoint({name}), "
        f"or the function itself in place of its name: edit(fun, {name}, "
        f"'jax.checkpoint({name})')."
    )
