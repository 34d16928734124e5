"""What was made of a jaxpr before is handed out again.

JAX keeps what it compiles by the jaxprs that it is of, as objects: a loop whose body is another
object at each call is compiled at each call.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from taxpr import _compat
from taxpr._compat import ClosedJaxpr
from taxpr._hops.table import changes, dropped
from taxpr._sites.site import Site


class HasJaxpr(Protocol):
    """What is made of a jaxpr: another one, and what is known of that."""

    @property
    def jaxpr(self) -> ClosedJaxpr: ...


T = TypeVar("T", bound=HasJaxpr)

_KEPT = 16  # results for each jaxpr, those used last

# JAX traces a function that it knows into the same jaxpr, so functions profit as programs do. A
# result lives as long as the jaxpr that it was made of, which it must not hold itself.
_made: weakref.WeakKeyDictionary[ClosedJaxpr, collections.OrderedDict[Hashable, Any]]
_made = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def made_of(jaxpr: ClosedJaxpr, sites: Sequence[Site], key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` returns, or returned for this jaxpr, these sites, this key and these settings.

    Nothing is kept that holds tracers, nor while a jaxpr is traced, as by `jax.jit`, which keeps
    what it made by itself. Where an equation around a site loses a rule nothing is kept either,
    so that each call warns.

    Args:
        jaxpr: A closed jaxpr.
        sites: Tags of it.
        key: All else on which the result depends, but for JAX's settings.
        make: Returns something that has a closed jaxpr as ``jaxpr``.
    """
    if (
        _holds_tracers(jaxpr)
        or any(layer.kind not in ("ad", "batch") for layer in _compat.layers())
        or any(dropped(step.eqn) is not None for site in sites for step in site.steps)
    ):
        return make()
    key = (key, tuple(site.address for site in sites), changes(), _compat.trace_key())
    with _lock:
        known = _made.setdefault(jaxpr, collections.OrderedDict())
        if key in known:
            known.move_to_end(key)
            return known[key]
    new = make()
    if _holds_tracers(new.jaxpr):
        return new
    with _lock:
        new = known.setdefault(key, new)  # another thread may have been first
        known.move_to_end(key)
        while len(known) > _KEPT:
            known.popitem(last=False)
    return new


def _holds_tracers(jaxpr: ClosedJaxpr) -> bool:
    return any(map(_compat.is_tracer, _compat.consts_of(jaxpr)))
