"""Large values that a function is handed once more, from the same place as in the call before.

The methods of a model with many layers hold all of its arrays in each call. To compare and to name
all of them each time would take the square of their number. So the variable goes on from the
call before, and has new names for the places that have changed since then.
"""

import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from taxpr._source.files import is_user_file
from taxpr._watching.changes import is_of_jax
from taxpr._watching.held import HeldTracers


class LastHanded(NamedTuple):
    """A variable in the last call from a place.

    Attributes:
        held: Its tracers.
        number: The number of the binding in the first call.
        codes: The functions of the place; while they are kept here, no others get their `id`.
    """

    held: HeldTracers
    number: int
    codes: tuple[types.CodeType, ...]


class HandedValue(NamedTuple):
    """A large value, or a part of one, that a variable gets.

    Attributes:
        by: A variable that holds it, of a function that is running, maybe of the same one.
        place: Where it is handed to: the variable and its line, and the calls from there.
        codes: The functions of these calls.
    """

    by: HeldTracers
    place: tuple[Any, ...]
    codes: tuple[types.CodeType, ...]

    @property
    def last(self) -> LastHanded | None:
        """The variable in the last call from the same place."""
        last = self.by.handed.get(self.place)
        return last if last is not None and last.held.is_large else None

    def keep(self, held: HeldTracers, number: int) -> None:
        """Keep what the variable holds for the next call."""
        if held.is_large:
            self.by.handed[self.place] = LastHanded(held, number, self.codes)

    @property
    def may_change(self) -> bool:
        """Whether a library that nobody watches runs in between, and may change containers."""
        files = (code.co_filename for code in self.codes[1:-1])
        return not all(is_user_file(file) or is_of_jax(file) for file in files)


def handed(
    frame: types.FrameType,
    held_in: Callable[[types.FrameType], Iterable[HeldTracers]],
    value: object,
    *place: object,
) -> HandedValue | None:
    """Who holds a value that a variable of a function gets; None if nobody.

    Args:
        frame: The function.
        held_in: Tells what variables of a function hold.
        value: The value.
        *place: The variable and where it is bound.
    """
    codes, instructions = [frame.f_code], list[int]()
    at: types.FrameType | None = frame
    while at is not None:
        for one in held_in(at):
            if one.holds(value):
                key = (*place, *map(id, codes), *instructions)
                return HandedValue(one, key, tuple(codes))
        if (at := at.f_back) is not None:
            codes.append(at.f_code)
            instructions.append(at.f_lasti)
    return None
