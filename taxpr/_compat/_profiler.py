"""JAX's profiler: when each instruction of XLA ran."""

import contextlib
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import jax

from taxpr._errors import RefusedError

_profiler: Any = jax.profiler  # which declares no types for what is read of it here

_NONE = (
    "The profiler of jax {version} hands out no times (jax.profiler has no {name}), so nothing can "
    "be measured by statement. Use a newer version of jax."
)
_RUNNING = (
    "Another profile is running, and JAX makes one at a time ({error}). End it by "
    "jax.profiler.stop_trace(), or ask for this one outside of it."
)
_LISTENER = "ThreadpoolListener"  # which tells of threads, and is most of what there is


class Event(NamedTuple):
    """Something that ran, as the profiler has seen it.

    Attributes:
        name: Its own name.
        op: The name of the instruction of XLA; else "".
        module: The name of its program.
        begin: When it began, in nanoseconds.
        end: When it ended; if work goes on in other threads, when that was handed out.
        produced: The number of the work that goes on; None if nothing does.
        consumed: The number of the work that ended with this.
        thread: Its thread.
    """

    name: str
    op: str
    module: str
    begin: float
    end: float
    produced: int | None
    consumed: int | None
    thread: str = ""


@contextlib.contextmanager
def profiling() -> Generator[Callable[[], list[Event]], None, None]:
    """Profile what runs within; afterwards the function that it gives has the events.

    Raises:
        RefusedError: If there is no profiler, or another profile is running.
    """
    for name in ("ProfileData", "ProfileOptions", "start_trace"):
        if not hasattr(_profiler, name):
            raise RefusedError(_NONE.format(version=jax.__version__, name=name))
    options = _profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    events: list[Event] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            _profiler.start_trace(folder, profiler_options=options)
        except RuntimeError as error:
            raise RefusedError(_RUNNING.format(error=error)) from error
        try:
            yield lambda: events
        finally:
            _profiler.stop_trace()
        for file in pathlib.Path(folder).rglob("*.xplane.pb"):
            events += _events(_profiler.ProfileData.from_file(str(file)))


def marked(name: str) -> Any:
    """A context that is an event of this name."""
    return _profiler.TraceAnnotation(name)


def _events(data: Any) -> Iterator[Event]:
    with warnings.catch_warnings():
        # The types of jaxlib's events, which are compiled, have no module.
        warnings.simplefilter("ignore", DeprecationWarning)
        for plane in data.planes:
            for line in plane.lines:
                for one in line.events:
                    if one.name.startswith(_LISTENER):
                        continue
                    stats: dict[str, Any] = dict(one.stats)
                    begin = one.start_ns
                    yield Event(
                        one.name,
                        str(stats.get("hlo_op", "")),
                        str(stats.get("hlo_module", "")),
                        begin,
                        begin + one.duration_ns,
                        stats.get("_p"),
                        stats.get("_c"),
                        f"{plane.name} {line.name}",
                    )
