"""Pause Python's garbage collector while working on large programs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Pauses the search for garbage, which takes about half of the time with a large program.

    Little of what is made here is garbage, and all that JAX keeps would be looked at again and
    again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
