"""Whether something is used though no equation reads it: its shape, or what is not traced."""

from collections.abc import Iterable
from typing import NamedTuple

from taxpr._source.uses import uses


class Held(NamedTuple):
    """A variable that holds a value.

    Attributes:
        file: The file of its function.
        function: The qualified name of the function.
        name: The variable.
        line: The line that bound it.
    """

    file: str
    function: str
    name: str
    line: int


def is_asked_of(held: Iterable[Held]) -> bool:
    """Whether the user's functions use a value that no equation reads.

    They ask for its shape, compute in a branch of Python that was not taken, or hand it to a
    function that is not theirs. A function of theirs that gets it is looked at itself.

    Args:
        held: The variables that hold the value, in the order in which they were bound.
    """
    order = list(dict.fromkeys(held))
    found = {one: uses(*one) for one in order}
    every = [use for some in found.values() for use in some]
    if any(use.asks or not use.to for use in every):
        return True
    called = {use.to for use in every}
    for k, one in enumerate(order):
        later = {other.function for other in order[k + 1 :] if other.function != one.function}
        names = [function.split(".") for function in later]
        # A library may call the user's functions, as `model.apply` does.
        by_library = any(called.isdisjoint(parts) for parts in names)
        for use in found[one]:
            if not by_library and not any(use.to in parts for parts in names):
                return True
    return False
