"""The table of libraries with states of their own, and the module that makes their calls pure.

`taxpr.State` is not in it: tracing a function shows whether it uses one, see `of_taxpr`. The
libraries here are asked before the function is traced.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr_jupyter._states.model import PureCall

# For each library our module with
#     pure_call(fun, args, kwargs) -> PureCall | None
# which returns None if the call uses no state of the library. Looking here does not import the
# library. Those that have to trace the function come last.
ADAPTORS: Mapping[str, str] = {
    "flax.nnx": "taxpr_jupyter._states._libraries._nnx",
    "equinox": "taxpr_jupyter._states._libraries._equinox",
    "brainstate": "taxpr_jupyter._states._libraries._brainstate",
    "haiku": "taxpr_jupyter._states._libraries._haiku",
}


def pure_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """The call made pure by the first library whose states it uses; None if there is none."""
    for library, module in ADAPTORS.items():
        if library in sys.modules:
            adaptor = importlib.import_module(module)
            if (call := adaptor.pure_call(fun, tuple(args), dict(kwargs))) is not None:
                return call
    return None
