"""The functions that a library gives to `objects`, checked whenever they are used."""

# What others give is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr._calls.model import States
from taxpr._compat import is_sequence
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._source.unnoticed import unnoticed

Objects = Mapping[str, Any]
Split = Callable[[Objects], tuple[Any, States]]
Merge = Callable[[Any, States], Objects]
Update = Callable[[Objects, States], object]


class Checked:
    """The functions of a library that take objects apart and put them together.

    Their own variables are not noted: a library that is being written is no installed one.

    Args:
        name: The name of the library.
        kinds: The classes of its objects.
        split: These three as for `objects`.
        merge: ...
        update: ...
    """

    def __init__(
        self,
        name: str,
        kinds: type | tuple[type, ...],
        split: Split,
        merge: Merge,
        update: Update,
    ) -> None:
        classes = kinds if isinstance(kinds, tuple) else (kinds,)
        for one in classes:
            if not isinstance(one, type):
                raise ArgumentError(f"libraries.objects: {one!r} is no class of objects of {name}.")
        for what, fun in {"split": split, "merge": merge, "update": update}.items():
            refuse_no_function(f"libraries.objects: {what} of {name}", fun)
        self._name, self._kinds, self._was_split = name, classes, False
        self._split, self._merge = unnoticed(split), unnoticed(merge)
        self.update = unnoticed(update)

    def is_object(self, x: Any) -> bool:
        return isinstance(x, self._kinds)

    def split(self, objects: Objects) -> tuple[Any, States]:
        given: Any = self._split(objects)
        if not is_sequence(given) or len(given) != 2:
            raise self._wrong("split", f"returned {_a(given)}, not (static, states)")
        static, states = given
        if _keys(states) != {*objects}:
            raise self._wrong(
                "split",
                f"returned {_of(states)} as the states of {_of(objects)}: give for each object a "
                "dict of its arrays by their names, also where it is empty",
            )
        for label, own in states.items():
            names = _keys(own)
            if names is None or not all(isinstance(one, str) for one in names):
                raise self._wrong(
                    "split", f"returned {_of(own)} of {label!r}, not a dict of its arrays by names"
                )
        if not self._was_split:
            self._check_static(static, objects)
            self._was_split = True
        return static, states

    def merge(self, static: Any, states: States) -> Objects:
        made: Any = self._merge(static, states)
        labels = _keys(made)
        if labels is None or not labels >= {*states}:
            raise self._wrong(
                "merge", f"returned {_of(made)}, not a dict of the objects {_of(states)}"
            )
        for label in states:
            if not self.is_object(made[label]):
                kinds = " or ".join(one.__name__ for one in self._kinds)
                raise self._wrong("merge", f"made {label!r} {_a(made[label])}, not a {kinds}")
        return made

    def _check_static(self, static: Any, objects: Objects) -> None:
        """Refuse a static that no later call could be compared with."""
        try:
            leaves: list[Any] = jax.tree.leaves(static, is_leaf=self.is_object)
        except Exception:  # such as keys that have no order
            leaves = []
        for one in leaves:
            if self.is_object(one) or isinstance(one, jax.Array):
                raise self._wrong(
                    "split", f"returned a static with {_a(one)} in it: it is all that is no array"
                )
        try:
            is_same = bool(static == self._split(objects)[0])
        except Exception:  # such as the comparison of arrays
            is_same = False
        if not is_same:
            raise self._wrong(
                "split",
                "returned two statics of the same objects that are not equal by ==, so that no "
                "call would fit an earlier one: put into it what compares by value, such as tuples "
                "of classes, numbers and texts, and the functions themselves in place of copies",
            )

    def _wrong(self, what: str, why: str) -> ArgumentError:
        return ArgumentError(f"libraries.objects: {what} of {self._name} {why}.")


def _keys(given: Any) -> set[Any] | None:
    """The keys of a dict; None of something else."""
    return {*given} if isinstance(given, Mapping) else None


def _a(given: Any) -> str:
    kind = "array" if isinstance(given, jax.Array) else type(given).__name__
    return f"an {kind}" if kind[0] in "AEIOUaeiou" else f"a {kind}"


def _of(given: Any) -> str:
    """The keys of a dict; of something else its class."""
    keys = _keys(given)
    return _a(given) if keys is None else f"{{{', '.join(sorted(map(repr, keys)))}}}"
