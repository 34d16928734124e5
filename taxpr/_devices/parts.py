"""Arrays in files: each process writes the parts that it has, and a reader puts them together."""

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from taxpr._devices.devices_of import processes_of
from taxpr._errors import ArgumentError
from taxpr._untyped import np

_NUMBER = re.compile(r"(.+)\.(\d+)-of-(\d+)")


def writers(arrays: Iterable[Any]) -> list[int]:
    """The numbers of the processes that have parts of some arrays; none if all is in this one."""
    placed = (x for x in arrays if isinstance(x, jax.Array) and not x.is_fully_addressable)
    return sorted(processes_of(device for x in placed for device in x.sharding.device_set))


def own_file(path: pathlib.Path, processes: list[int]) -> pathlib.Path:
    """The file of this process, such as ``run.0-of-2.npz``; the path itself where one writes."""
    if not processes:
        return path
    number = processes.index(jax.process_index())
    return path.with_name(f"{path.stem}.{number}-of-{len(processes)}{path.suffix}")


def all_files(path: pathlib.Path) -> list[pathlib.Path]:
    """The files of all processes, given the path that they wrote to, or one of the files.

    Raises:
        ArgumentError: If one is missing.
    """
    one = _NUMBER.fullmatch(path.stem)
    if one is None and path.exists():
        return [path]
    stem = one[1] if one else path.stem
    every = (_NUMBER.fullmatch(file.stem) for file in path.parent.glob(f"*{path.suffix}"))
    numbers = {int(match[3]) for match in every if match and match[1] == stem}
    if not numbers:
        return [path]  # which says that there is none
    many = int(one[3]) if one else max(numbers)
    names = [f"{stem}.{k}-of-{many}{path.suffix}" for k in range(many)]
    missing = [name for name in names if not path.with_name(name).exists()]
    if missing:
        raise ArgumentError(
            f"load_recording: {many} processes wrote {path.with_name(stem + path.suffix)}, and "
            f"these of their files are not beside the others: {', '.join(missing)}."
        )
    return [path.with_name(name) for name in names]


def parts(name: str, x: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an array that this process is to write, each by a name that says where it is."""
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
        yield name, x
        return
    for one in x.addressable_shards:
        if one.replica_id == 0:
            ends = (part.indices(n)[:2] for part, n in zip(one.index, x.shape, strict=True))
            yield f"{name}@{','.join(f'{start}:{stop}' for start, stop in ends)}", one.data


def together(arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays by their names, of all parts by theirs.

    Raises:
        ArgumentError: If a part is missing.
    """
    found = {name: x for name, x in arrays.items() if "@" not in name}
    pieces: dict[str, list[tuple[tuple[slice, ...], Any]]] = {}
    for name, x in arrays.items():
        whole, at, text = name.partition("@")
        if at:
            ends = (map(int, one.split(":")) for one in text.split(",") if one)
            pieces.setdefault(whole, []).append((tuple(slice(*one) for one in ends), x))
    for name, of in pieces.items():
        places = [[one.stop for one in at] for at, _ in of]
        whole = np.empty(np.max(places, 0).astype(int) if places[0] else (), of[0][1].dtype)
        if sum(x.size for _, x in of) != whole.size:
            raise ArgumentError(f"load_recording: parts of the array {name!r} are missing.")
        for at, x in of:
            whole[at] = x
        found[name] = whole
    return found
