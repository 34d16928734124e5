"""Python that does what a session does, without the session.

It uses the public names of taxpr, the names of the user's cell, and nothing else.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taxpr
from taxpr_jupyter._code.imports import free_names, import_lines
from taxpr_jupyter._code.state_code import StatesOf, pure_lines
from taxpr_jupyter._edits.attach import Attached
from taxpr_jupyter._edits.functions import is_empty, with_fixed
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._runs.array_diff import is_key
from taxpr_jupyter._tracing.call_names import expression

_LARGEST = 64  # elements of an array that is written out
_NO_CODE = "..."
_ADDRESS = re.compile(r"(in|const|out|t)\d+")  # those that could be taken for a name


@dataclasses.dataclass(frozen=True)
class Source:
    """What was asked for, in the user's words.

    Attributes:
        call: The call, such as ``f(x, n=3)``.
        static_argnums: Positions of the arguments that are not traced.
        static_argnames: Names of the arguments that are not traced.
        namespace: Where names are looked up.
    """

    call: str
    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    namespace: Mapping[str, Any]


def code_of(
    source: Source,
    added: Mapping[str, Mapping[str, Any]],
    sites: Sequence[SiteRow],
    states: StatesOf | None = None,
) -> str:
    """The code that traces the call, adds the tags, attaches the injectors and runs.

    Args:
        source: The call.
        added: The params of the added tags, by value address.
        sites: All tags, with their injectors.
        states: Those of the function, if it uses some.
    """
    call = ast.parse(source.call, mode="eval").body
    assert isinstance(call, ast.Call)
    lines, traced, imports = _start(call, source, states)
    lines += [
        f"program = program.tag_at({address!r}, {_keywords(params)})"
        for address, params in added.items()
    ]
    out = "(out, states)" if states else "out"
    if not states:
        before, traced = _traced(call, source)
        lines += before
    if any(site.injector for site in sites):
        lines.append("injected = program.inject({")
        for number, site in enumerate(sites):
            if site.injector:
                made = injector_code(site.injector, source.namespace)
                lines.append(f"    {_selector(number, sites)}: {made},")
        lines.append("})")
        inner = ", ".join(["injected.ctx", *traced])
        lines.append(f"{out}, ctx = jax.jit(injected)({inner})")
        lines.append("report = injected.report(ctx)")
    else:
        lines.append(f"{out.strip('()')} = jax.jit(program)({', '.join(traced)})")
    body = "\n".join(lines)
    head = _head(body, imports, source.namespace)
    known = {*source.namespace, *dir(builtins)}
    missing = [name for name in free_names(source.call) if name not in known]
    if missing:
        head += ["", f"# As given to `panel`: {', '.join(missing)}"]
    if f"={_NO_CODE}" in body or f"({_NO_CODE}" in body:
        head += ["", f"# {_NO_CODE} stands for a value that has no name in the notebook"]
    return "\n".join([*head, "", body, ""])


def _head(body: str, imports: Sequence[str], namespace: Mapping[str, Any]) -> list[str]:
    """The imports: those of the code of ours, and those of the names of the user."""
    ours = ["jax", *(["numpy as np"] if "np.array(" in body else []), "taxpr"]
    ours += [one for one in ("dataclasses", "functools") if f"{one}." in body]
    # Of two that give one name the later stays: the user's call means the user's `np`.
    lines = [*(f"import {one}" for one in ours), *import_lines(body, namespace), *imports]
    by_name = {line.split()[-1]: line for line in lines}
    return sorted(by_name.values(), key=lambda line: (line.startswith("from"), line))


def _start(
    call: ast.Call, source: Source, states: StatesOf | None
) -> tuple[list[str], list[str], Sequence[str]]:
    """Lines that trace the call; the arguments that are traced; imports that the lines need."""
    fn = ast.unparse(call.func)
    if not states:
        statics = ""
        if source.static_argnums:
            statics += f", static_argnums={source.static_argnums}"
        if source.static_argnames:
            statics += f", static_argnames={source.static_argnames}"
        every = ", ".join(_arguments(call))
        return [f"program = taxpr.trace({fn}{statics})({every})"], [], ()
    pure = pure_lines(
        states,
        fn,
        [ast.unparse(arg) for arg in call.args],
        [ast.unparse(word) for word in call.keywords],
        source.static_argnums,
        source.static_argnames,
        lambda value: value_code(value, source.namespace),
    )
    every = ", ".join(["states", *pure.args])
    lines = [*pure.lines, f"program = taxpr.trace(pure)({every})"]
    return lines, ["states", *pure.args], pure.imports


def injector_code(attached: Attached, namespace: Mapping[str, Any]) -> str:
    """Python that makes the injector: ``taxpr.scale(factor=0.5)``."""
    made, source = attached.injector, attached.source
    if isinstance(source, taxpr.InjectorKind):
        defaults = {name: param.default for name, param in source.params.items()}
        values = {k: v for k, v in made.values.items() if not _is_open(v, defaults[k])}
        words = {**values, **made.options}
        return f"{attached.maker}({_keywords(words, namespace)})"
    if isinstance(source, taxpr.Injector):
        changed = {k: v for k, v in made.values.items() if v is not source.values[k]}
        if not changed:
            return attached.maker
        values = f"{{**{attached.maker}.values, **dict({_keywords(changed, namespace)})}}"
        return f"dataclasses.replace({attached.maker}, values={values})"
    words = {} if is_empty(attached.ctx) else {"ctx": attached.ctx}
    given = _keywords({**words, **made.values}, namespace)
    fixed = with_fixed(source, made.options)
    function = attached.maker
    if fixed is not source:
        function = f"functools.partial({function}, {_keywords(fixed.keywords, namespace)})"
    return f"taxpr.from_function({function}{', ' if given else ''}{given})"


def _is_open(value: Any, default: Any) -> bool:
    """Whether it is an infinite default, which is easier to read where it is left out."""
    numbers = isinstance(value, float) and isinstance(default, float)
    return numbers and math.isinf(value) and value == default


def value_code(value: Any, namespace: Mapping[str, Any]) -> str:
    """Python for a number, an array, a PRNG key, a dtype, or a tree of these."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    text = expression(value, namespace)
    if text is not None:
        return text
    if isinstance(value, tuple):
        inner = ", ".join(value_code(item, namespace) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(value_code(item, namespace) for item in value)}]"
    if isinstance(value, dict):
        pairs = (f"{key!r}: {value_code(item, namespace)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (np.dtype, type(jnp.float32), type)):
        return _dtype_code(value, namespace)
    if is_key(value):
        return _key_code(value)
    if isinstance(value, (jax.Array, np.ndarray, np.generic)) and np.size(value) <= _LARGEST:
        array = np.asarray(value)
        items = value_code(array.tolist(), {})
        return f"np.array({items}, dtype={str(array.dtype)!r})"
    return _NO_CODE


def _key_code(key: Any) -> str:
    """A key by the seed that gives it, or by its bits."""
    impl, bits = jax.random.key_impl(key), np.asarray(jax.random.key_data(key))
    if not isinstance(impl, str) or bits.size > _LARGEST:
        return _NO_CODE
    if key.ndim == 0:
        seed, given = int(bits[-1]), ""
        if jax.random.key(0).dtype != key.dtype:
            given = f", impl={impl!r}"
        made = jax.random.key_data(jax.random.key(seed, impl=impl))
        if np.array_equal(made, bits):
            return f"jax.random.key({seed}{given})"
    return f"jax.random.wrap_key_data({value_code(bits, {})}, impl={impl!r})"


def _dtype_code(dtype: Any, namespace: Mapping[str, Any]) -> str:
    """A dtype, or what stands for one, such as ``jnp.bfloat16``."""
    if dtype in (bool, int, float, complex):
        return dtype.__name__
    try:
        found = np.dtype(dtype)
    except TypeError:
        return _NO_CODE
    scalar = getattr(jnp, found.name, None)
    if scalar is None or jnp.dtype(scalar) != found:
        return _NO_CODE
    return expression(scalar, namespace) or f"jax.numpy.{found.name}"


def _arguments(call: ast.Call) -> list[str]:
    return [ast.unparse(node) for node in (*call.args, *call.keywords)]


def _traced(call: ast.Call, source: Source) -> tuple[list[str], list[str]]:
    """Lines to put before, and the arguments of the call without those that are static."""
    keywords = [word for word in call.keywords if word.arg not in source.static_argnames]
    words = [ast.unparse(word) for word in keywords]
    first_star = next(
        (k for k, arg in enumerate(call.args) if isinstance(arg, ast.Starred)), len(call.args)
    )
    if all(number < first_star for number in source.static_argnums):
        kept = [arg for k, arg in enumerate(call.args) if k not in source.static_argnums]
        return [], [*(ast.unparse(arg) for arg in kept), *words]
    every = ", ".join(ast.unparse(arg) for arg in call.args)
    numbers = source.static_argnums
    line = f"traced = [arg for k, arg in enumerate([{every}]) if k not in {numbers}]"
    return [line], ["*traced", *words]


def _selector(number: int, sites: Sequence[SiteRow]) -> str:
    """Python for the tag's name where it can be nothing else, for its address, or for itself."""
    site, names = sites[number], [site.name for site in sites]
    name = site.params.get("name")
    plain = isinstance(name, str) and name.isidentifier() and not _ADDRESS.fullmatch(name)
    if plain and names.count(name) == 1:
        return repr(name)
    return f"program.tags()[{number}]" if site.address in names else repr(site.address)


def _keywords(params: Mapping[str, Any], namespace: Mapping[str, Any] | None = None) -> str:
    """``name='h', layer=3``; a dict to unpack where a name is no identifier."""
    texts = {key: value_code(value, namespace or {}) for key, value in params.items()}
    if all(key.isidentifier() for key in texts):
        return ", ".join(f"{key}={text}" for key, text in texts.items())
    return "**{" + ", ".join(f"{key!r}: {text}" for key, text in texts.items()) + "}"
