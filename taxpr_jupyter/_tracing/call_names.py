"""Write a call as Python in the user's names, and find functions that can be injectors."""

import ast
import builtins
import inspect
import itertools
import keyword
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

# What the arguments of functions that inject are called.
_INJECTOR_ARGUMENTS = (
    ("ctx", "context", "c"),
    ("token", "tok", "t"),
    ("params", "param", "p"),
)


def call_text(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    namespace: Mapping[str, Any],
) -> str:
    """Write the call ``fun(*args, **kwargs)`` with the names of a namespace.

    An argument without a name becomes ``args[0]`` or ``kwargs['k']``; the function its own name or
    ``fun``, see `given_names`.
    """
    own, positional, words = given_names(fun, namespace)
    parts = [expression(arg, namespace) or f"{positional}[{i}]" for i, arg in enumerate(args)]
    parts += [
        f"{key}={expression(value, namespace) or f'{words}[{key!r}]'}"
        for key, value in kwargs.items()
    ]
    return f"{expression(fun, namespace) or own}({', '.join(parts)})"


def given_names(fun: Callable[..., Any], namespace: Mapping[str, Any]) -> tuple[str, str, str]:
    """Names for a function, its ``args`` and its ``kwargs`` that the namespace does not use.

    >>> given_names(len, {"args": 1})
    ('fn', 'args_2', 'kwargs')
    """

    def own_fresh(base: str) -> str:
        return fresh(base, lambda name: name not in namespace and not hasattr(builtins, name))

    own = getattr(fun, "__name__", "")
    if not own.isidentifier() or keyword.iskeyword(own) or own in ("args", "kwargs"):
        own = "fn"
    if namespace.get(own) is not fun:
        own = own if own_fresh(own) == own else own_fresh("fn")
    return own, own_fresh("args"), own_fresh("kwargs")


def fresh(base: str, is_free: Callable[[str], bool], mark: str = "_") -> str:
    """The name itself, or else the first of ``name_2``, ``name_3``, … that is free."""
    names = itertools.chain([base], (f"{base}{mark}{number}" for number in itertools.count(2)))
    return next(filter(is_free, names))


def expression(value: Any, namespace: Mapping[str, Any]) -> str | None:
    """Python for ``value`` in the namespace: a name, a literal, or a list or dict of these."""
    name = _name(value, namespace)
    if name is not None:
        return name
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        text = repr(value)
        return text if _is_literal(text) else None
    if type(value) in (tuple, list):
        items = [expression(item, namespace) for item in value]
        if any(item is None for item in items):
            return None
        inner = ", ".join(item for item in items if item)
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    if type(value) is dict and all(isinstance(key, str) for key in value):
        pairs = {key: expression(item, namespace) for key, item in value.items()}
        if all(pairs.values()):
            return "{" + ", ".join(f"{key!r}: {text}" for key, text in pairs.items()) + "}"
    return None


def injector_functions(namespace: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions whose arguments are called like ``(ctx, token, params)``.

    A loss may take three arguments, too. So the names count; the usual short forms, and names that
    begin with ``_``, count, too.
    """
    found = {}
    for name, value in list(namespace.items()):
        if name.startswith("_") or not callable(value) or inspect.isclass(value):
            continue
        if inspect.isbuiltin(value):  # its signature is read from a text, which takes long
            continue
        try:
            signature = inspect.signature(value)
            signature.bind(None, None, None)
        except (TypeError, ValueError):
            continue
        given = tuple(signature.parameters)[:3]
        if len(given) == 3 and all(map(_is_like, given, _INJECTOR_ARGUMENTS)):
            found[name] = value
    return found


def _is_like(name: str, known: tuple[str, ...]) -> bool:
    return name in known or name.startswith("_")


def _name(value: Any, namespace: Mapping[str, Any]) -> str | None:
    """A name or dotted name of the object itself; None for numbers and strings."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return None
    public = [(n, v) for n, v in list(namespace.items()) if n.isidentifier() and n[0] != "_"]
    own = getattr(value, "__name__", None)
    for name, found in sorted(public, key=lambda pair: pair[0] != own):
        if found is value and not keyword.iskeyword(name):
            return name
    owner = getattr(value, "__self__", None)  # a bound method: `model.apply`
    if isinstance(own, str) and own.isidentifier() and owner is not None:
        name = None if isinstance(owner, ModuleType) else _name(owner, namespace)
        if name is not None and getattr(owner, own, None) == value:
            return f"{name}.{own}"
    if isinstance(own, str) and own.isidentifier() and callable(value):
        for name, found in public:  # `jnp.sin`
            if isinstance(found, ModuleType) and getattr(found, own, None) is value:
                return f"{name}.{own}"
    return None


def _is_literal(text: str) -> bool:
    """Whether Python reads the text back (``nan`` and ``inf`` it does not)."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True
