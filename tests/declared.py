"""Whether a value is what a type of `taxpr_jupyter._model.messages` declares."""

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
