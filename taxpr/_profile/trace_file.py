"""Write a profile as a file that Perfetto and ``chrome://tracing`` open."""

import gzip
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr._given import file_to_write


class TraceEvent(NamedTuple):
    """Something that ran.

    Attributes:
        name: Its name.
        thread: Where it ran.
        begin: When it began, in nanoseconds.
        end: When it ended.
        args: More about it, by name.
    """

    name: str
    thread: str
    begin: float
    end: float
    args: Mapping[str, Any]


def write_trace(events: Sequence[TraceEvent], path: str | pathlib.Path) -> None:
    """Write events as JSON, compressed if the path ends with ``.gz``, for `Profile.save_trace`."""
    text = json.dumps({"traceEvents": list(_records(events)), "displayTimeUnit": "ms"})
    data = text.encode("utf-8")
    with file_to_write("save_trace", path) as file:
        file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)


def _records(events: Sequence[TraceEvent]) -> Iterator[dict[str, Any]]:
    threads = {name: k for k, name in enumerate(dict.fromkeys(one.thread for one in events))}
    first = min((one.begin for one in events), default=0.0)
    for name, number in threads.items():
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": 1,
            "tid": number,
            "args": {"name": name},
        }
    for one in events:
        yield {
            "ph": "X",
            "name": one.name,
            "pid": 1,
            "tid": threads[one.thread],
            "ts": (one.begin - first) / 1000,
            "dur": (one.end - one.begin) / 1000,
            "args": dict(one.args),
        }
