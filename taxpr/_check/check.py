"""`check`: find suspicious statements in a program, without running it."""

import dataclasses
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from taxpr import _compat
from taxpr._answers.tables import alike, of_any_index
from taxpr._check.argument_changes import results_of, with_changes
from taxpr._check.findings import Finding, Findings, Rule, Suspicion
from taxpr._check.levels import Examined
from taxpr._check.rules import RULES
from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._given import listed
from taxpr._places import place_text
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._transforms.question import question

_IGNORED = re.compile(r"#\s*taxpr:\s*ignore(?:\[([\w\s,-]*)\])?")


@question
def check(
    fun: Any,
    *,
    ignore: Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Callable[..., Findings]:
    """Find suspicious statements in a function, without running it.

    Its rules find floats that silently become wider, Python scalars that make JAX trace again,
    large constants, values that nothing uses or that are computed twice, unusable donations,
    callbacks in loops, a `jnp.where` or a root whose gradient is NaN, and loops that Python
    unrolled; ``docs/how-to/check.md`` has their table. A comment ``# taxpr: ignore[promotion]`` in
    a line switches a rule off there, ``# taxpr: ignore`` all of them.

    Args:
        fun: A function of PyTrees of arrays; or a `Program`, which takes no arguments then.
        ignore: The names of rules to leave out.
        static_argnums: As for `trace`.
        static_argnames: As for `trace`.

    Returns:
        A function of the arguments of ``fun``, which may be of `jax.ShapeDtypeStruct`. It returns
        an `Answer`, whose rows have ``rule``, ``line``, ``variable``, ``what``, ``fix``,
        ``statement``, ``file`` and ``address``; it is false if nothing was found. Findings of
        one expression, such as one in each layer, share a row, with the number of ``times`` and all
        ``addresses`` and ``variables``.

    Raises:
        ArgumentError: If there is no such rule.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def root(x):
        ...     y = jnp.where(x > 0, jnp.sqrt(x), 0.0)
        ...     return y
        >>> found = taxpr.check(root)(jnp.ones(3))
        >>> [(row.rule, row.variable) for row in found.rows]
        [('where-gradient', 'root.x')]
        >>> bool(taxpr.check(root, ignore=["where-gradient"])(jnp.ones(3)))
        False
    """
    several = listed(ignore)
    ignored: list[Any] = [ignore] if several is None else several
    for name in ignored:
        if not isinstance(name, str) or name not in RULES:
            raise ArgumentError(f"check: there is no rule {name!r}. There are {', '.join(RULES)}.")
    rules = [rule for name, rule in RULES.items() if name not in ignored]
    if isinstance(fun, Program):
        program = fun
        return lambda: _findings(Examined(program, None), rules)
    refuse_no_function("check", fun)
    changing = with_changes(fun)
    program_of = trace(
        changing,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        names=None,
    )

    @called_as(fun)
    def checked(*args: PyTree, **kwargs: PyTree) -> Findings:
        program = program_of(*args, **kwargs)
        return _findings(Examined(program, fun, results_of(program, changing)), rules)

    return checked


def _findings(program: Examined, rules: Iterable[Rule]) -> Findings:
    rows: list[tuple[object, Finding]] = []
    parts: set[object] = set()
    said: set[tuple[str, ...]] = set()
    switched_off = 0
    for rule in rules:
        for one in rule.look(program):
            found = _finding(rule, one, program)
            place = found.rule, found.file, found.line
            part = *place, _part(one), found.fix
            # What a derivative adds to a line has no variable.
            known = (*place, found.variable) in said and part not in parts
            if known or (not found.variable and place in said):
                continue
            said |= {place, (*place, found.variable)}
            if _is_ignored(rule, one, found, program):
                switched_off += 1
            else:
                parts.add(part)
                rows.append((part, found))
    merged = [_together([row for _, row in group]) for group in alike(rows, lambda row: row[0])]
    n, places = len(merged), sum(row.times for row in merged)
    headline = f"check of {program.program.name}: {n or 'no'} finding{'s' if n != 1 else ''}"
    headline += f" in {places} places" if places > n else ""
    notes = (f"{switched_off} more switched off by comments.",) if switched_off else ()
    return Findings(headline, merged, notes)


def _part(one: Suspicion) -> object:
    """An expression of the source, or an argument with any indices: each layer repeats it."""
    return one.statements[0].part if one.statements else of_any_index(one.variable)


def _together(rows: Sequence[Finding]) -> Finding:
    """Findings of one expression as one."""
    variables = tuple(dict.fromkeys(row.variable for row in rows if row.variable))
    addresses = tuple(dict.fromkeys(row.address for row in rows))
    first = rows[0]
    return dataclasses.replace(
        first, times=len(addresses), addresses=addresses, variables=variables
    )


def _finding(rule: Rule, one: Suspicion, program: Examined) -> Finding:
    file, line, text = _place(one, program.program)
    return Finding(
        rule.name,
        place_text(file, line),
        one.variable,
        one.what,
        one.fix or rule.fix,
        text,
        file,
        str(one.address),
    )


def _place(one: Suspicion, program: Program) -> tuple[str, int, str]:
    """The file, line and text of a statement, or of the function itself."""
    for statement in one.statements:
        return statement.file, statement.line, statement.text
    file, line = _compat.function_of(program.jaxpr) or ("", 0)
    return file, line, f"def {program.name}" if file else ""


def _is_ignored(rule: Rule, one: Suspicion, found: Finding, program: Examined) -> bool:
    """Whether a comment in one of the statement's lines switches the rule off."""
    for file, first, last in _lines(one, found, program):
        for number in range(first, last + 1):
            comment = _IGNORED.search(linecache.getline(file, number))
            if comment and (comment[1] is None or rule.name in re.split(r"[\s,]+", comment[1])):
                return True
    return False


def _lines(one: Suspicion, found: Finding, program: Examined) -> Iterator[tuple[str, int, int]]:
    if one.statements:
        statement = one.statements[0]
        last = statement.place[2] if statement.place and statement.text else statement.line
        # Of a statement with a body only its head; a body begins on a line of its own.
        yield statement.file, statement.line, min(last, statement.line + 20)
    elif found.file:
        _, line, _ = _place(one, program.program)
        yield found.file, line, line
