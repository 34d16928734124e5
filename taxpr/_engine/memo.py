"""Cache what was made of a jaxpr, so that equal requests return the identical object.

JAX caches compiled code by the identity of jaxprs: it would compile a loop again at each call if
its body were a new object.
"""

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from taxpr import _compat
from taxpr._compat import ClosedJaxpr
from taxpr._hops.table import changes, dropped
from taxpr._recent import Recent
from taxpr._sites.site import Site


class HasJaxpr(Protocol):
    """A result made of a jaxpr, which has a jaxpr itself."""

    @property
    def jaxpr(self) -> ClosedJaxpr: ...


T = TypeVar("T", bound=HasJaxpr)

_KEPT = 16  # the most recently used results of each jaxpr

# JAX returns the same jaxpr when it traces a known function, so this also helps functions. A result
# lives as long as the jaxpr that it was made of. Invariant: it holds no reference to that jaxpr.
_made: weakref.WeakKeyDictionary[ClosedJaxpr, Recent[Any]]
_made = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def made_of(jaxpr: ClosedJaxpr, sites: Sequence[Site], key: Hashable, make: Callable[[], T]) -> T:
    """The result of ``make``, cached for this jaxpr, these sites, this key and JAX's settings.

    Results with tracers are not cached, nor are results made while JAX traces, as `jax.jit` has a
    cache of its own. If an equation around a site loses a rule, nothing is cached, so that each
    call warns.

    Args:
        jaxpr: A closed jaxpr.
        sites: Tags of the jaxpr.
        key: Everything else that the result depends on, except JAX's settings.
        make: Returns an object with a closed jaxpr as ``jaxpr``.
    """
    if (
        _holds_tracers(jaxpr)
        or any(layer.kind not in ("ad", "batch") for layer in _compat.layers())
        or any(dropped(step.eqn) is not None for site in sites for step in site.steps)
    ):
        return make()
    key = (key, tuple(site.address for site in sites), changes(), _compat.trace_key())
    with _lock:
        known = _made.setdefault(jaxpr, Recent(_KEPT))
    if (before := known.get(key)) is not None:
        return before
    new = make()
    return new if _holds_tracers(new.jaxpr) else known.put(key, new)


def _holds_tracers(jaxpr: ClosedJaxpr) -> bool:
    return any(map(_compat.is_tracer, _compat.consts_of(jaxpr)))
