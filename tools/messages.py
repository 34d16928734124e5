"""Writes the types of `taxpr_jupyter/_messages` for the browser's modules.

They are in build/types/messages.d.ts, where tsc finds them as "./messages.js" (`tsconfig.json`).
"""

import importlib
import pkgutil
import sys
import types
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from taxpr_jupyter import _messages  # noqa: E402  (of this checkout)

FILE = ROOT / "build" / "types" / "messages.d.ts"
SIMPLE = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def text() -> str:
    """All declarations."""
    found = {}
    for one in pkgutil.iter_modules(_messages.__path__, f"{_messages.__name__}."):
        for name, what in vars(importlib.import_module(one.name)).items():
            if _declares(what) or typing.get_origin(what):
                found[name] = what
    return "\n".join(declared(name, what) for name, what in found.items())


def _declares(what: typing.Any) -> bool:
    """Whether it is a class that declares fields: a typed dict, or the traits of the panel."""
    return isinstance(what, type) and what.__module__.startswith(f"{_messages.__name__}.")


def declared(name: str, what: typing.Any) -> str:
    if not _declares(what):
        return f"export type {name} = {written(what)};\n"
    fields = typing.get_type_hints(what)
    optional = getattr(what, "__optional_keys__", ())
    lines = (f"  {key}{'?' * (key in optional)}: {written(fields[key])};\n" for key in fields)
    return f"export interface {name} {{\n{''.join(lines)}}}\n"


def written(what: typing.Any) -> str:
    origin, args = typing.get_origin(what), typing.get_args(what)
    if what in SIMPLE:
        return SIMPLE[what]
    if origin is typing.Literal:
        return " | ".join(map(literal, args))
    if origin in (types.UnionType, typing.Union):
        return " | ".join(map(written, args))
    if origin is list:
        return f"Array<{written(args[0])}>"
    if origin is dict:
        return f"Record<{written(args[0])}, {written(args[1])}>"
    if origin is tuple and args[-1] is ...:
        return f"Array<{written(args[0])}>"
    if origin is tuple:
        return f"[{', '.join(map(item, args))}]"
    return what.__name__


def item(what: typing.Any) -> str:
    unpacked = typing.get_origin(what) is typing.Unpack
    return f"...{written(typing.get_args(what)[0])}" if unpacked else written(what)


def literal(value: typing.Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text(), "utf-8")
