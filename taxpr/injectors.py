"""The ready injectors, and the parts for your own.

Each parameter of a ready one is a traced leaf of the context: changing it never compiles again. To
write one's own, see `injector`.
"""

from taxpr._injectors.declare import injector
from taxpr._injectors.edits import add, cast, clip, noise, replace, scale, stop_gradient, zero
from taxpr._injectors.injector import Injector, from_function
from taxpr._injectors.kind import InjectorKind, Param
from taxpr._injectors.per_example import per_example
from taxpr._injectors.plant import plant
from taxpr._injectors.probes import check_finite, count, print, record, stats
from taxpr._injectors.state import state
from taxpr._injectors.switched import switched

__all__ = [
    "Injector",
    "InjectorKind",
    "Param",
    "add",
    "cast",
    "check_finite",
    "clip",
    "count",
    "from_function",
    "injector",
    "noise",
    "per_example",
    "plant",
    "print",
    "ready_injectors",
    "record",
    "replace",
    "scale",
    "state",
    "stats",
    "stop_gradient",
    "switched",
    "zero",
]


def ready_injectors() -> dict[str, InjectorKind]:
    """The ready injectors by name, in the order of a menu.

    `state` is not among them: it is for several tags together.

    Example:
        >>> from taxpr import ready_injectors
        >>> kind = ready_injectors()["clip"]
        >>> kind.doc, kind(high=2.0)
        ('Clip the token to bounds; a missing bound is open.', clip(low=-inf, high=2.0))
    """
    changing = (scale, replace, add, zero, noise, clip, cast, stop_gradient)
    observing = (record, stats, count, check_finite, print)
    return {kind.name: kind for kind in (*changing, *observing)}
