"""Say that a device's memory does not suffice, and how to need less."""

import contextlib
import re
from collections.abc import Generator

import jax

from taxpr._answers.tables import size_text
from taxpr._errors import RefusedError

_ASKED = re.compile(r"allocat\w* (\d[\d.]*) ?([KMGT]iB|bytes)")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_FIX = (
    "taxpr.memory(fun, compile=False) estimates which values hold the memory, without the device, "
    "and its .advice() says which changes make it less. Smaller arguments help, too."
)


@contextlib.contextmanager
def saying_what_is_exhausted(name: str, doing: str) -> Generator[None]:
    """A context that tells people about XLA's error that the memory does not suffice.

    Args:
        name: The name of the program.
        doing: ``"compiling"`` or ``"running"``.

    Raises:
        RefusedError: If the memory does not suffice; XLA's own error is its cause.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        # A GPU runs kernels while it compiles, to choose among them, and hides the reason in the
        # list of those that it tried.
        text = str(error)
        if "RESOURCE_EXHAUSTED" not in text and "out of memory" not in text.lower():
            raise
        asked = _ASKED.search(text)
        size = ""
        if asked:
            size = f" for {size_text(int(float(asked[1]) * _UNITS[asked[2]]))} at once"
        raise RefusedError(
            f"{doing} {name} takes more memory than the device has: XLA asked in vain{size}. {_FIX}"
        ) from error
