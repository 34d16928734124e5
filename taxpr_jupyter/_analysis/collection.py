"""Pause Python's garbage collector while working on large programs."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Pauses garbage collection, which takes about half of the time with a large program.

    Little garbage is made meanwhile, but each collection looks at everything that JAX keeps.
    """
    enabled = gc.isenabled()
    try:
        gc.disable()  # inside, as an interrupt may come right after it
        yield
    finally:
        if enabled:
            gc.enable()
