"""Recordings in files: arrays in a `.npz`, and beside them what they are, as JSON."""

import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._devices.parts import all_files, own_file, parts, together, writers
from taxpr._errors import ArgumentError
from taxpr._jaxprs.trees import named_leaves
from taxpr._recordings.part import KeptValue, Part
from taxpr._sites.skipped import Skipped
from taxpr._untyped import np
from taxpr._variables.variable import Variable

# Name, results, parts, skipped places, notes, whether it is complete.
Contents = tuple[str, Any, list[Part], tuple[Skipped, ...], tuple[str, ...], bool]

_VERSION = 1
_ABOUT = "about"


def write(path: str | pathlib.Path, contents: Contents) -> None:
    """Write the contents of a recording to a file."""
    called, result, names, skipped, notes, complete = contents
    kept = [part.kept for part in names]
    every = [x for one in kept for x in (one.value, one.table, one.fired) if x is not None]
    outs = [(name, x) for name, x in named_leaves("", result) if hasattr(x, "dtype")]
    processes = writers([*every, *(x for _, x in outs)])
    arrays: dict[str, Any] = {}
    about: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for part in names:
        kept = part.kept
        number = numbers.setdefault(id(kept), len(numbers))
        for name in ("value", "table", "fired"):
            array = getattr(kept, name)
            if array is not None:
                arrays |= _parts(f"{name}{number}", array)
        about.append(
            {
                **{name: getattr(part, name) for name in _OF_PART},
                "kept": number,
                "axes": kept.axes,
                "shape": kept.shape,
                "dtype": _dtype(kept.dtype),
                "variable": part.variable and _of_variable(part.variable),
            }
        )
    out: list[list[str]] = []
    for k, (name, leaf) in enumerate(outs):
        arrays |= _parts(f"out{k}", leaf)
        out.append([str(name), _dtype(leaf.dtype)])
    said = {
        "taxpr": _VERSION,
        "name": called,
        "notes": notes,
        "complete": complete,
        "skipped": [dataclasses.asdict(one) for one in skipped],
        "parts": about,
        "out": out,
    }
    arrays[_ABOUT] = np.array(json.dumps(said))
    with open(
        own_file(pathlib.Path(path), processes), "wb"
    ) as file:  # else NumPy adds an ending to the name
        np.savez(file, **arrays)


_OF_PART = "name", "path", "address", "file", "line", "function", "mapped", "cotangent"
_OF_VARIABLE = "name", "path", "function", "file", "begins", "line", "occurrence"
_MORE = "address", "loops", "mapped", "edited"


def _of_variable(one: Variable) -> dict[str, Any]:
    return {name: getattr(one, name) for name in (*_OF_VARIABLE, *_MORE)}


def _dtype(dtype: Any) -> str:
    if _compat.is_extended(dtype):
        return f"key {_compat.key_impl(dtype)}"
    return str(dtype)


def _parts(name: str, x: Any) -> dict[str, Any]:
    """The parts of an array that this process writes, by names."""
    x = jax.random.key_data(x) if _compat.is_extended(x.dtype) else x
    return {at: _plain(one) for at, one in parts(name, x)}


def _plain(x: Any) -> Any:
    """An array of a dtype that a file can have."""
    x = np.asarray(x)
    if x.dtype.kind != "V" and x.dtype.isbuiltin == 1:
        return x
    wide = x.astype(np.int8) if "int" in x.dtype.name else x
    return wide if wide.dtype.isbuiltin == 1 else wide.view(f"u{wide.dtype.itemsize}")


def _restored(x: Any, dtype: str) -> Any:
    if dtype.startswith("key "):
        return jax.random.wrap_key_data(x, impl=dtype.removeprefix("key "))
    of = jax.numpy.dtype(dtype)
    if x.dtype == of:
        return x
    return x.astype(of) if x.dtype == np.int8 else x.view(of)


def read(path: str | pathlib.Path) -> Contents:
    """The contents of a file; see `load_recording`."""
    try:
        arrays: dict[str, Any] = {}
        abouts: list[str] = []
        for one in all_files(pathlib.Path(path)):
            with np.load(one, allow_pickle=False) as file:
                arrays |= {name: file[name] for name in file.files}
            abouts.append(arrays[_ABOUT].item())
        about = json.loads(abouts[0])
        version = about["taxpr"]
    except (ValueError, KeyError, zipfile.BadZipFile, json.JSONDecodeError, EOFError):
        raise ArgumentError(
            f"load_recording: {path} is no recording. Recording.save writes one."
        ) from None
    if version != _VERSION:
        raise ArgumentError(
            f"load_recording: {path} has the format {version}, and this taxpr reads {_VERSION}."
        )
    if len({*abouts}) > 1:
        raise ArgumentError(
            f"load_recording: the files of {path} are of several recordings: each process writes "
            "one of its own when it saves."
        )
    arrays = together(arrays)
    kept: dict[int, KeptValue] = {}
    names = [_part(one, arrays, kept) for one in about["parts"]]
    out = {
        name: _restored(arrays[f"out{k}"], dtype) for k, (name, dtype) in enumerate(about["out"])
    }
    skipped = tuple(
        Skipped(one["reason"], one["primitive"], tuple(one["addresses"]))
        for one in about["skipped"]
    )
    notes = tuple(about["notes"])
    return about["name"], out, names, skipped, notes, about.get("complete", True)


def _part(one: Mapping[str, Any], arrays: Mapping[str, Any], kept: dict[int, KeptValue]) -> Part:
    number, dtype = one["kept"], one["dtype"]
    if number not in kept:
        table, fired = (arrays.get(f"{name}{number}") for name in ("table", "fired"))
        value = arrays.get(f"value{number}")
        value = None if value is None else _restored(value, dtype)
        of = jax.numpy.dtype(dtype) if value is None else value.dtype
        axes, shape = tuple(one["axes"]), tuple(one["shape"])
        kept[number] = KeptValue(axes, shape, of, value, table, fired)
    given: dict[str, Any] = {name: one[name] for name in _OF_PART}
    given["mapped"] = tuple(one["mapped"])
    variable = one["variable"] and _variable(one["variable"])
    return Part(**given, variable=variable, kept=kept[number])


def _variable(one: Mapping[str, Any]) -> Variable:
    return Variable(
        **{name: one[name] for name in _OF_VARIABLE},
        address=Address(one["address"]),
        aval=None,
        loops=tuple(map(Address, one["loops"])),
        mapped=tuple(one["mapped"]),
        edited=one.get("edited", ""),
    )
