"""Whether a value is what a type of `taxpr_jupyter._messages` declares."""

import reprlib
import types
import typing


def is_declared(value, kind):
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(is_declared(value, one) for one in args)
    if origin is typing.Literal:
        return value in args
    if origin is list:
        return isinstance(value, list | tuple) and all(is_declared(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(is_declared(v, args[1]) for v in value.values())
    if origin is tuple:
        return len(value) == len(args) and all(map(is_declared, value, args))
    if typing.is_typeddict(kind):
        fields = typing.get_type_hints(kind)
        return (
            isinstance(value, dict)
            and kind.__required_keys__ <= value.keys() <= fields.keys()
            and all(is_declared(value[key], fields[key]) for key in value)
        )
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, int | float if kind is float else kind)


def why_not(value, kind):
    """What of a value is not as declared, in a few words."""
    args = typing.get_args(kind)
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        near = [one for one in args if typing.is_typeddict(one) and one.__annotations__]
        meant = isinstance(value, dict) and len(near) == 1
        return why_not(value, near[0]) if meant else _no(value, kind)
    if typing.get_origin(kind) is list and isinstance(value, list | tuple):
        bad = next((k for k, one in enumerate(value) if not is_declared(one, args[0])), None)
        return _no(value, kind) if bad is None else f"[{bad}] {why_not(value[bad], args[0])}"
    if typing.is_typeddict(kind) and isinstance(value, dict):
        fields = typing.get_type_hints(kind)
        said = [f"the key {key!r} is not in {kind.__name__}" for key in value.keys() - fields]
        said += [f"{kind.__name__} lacks {key!r}" for key in kind.__required_keys__ - value.keys()]
        for key in value.keys() & fields:
            if not is_declared(value[key], fields[key]):
                said.append(f"{kind.__name__}.{key}: {why_not(value[key], fields[key])}")
        return ", ".join(sorted(said))
    return _no(value, kind)


def _no(value, kind):
    return f"{reprlib.repr(value)} is no {getattr(kind, '__name__', kind)}"
