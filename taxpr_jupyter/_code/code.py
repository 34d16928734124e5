"""`code_of`: Python that does what a session does, without the session.

The code uses the public names of taxpr and the names of the notebook. At its top it imports what
can be imported and lists the names to define first. Its own variables never take a name that it or
the user's functions read.
"""

import ast
import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from taxpr_jupyter._code.code_names import CodeNames
from taxpr_jupyter._code.config import config_now
from taxpr_jupyter._code.imports import free_names
from taxpr_jupyter._code.injectors import injector_code
from taxpr_jupyter._code.state_code import StatesOf, pure_lines, unwritten
from taxpr_jupyter._code.value_code import keywords, value_code, written
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._model.questions import Question, question_of
from taxpr_jupyter._tracing.trace import Names

_ADDRESS = re.compile(r"(in|const|out|t)\d+")  # those that could be taken for a name
# A variable, and an injector or a line of Python.
Changed = tuple[Any, Attached | str]
_ONE_BY_ONE = (
    "# Equation by equation, since some arguments are no arrays: what jax.jit compiles as a whole "
    "may\n# be rounded otherwise."
)
_LONGEST = 2000  # the most characters of arguments that are written out


@dataclasses.dataclass(frozen=True)
class CallSource:
    """The user's call, as written.

    Attributes:
        call: The call, such as ``f(x, n=3)``.
        static_argnums: Positions of the static arguments.
        static_argnames: Names of the static arguments.
        namespace: The names of the notebook.
        given: Objects without a name in the notebook, by their names in the call.
        named: The objects that the names of the call meant when it was traced.
        config: The settings of JAX under which it was traced, as far as they matter.
        names: The names that were asked for, as for `taxpr.trace`.
    """

    call: str
    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    namespace: Mapping[str, Any]
    given: Mapping[str, Any]
    named: Mapping[str, Any]
    config: Mapping[str, Any]
    names: Names = None


def source_now(
    call: str,
    static_argnums: tuple[int, ...],
    static_argnames: tuple[str, ...],
    namespace: Mapping[str, Any],
    given: Mapping[str, Any],
    names: Names = None,
) -> CallSource:
    """Record a call with the present meaning of its names, which the notebook may change later."""
    read = free_names(call)
    given = {name: given[name] for name in read if name in given and name not in namespace}
    named = {name: namespace[name] for name in read if name in namespace}
    config = config_now()
    statics = static_argnums, static_argnames
    return CallSource(call, *statics, namespace, given, named, config, names)


def code_of(
    source: CallSource,
    added: Mapping[str, Mapping[str, Any]],
    sites: Sequence[SiteRow],
    held: Mapping[str, str] = MappingProxyType({}),
    states: StatesOf | None = None,
    question: str | None = None,
    of: str = "",
    compiled: bool = True,
    changes: Sequence[Changed] = (),
) -> str:
    """The code that traces the call, adds the tags, attaches the injectors and runs.

    Args:
        source: The call.
        added: The params of the added tags, by value address.
        sites: All tags, with their injectors.
        held: For values that a variable held a selector, such as ``var('scores')``.
        states: The states of the function, if it uses some.
        question: The question to ask instead of running.
        of: The result whose gradients are asked for; empty for the first one.
        compiled: Whether `jax.jit` compiles it, which takes nothing but arrays.
        changes: The changed variables of the source, and their changes.
    """
    if states and (said := unwritten(states)):
        return said
    names = CodeNames(source.namespace, source.named, source.given, source.call)
    asked = None if question is None else question_of(question)
    if question is None or asked is None or asked.needs == "injectors":
        more = (states, names, asked, compiled, changes)
        write = functools.partial(_body, source, added, sites, held, *more)
    else:
        write = functools.partial(_asking, source, states, names, question, of, changes)
    attached = [site.injector.source for site in sites if site.injector]
    called = [*source.named.values(), *source.given.values()]
    names.choose_own(write(), [*called, *attached])
    body = write()
    return "\n".join([*names.head(body, source.config), body, ""])


def _body(
    source: CallSource,
    added: Mapping[str, Mapping[str, Any]],
    sites: Sequence[SiteRow],
    held: Mapping[str, str],
    states: StatesOf | None,
    names: CodeNames,
    question: Question | None,
    compiled: bool,
    changes: Sequence[Changed],
) -> str:
    """The code without its head."""
    call = ast.parse(source.call, mode="eval").body
    assert isinstance(call, ast.Call)
    program, injected, out = (names.own(name) for name in ("program", "injected", "out"))
    lines = _given(source, names)
    injecting = [site.injector and not site.injector.edits for site in sites]
    if not any(injecting):  # the tags of edits are of no use
        added = _without_edits(added, sites)
    variables = any(map(held.get, added))
    started, traced, fun = _start(call, source, states, program, names, variables, changes)
    lines += started
    for address, params in added.items():
        need = functools.partial(names.named, base="value", what=f"of the tag at {address}")
        words = keywords(params, functools.partial(value_code, names=names, need=need))
        where = f"{names.module('taxpr')}.{held[address]}" if address in held else repr(address)
        lines.append(f"{program} = {program}.tag_at({where}, {words})")
    jit = f"{names.module('jax')}.jit" if compiled else ""
    results = f"({out}, {names.own('states')})" if states else out
    if any(injecting):
        lines.append(f"{injected} = {program}.inject({{")
        for number, site in enumerate(sites):
            if site.injector and injecting[number]:
                made = injector_code(site.injector, site.title, names)
                lines.append(f"    {_selector(number, sites, program)}: {made},")
        lines.append("})")
        if question:
            before = fun if changes else program
            compared = f"{names.module('taxpr')}.{question.function}({before}, {injected})"
            return "\n".join([*lines, f"{compared}({', '.join(traced)})"])
        inner, ctx = ", ".join([f"{injected}.ctx", *traced]), names.own("ctx")
        lines += [] if compiled else [_ONE_BY_ONE]
        lines.append(f"{results}, {ctx} = {_within(jit, injected)}({inner})")
        lines.append(f"{names.own('report')} = {injected}.report({ctx})")
    elif question:
        compared = f"{names.module('taxpr')}.{question.function}({fun}, {program})"
        lines.append(f"{compared}({', '.join(traced)})")
    else:
        lines += [] if compiled else [_ONE_BY_ONE]
        lines.append(f"{results.strip('()')} = {_within(jit, program)}({', '.join(traced)})")
    return "\n".join(lines)


def _within(jit: str, name: str) -> str:
    return f"{jit}({name})" if jit else name


def _without_edits(
    added: Mapping[str, Mapping[str, Any]], sites: Sequence[SiteRow]
) -> Mapping[str, Mapping[str, Any]]:
    edits = {site.key for site in sites if site.injector and site.injector.edits}
    return {address: params for address, params in added.items() if address not in edits}


def _edited(fun: str, changes: Sequence[Changed], names: CodeNames) -> tuple[list[str], str]:
    """Lines that edit a function, and its new name."""
    lines: list[str] = []
    edit = f"{names.module('taxpr')}.edit"
    for of_lines in (True, False):  # in two steps: a variable can have a line and an injector
        own = [
            (f"{names.module('taxpr')}.{where!r}", _by(where, by, names))
            for where, by in changes
            if isinstance(by, str) is of_lines
        ]
        if own:
            name = names.own("edited")
            one = ", ".join(own[0])
            several = "".join(f"    {where}: {by},\n" for where, by in own)
            given = one if len(own) == 1 else f"{{\n{several}}}"
            lines.append(f"{name} = {edit}({fun}, {given})")
            fun = name
    return lines, fun


def _by(where: Any, by: str | Attached, names: CodeNames) -> str:
    return repr(by) if isinstance(by, str) else injector_code(by, repr(where), names)


def _asking(
    source: CallSource,
    states: StatesOf | None,
    names: CodeNames,
    name: str,
    of: str,
    changes: Sequence[Changed],
) -> str:
    """Code that asks a question, of the function itself where that has no states and statics."""
    call = ast.parse(source.call, mode="eval").body
    assert isinstance(call, ast.Call)
    lines, asked, traced = _given(source, names), ast.unparse(call.func), _arguments(call)
    question = question_of(name)
    statics = source.static_argnums or source.static_argnames
    if statics or states:
        asked = names.own("program")
        started, traced, _ = _start(call, source, states, asked, names, True, changes)
        if not question.runs:
            traced = []
        if question.of_function:
            if statics:
                return f"# A function with static arguments: session.ask({name!r})"
            asked = names.own("edited" if changes else "pure")
            started.pop()
        lines += started
    else:
        more, asked = _edited(asked, changes, names)
        lines += more
    more = f", {question.other!r}" if question.other else ""
    if of:  # a function with states returns them beside its result
        more += f", of={(of.replace('out', 'out[0]', 1) if states else of)!r}"
    asking = f"{names.module('taxpr')}.{question.function}({asked}{more})({', '.join(traced)})"
    return "\n".join([*lines, asking])


def _given(source: CallSource, names: CodeNames) -> list[str]:
    """Lines that define the arguments without a name in the notebook, if they are short."""
    lines = []
    for name, value in source.given.items():
        text = written(value, names)
        if text is not None and len(text) <= _LONGEST:
            lines.append(f"{name} = {text}")
    return lines


def _start(
    call: ast.Call,
    source: CallSource,
    states: StatesOf | None,
    program: str,
    names: CodeNames,
    variables: bool,
    changes: Sequence[Changed],
) -> tuple[list[str], list[str], str]:
    """Lines that trace the call, with its variables if these are needed.

    Returns:
        The lines, the traced arguments, and the function of these without changes.
    """
    fun, trace = ast.unparse(call.func), f"{names.module('taxpr')}.trace"
    asked = True if isinstance(source.names, bool | None) else source.names
    noted = f", names={asked!r}" if variables else ""
    if not states:
        statics = noted
        if source.static_argnums:
            statics += f", static_argnums={source.static_argnums}"
        if source.static_argnames:
            statics += f", static_argnames={source.static_argnames}"
        every = ", ".join(_arguments(call))
        before, traced = _traced(call, source, names)
        edits, edited = _edited(fun, changes, names)
        line = f"{program} = {trace}({edited}{statics})({every})"
        return [*edits, line, *before], traced, fun
    if not isinstance(call.func, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        fun = f"({fun})"
    pure = pure_lines(
        states,
        fun,
        [ast.unparse(arg) for arg in call.args],
        [ast.unparse(word) for word in call.keywords],
        source.static_argnums,
        source.static_argnames,
        names,
    )
    every = [names.own("states"), *pure.args]
    edits, edited = _edited(names.own("pure"), changes, names)
    line = f"{program} = {trace}({edited}{noted})({', '.join(every)})"
    return [*pure.lines, *edits, line], every, names.own("pure")


def _arguments(call: ast.Call) -> list[str]:
    return [ast.unparse(node) for node in (*call.args, *call.keywords)]


def _traced(call: ast.Call, source: CallSource, names: CodeNames) -> tuple[list[str], list[str]]:
    """Lines to put before the call, and its arguments without static ones."""
    words = [ast.unparse(word) for word in call.keywords if word.arg not in source.static_argnames]
    first_star = next(
        (k for k, arg in enumerate(call.args) if isinstance(arg, ast.Starred)), len(call.args)
    )
    if all(number < first_star for number in source.static_argnums):
        kept = [arg for k, arg in enumerate(call.args) if k not in source.static_argnums]
        return [], [*(ast.unparse(arg) for arg in kept), *words]
    every = ", ".join(ast.unparse(arg) for arg in call.args)
    traced, numbers = names.own("traced"), source.static_argnums
    line = f"{traced} = [arg for k, arg in enumerate([{every}]) if k not in {numbers}]"
    return [line], [f"*{traced}", *words]


def _selector(number: int, sites: Sequence[SiteRow], program: str) -> str:
    """Python that selects a tag: by its name if unique, by its address, or by the site itself."""
    site, names = sites[number], [site.name for site in sites]
    name = site.params.get("name")
    plain = isinstance(name, str) and name.isidentifier() and not _ADDRESS.fullmatch(name)
    if plain and names.count(name) == 1:
        return repr(name)
    return f"{program}.tags()[{number}]" if site.address in names else repr(site.address)
