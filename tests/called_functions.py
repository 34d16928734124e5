"""The user's functions that a program calls, and those that its first picture names."""

import re

import taxpr
from taxpr_jupyter._model.model import Picture

_METHOD = re.compile(r"__\w+__")  # a module is named by its class, not by its `__call__`


def called_functions(program: taxpr.Program) -> dict[str, None]:
    """The names of the user's functions that made its equations, but for the traced one."""
    found: dict[str, None] = {}
    for _, eqn in taxpr.iter_eqns(program):
        for one in taxpr.statements_of(eqn):
            *around, name = one.function.replace("<locals>.", "").split(".")
            found[around[-1] if _METHOD.fullmatch(name) and around else name] = None
    return {name: None for name in found if name not in (program.name, "<lambda>")}


def hidden_functions(program: taxpr.Program, picture: Picture) -> list[str]:
    """Those of them that the picture does not name."""
    shown = [line for one in (*picture.nodes, *picture.clusters) for line in one.lines]
    words = set(re.findall(r"\w+", "\n".join(shown)))
    return [name for name in called_functions(program) if name not in words]
