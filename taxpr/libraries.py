"""The parts for teaching taxpr a library whose objects hold states, for `taxpr.register_library`.

docs/how-to/new-library.md shows how.
"""

from taxpr._calls.bound import Statics, without_statics
from taxpr._calls.door import Door, door_of
from taxpr._calls.in_place import objects
from taxpr._calls.libraries import Library, is_object
from taxpr._calls.model import Held, Opened, PureCode, Taken, Unbound, is_held, like
from taxpr._calls.objects import parameters_of
from taxpr._calls.static import is_traced, plain

__all__ = [
    "Door",
    "Held",
    "Library",
    "Opened",
    "PureCode",
    "Statics",
    "Taken",
    "Unbound",
    "door_of",
    "is_held",
    "is_object",
    "is_traced",
    "like",
    "objects",
    "parameters_of",
    "plain",
    "without_statics",
]
