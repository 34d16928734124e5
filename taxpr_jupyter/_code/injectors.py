"""Write injectors as Python: ``taxpr.scale(factor=0.5)``."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._code.code_names import CodeNames
from taxpr_jupyter._code.value_code import keywords, value_code
from taxpr_jupyter._edits.attached import Attached, is_made_by
from taxpr_jupyter._edits.functions import is_empty, is_function, with_fixed

_PER_EXAMPLE = type(taxpr.per_example(taxpr.count()))
_FIRE = taxpr.from_function(lambda ctx, token, params: (token, ctx)).fire


def injector_code(attached: Attached, place: str, names: CodeNames) -> str:
    """Python that makes an injector: ``taxpr.scale(factor=0.5)``; of several a list."""
    if attached.parts:
        acting = [one for one in attached.each if not one.off]
        return f"[{', '.join(injector_code(one, place, names) for one in acting)}]"
    made, source = attached.injector, attached.source
    bound = attached.bound if names.is_bound(attached.bound, source) else None
    if is_function(source):
        fixed = with_fixed(source, made.options)
        return _function(made, fixed, attached.ctx, bound, place, names)
    if isinstance(source, taxpr.injectors.InjectorKind):
        return _kind(made, source, bound, place, names)
    known = bound or names.expression(source)
    if known is None:
        return _unnamed(made, source, place, names)
    changed = {k: v for k, v in made.values.items() if v is not source.values[k]}
    if not changed:
        return known
    values = keywords(changed, _values(names, made, place))
    replace = f"{names.module('dataclasses')}.replace"
    return f"{replace}({known}, values={{**{known}.values, **dict({values})}})"


def _unnamed(made: taxpr.injectors.Injector, source: Any, place: str, names: CodeNames) -> str:
    """An injector without a name in the notebook, written as the call that made it if known."""
    kind = next((kind for kind in names.kinds() if is_made_by(source, kind)), None)
    if kind is not None:
        return _kind(made, kind, None, place, names)
    if isinstance(source, _PER_EXAMPLE):
        inner = vars(source)["one"]
        one = _unnamed(inner, inner, place, names)
        return f"{names.module('taxpr')}.per_example({one})"
    function = getattr(source.fire, "__wrapped__", None)
    if getattr(source.fire, "__code__", None) is _FIRE.__code__ and function is not None:
        return _function(made, function, source.new_state(None), None, place, names)
    return names.named(source, "injector", f"the injector at {place}")


def _kind(
    made: taxpr.injectors.Injector,
    kind: taxpr.injectors.InjectorKind,
    bound: str | None,
    place: str,
    names: CodeNames,
) -> str:
    defaults = {name: param.default for name, param in kind.params.items()}
    values = {k: v for k, v in made.values.items() if not _is_open(v, defaults.get(k))}
    if taxpr.ready_injectors().get(kind.name) is kind:
        maker = f"{names.module('taxpr')}.{kind.name}"
    else:
        maker = bound or names.named(kind, kind.name, f"the kind of the injector at {place}")
    return f"{maker}({keywords({**values, **made.options}, _values(names, made, place))})"


def _function(
    made: taxpr.injectors.Injector,
    function: Any,
    ctx: Any,
    bound: str | None,
    place: str,
    names: CodeNames,
) -> str:
    code = _values(names, made, place)
    words: Mapping[str, Any] = {} if is_empty(ctx) else {"ctx": ctx}
    words = {**words, **({"observes": True} if made.observes else {}), **made.values}
    what = f"the injector at {place}"
    need = functools.partial(_named, names, "injector", what)
    maker = (
        bound if bound and names.is_bound(bound, function) else value_code(function, names, need)
    )
    given = keywords(words, code)
    taken = f"{maker}, {given}" if given else maker
    return f"{names.module('taxpr')}.from_function({taken})"


def _values(names: CodeNames, made: taxpr.injectors.Injector, place: str) -> Callable[[Any], str]:
    need = functools.partial(_named, names, "value", f"of {made.name} at {place}")
    return functools.partial(value_code, names=names, need=need)


def _named(names: CodeNames, base: str, what: str, value: Any) -> str:
    own = getattr(value, "__name__", None)
    return names.named(value, own if isinstance(own, str) and own.isidentifier() else base, what)


def _is_open(value: Any, default: Any) -> bool:
    """Whether a value is an infinite default, which is left out for readability."""
    numbers = isinstance(value, float) and isinstance(default, float)
    return numbers and math.isinf(value) and value == default
