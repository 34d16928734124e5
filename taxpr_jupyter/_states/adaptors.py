"""Which libraries have states of their own, and what makes calls with these pure.

`taxpr.State` is not among them: whether a function uses one is known when it is traced, see
`_taxpr`. For the libraries here it is looked at before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr_jupyter._states.model import PureCall

# By the module of the library the one of ours with
#     pure_call(fn, args, kwargs) -> PureCall | None
# None means that no state of the library is used. The library is not imported for this.
# Those that need to trace the function to know come last.
ADAPTORS: Mapping[str, str] = {
    "flax.nnx": "taxpr_jupyter._states._libraries._nnx",
    "equinox": "taxpr_jupyter._states._libraries._equinox",
    "brainstate": "taxpr_jupyter._states._libraries._brainstate",
    "haiku": "taxpr_jupyter._states._libraries._haiku",
}


def pure_call(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """The call as a pure one, by the first library whose states it uses; None without any."""
    for library, module in ADAPTORS.items():
        if library in sys.modules:
            adaptor = importlib.import_module(module)
            if (call := adaptor.pure_call(fn, tuple(args), dict(kwargs))) is not None:
                return call
    return None
