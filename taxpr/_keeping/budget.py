"""How much memory a recording may take, and how its values are divided among passes."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import itertools
import math
import numbers
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from taxpr._errors import ArgumentError

_PART = 4  # the share of the free memory that is taken without being asked: one part of these
_OTHERWISE = 2 << 30  # where nobody knows how much is free
PASSES = 8  # at most; each compiles the program again

T = TypeVar("T")


def budget(given: float | None, device: Any, what: str = "watch") -> int:
    """The bytes that a recording, or another question, may take on a device.

    Raises:
        ArgumentError: If what was given is no number of bytes.
    """
    if given is None:
        return free_on(device) // _PART
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)  # of NumPy, too
    if not is_number or not 1 <= given < math.inf:
        raise ArgumentError(
            f"{what}: memory={given!r} is no number of bytes. Give one such as 2 * 10**9, or "
            "None for a quarter of the free memory."
        )
    return int(given)


def free_on(device: Any) -> int:
    """The free bytes of a device; of the host for its processor."""
    stats: dict[str, int] = {}
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return _free_on_host()


def _free_on_host() -> int:
    found = _limits()
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError, IndexError):
        try:  # of macOS
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        except (ValueError, OSError, AttributeError):
            found.append(_OTHERWISE)
    return min(found)


def _limits() -> list[int]:
    """The memory that the limits of a container leave free."""
    try:
        group = pathlib.Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        return [max(most - int((group / "memory.current").read_text()), 0)]
    except (OSError, ValueError):  # there is none, or no limit
        return []


def divided(
    items: Sequence[T], size: Callable[[T], int], room: int, most: int | None = None
) -> list[list[T]]:
    """The items in groups that have room, in order; an item that is too large is alone.

    If these are more groups than ``most``, there are that many, of about the same size.
    """
    groups: list[list[T]] = []
    left = 0
    for item in items:
        if not groups or size(item) > left:
            groups.append([])
            left = room
        groups[-1].append(item)
        left -= size(item)
    if most is None or len(groups) <= most:
        return groups
    begins = itertools.accumulate(map(size, items), initial=0)
    share = sum(map(size, items)) // most + 1
    at = zip((begin // share for begin in begins), items, strict=False)
    return [[item for _, item in group] for _, group in itertools.groupby(at, lambda one: one[0])]
