"""Make injectors from names and values, as the panel offers them, and try them out."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._edits.attached import Attached, as_number, is_made_by, is_number
from taxpr_jupyter._edits.functions import injector_of, is_empty, is_function, params_of, uses_ctx
from taxpr_jupyter._edits.in_order import together
from taxpr_jupyter._edits.python_line import is_typed, typed_function
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._stoppable import STOPPING
from taxpr_jupyter._tracing.call_names import expression, injector_functions
from taxpr_jupyter._tracing.tracebacks import users_line


@dataclasses.dataclass(frozen=True)
class Choice:
    """An injector that can be attached by name.

    Attributes:
        name: The name for `Session.attach`.
        doc: A description in one line.
        kind: ``"ready"`` for taxpr's, ``"function"`` for functions of the namespace.
        params: The declared parameters.
    """

    name: str
    doc: str
    kind: str
    params: Mapping[str, taxpr.Param]

    @property
    def seeds(self) -> dict[str, int]:
        """Values for the keys of random numbers among the parameters, which have no default."""
        return {name: 0 for name, param in self.params.items() if param.is_key}


def choices(namespace: Mapping[str, Any]) -> dict[str, Choice]:
    """The injectors that can be attached by name. The namespace takes precedence over taxpr."""
    found = {
        name: Choice(name, kind.doc, "ready", kind.params)
        for name, kind in taxpr.ready_injectors().items()
    }
    for name, value in _of_namespace(namespace).items():
        found[name] = Choice(name, _doc(value), "function", _declared(value))
    return found


def make(
    key: str,
    injector: Any,
    ctx: Any,
    values: Mapping[str, Any],
    namespace: Mapping[str, Any],
) -> Attached:
    """Make an injector for a site from whatever the user gives.

    Args:
        key: The key of the site.
        injector: A name; a line of Python, such as ``"2 * x"``; an `Injector` or `InjectorKind` of
            `taxpr.injectors`; or a function ``(ctx, token, params) -> (token, ctx)``.
        ctx: The initial context of a function.
        values: The values of the parameters.
        namespace: The namespace for looking up names.

    Raises:
        PanelError: If it is something else, or the values do not fit it.
    """
    ready = taxpr.ready_injectors()
    if not isinstance(injector, str):
        made = _made(injector, ctx, values)
        kind = ready.get(made.name)
        if kind is injector or (kind is not None and is_made_by(made, kind)):
            return _attached(key, made.name, "injector", made, kind)
        known = expression(injector, namespace)
        bound = known if known and known in namespace else ""
        return _attached(key, made.name, "injector", made, injector, bound)
    found = namespace.get(injector)
    if injector in _of_namespace(namespace) or (callable(found) and injector not in ready):
        return _attached(key, injector, "function", _made(found, ctx, values), found, injector)
    if injector in ready:
        kind = ready[injector]
        return _attached(key, injector, "ready", _made(kind, (), values), kind)
    if is_typed(injector):
        function = typed_function(injector, namespace)
        return _attached(key, injector, "typed", _made(function, ctx, values), function, injector)
    raise PanelError(
        f"There is no injector {injector!r}. There are {', '.join(choices(namespace))}; a function "
        "of yours must take (ctx, token, params)"
    )


def refreshed(attached: Attached, namespace: Mapping[str, Any]) -> Attached | None:
    """The injector remade from the object that its name means now; None if nothing changed.

    So a function that the notebook redefines takes effect. Values other than the old defaults are
    kept, if the new object has such parameters.
    """
    if attached.parts:
        parts = attached.each
        new = [refreshed(one, namespace) for one in parts]
        if not any(new):
            return None
        labels = [label for label, _ in attached.parts]
        whole = together([now or one for now, one in zip(new, parts, strict=True)], labels)
        same = {"unread": attached.unread, "variable": attached.variable, "off": attached.off}
        return dataclasses.replace(whole, key=attached.key, **same)
    now = namespace.get(attached.bound)
    if now is attached.source or now is None:
        return None
    defaults, there = _defaults(attached.source), _defaults(now)
    values = {
        name: value
        for name, value in attached.values.items()
        if name in there and value != defaults.get(name)
    }
    given = attached.bound if attached.kind == "function" else now
    try:
        made = make(attached.key, given, attached.ctx, values, namespace)
        same = {"unread": attached.unread, "variable": attached.variable, "off": attached.off}
        return dataclasses.replace(made, **same)
    except PanelError:  # the name now means no injector
        return None


def tried(attached: Attached, program: taxpr.Program, site: taxpr.program.Site) -> Attached:
    """Trace the injector at its site, without running it, and set ``error`` and ``note``.

    Raises:
        PanelError: If no injector can work there, or its ctx cannot be computed.
    """
    if attached.unread:
        ctx = attached.unread.read()
        try:
            attached = attached.with_ctx(ctx)
        except taxpr.TaxprError as error:  # it is no tree of arrays
            return dataclasses.replace(
                attached, error=one_line(error), note="", warned=(), trial=None, unread=None
            )
    warned: list[Warning] = []
    try:
        with introspect.warnings_to(warned.append):
            program.inject({site: attached.injector})  # another tag can be named as its address
        note = " ".join(" ".join(map(str, warned)).split())
        return dataclasses.replace(
            attached, error=None, note=note, warned=tuple(warned), trial=None
        )
    except taxpr.RefusedError as error:
        raise PanelError(one_line(error)) from None
    except taxpr.TaxprError as error:
        text = one_line(error)
    except STOPPING:
        raise
    except BaseException as error:  # a function may call `exit()`
        line = users_line(error.__traceback__)
        said = one_line(error).partition(" This is raised by the injector")[0]  # repeated below
        text = f"The injector {attached.name!r} at the {site} raised {said}"
        text += f" ({line})" if line else ""
        typed = [one.source for one in attached.each if one.kind == "typed"]
        if isinstance(error, NameError) and any(not one.__globals__ for one in typed):
            text += ". Lines use the names of a namespace, and the session has none: make it by "
            text += "Session(..., namespace=globals())"
    asking = [
        k
        for k, one in enumerate(attached.each)
        if is_function(one.source) and is_empty(one.ctx) and uses_ctx(one.injector, site)
    ]
    if asking:
        how = f"set_ctx(address, ctx, part={asking[0]})"
        how = how if attached.parts else "attach(address, function, ctx=...)"
        text += f". Its ctx is (): give another by session.{how}"
    asks = attached.asks_ctx or (bool(asking) and not attached.parts)
    return dataclasses.replace(attached, error=text, note="", warned=(), asks_ctx=asks, trial=None)


def noted_already() -> AbstractContextManager[None]:
    """A context without the warnings that `tried` has turned into notes."""
    return introspect.warnings_to(lambda warning: None)


def _of_namespace(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The functions, kinds and injectors of the namespace that can be attached."""
    objects = {
        name: value
        for name, value in list(namespace.items())
        if isinstance(value, (taxpr.injectors.InjectorKind, taxpr.injectors.Injector))
        and not name.startswith("_")
    }
    ready = list(taxpr.ready_injectors().values())
    functions = injector_functions(namespace).items()
    return {
        **{name: value for name, value in objects.items() if value not in ready},
        **{name: value for name, value in functions if is_function(value)},
    }


def _made(source: Any, ctx: Any, values: Mapping[str, Any]) -> taxpr.injectors.Injector:
    """An injector with these values.

    Raises:
        PanelError: If they do not fit, or ``source`` makes no injector.
    """
    if isinstance(source, taxpr.injectors.InjectorKind):
        defaults = {name: param.default for name, param in source.params.items()}
        given = {
            name: as_number(source.name, name, value, like=defaults[name])
            if name in defaults and (is_number(value) or isinstance(value, (str, bytes)))
            else value
            for name, value in values.items()
        }
        try:
            return source(**given)
        except taxpr.TaxprError as error:
            raise PanelError(one_line(error)) from None
    if isinstance(source, taxpr.injectors.Injector):
        unknown = next((name for name in values if name not in source.values), None)
        if unknown is not None:
            raise PanelError(f"{source.name} has no parameter {unknown!r}")
        return dataclasses.replace(source, values={**source.values, **values})
    if not callable(source):
        raise PanelError(
            f"{source!r} is no injector: give the name of one, a taxpr.injectors.Injector, "
            "or a function (ctx, token, params) -> (token, ctx)"
        )
    return injector_of(source, ctx, values)


def _attached(
    key: str, name: str, kind: str, made: taxpr.injectors.Injector, source: Any, bound: str = ""
) -> Attached:
    declared = taxpr.ready_injectors().get(made.name)
    params = _declared(source) or (declared.params if declared else {})
    values = {**made.values, **(made.options if is_function(source) else {})}
    return Attached(
        key=key,
        name=name,
        kind=kind,
        values={name: value for name, value in values.items() if is_number(value)},
        params={name: param for name, param in params.items() if name in values},
        asks_ctx=is_function(source) and not is_empty(made.new_state(None)),
        injector=made,
        source=source,
        bound=bound,
    )


def _declared(source: Any) -> Mapping[str, taxpr.Param]:
    if is_function(source):
        return params_of(source)
    return getattr(source, "params", {})


def _defaults(source: Any) -> dict[str, Any]:
    """The default values of an injector."""
    if isinstance(source, taxpr.injectors.Injector):
        return dict(source.values)
    return {name: param.default for name, param in _declared(source).items()}


def _doc(value: Any) -> str:
    if isinstance(value, taxpr.injectors.InjectorKind):
        return value.doc
    if isinstance(value, taxpr.injectors.Injector):
        return repr(value)
    return (inspect.getdoc(getattr(value, "func", value)) or "").split("\n")[0]
