"""The variables of the source, by the addresses of the values that they held."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import taxpr
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.short import visible
from taxpr_jupyter._text.source_frames import Owner, SourceFrame

_NUMBER = re.compile(r"\[\d+\]")


class HeldVariables:
    """Looks up variables; the program's are read when the first is asked for.

    Args:
        program: A program; it may know no variables.

    Example:
        >>> import jax.numpy as jnp
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> HeldVariables(taxpr.trace(f, names=True)(1.0)).name("0:sin.0")
        'y'
    """

    def __init__(self, program: taxpr.Program) -> None:
        self._program = program

    @functools.cached_property
    def _by_address(self) -> dict[str, list[taxpr.program.Variable]]:
        found: dict[str, list[taxpr.program.Variable]] = {}
        for one in self._program.variables():
            found.setdefault(one.address, []).append(one)
        return found

    @property
    def addresses(self) -> Iterable[str]:
        """The addresses of all values that a variable held."""
        return self._by_address.keys()

    def at(self, address: str) -> Sequence[taxpr.program.Variable]:
        """All variables that held the value, in order; empty if unknown."""
        return self._by_address.get(address, ())

    def name(self, address: str, nameless: Collection[str] = ("_",)) -> str:
        """The first of them as it is written, such as ``"params['w']"``; or "".

        A variable that its function took out of another one goes before a part of that.

        Args:
            address: The address.
            nameless: The names that count as no name.
        """
        held = [one for one in self.at(address) if one.name not in nameless]
        return visible(_shortest(held).text) if held else ""

    def passed_on(
        self, names: Sequence[str], addresses: Sequence[str], others: Iterable[str] = ()
    ) -> list[str]:
        """Names with those that a called function has in place of numbers: `adv`, not `chunk[1]`.

        Only where it has one variable for all values of this number, and no other value's name.

        Args:
            names: The names of values; "" of one without.
            addresses: The addresses of these.
            others: The names of other values beside them.
        """
        renamed: dict[str, dict[str, set[str]]] = {}  # by the part that begins with a number
        for name, address in zip(names, addresses, strict=True):
            root, *path = path_parts(name) or [""]
            if path and _NUMBER.fullmatch(path[0]):
                rest = "".join(path[1:])
                roots = {one.name for one in self.at(address) if one.path == rest}
                renamed.setdefault(root + path[0], {})[name] = roots - {"_", root}
        taken = {path_parts(name)[0] for name in (*names, *others) if name}
        # The function that has the numbers may have another value by that name.
        takers = {held[0].owner for address in addresses if (held := self.at(address))}
        taken.update(name for owner in takers for name in self._own[owner])
        found: dict[str, str] = {}
        for start, roots in renamed.items():
            shared = sorted(set.intersection(*roots.values()) - taken)
            if len(shared) == 1 and len(shared[0]) > 1:
                found[start] = shared[0]
        once = Counter(found.values())
        result: list[str] = []
        for name in names:
            parts = path_parts(name)
            start = "".join(parts[:2])
            new = found.get(start, "") if len(parts) > 1 else ""
            result.append("".join((new, *parts[2:])) if new and once[new] == 1 else name)
        return result

    def seen_by(self, frame: SourceFrame, address: str) -> taxpr.program.Variable | None:
        """The variable that a function reads where it reads this value; None where it has none.

        Args:
            frame: A call of the function.
            address: The address of the value.
        """
        seen = (one for one in self.at(address) if self.sees(frame, one.owner, one.name))
        held = [one for one in seen if one.name != "_"]
        # It may be one variable in the first call of a function, and another one in the next.
        for owner in self._called_again.intersection(one.owner for one in held):
            of_owner = [one for one in held if one.owner == owner]
            if len({one.text for one in of_owner}) > 1 < len({one.occurrence for one in of_owner}):
                held = [one for one in held if one.owner != owner]
        around = [one for one in held if frame.hiding(one.owner) is not None]
        return _shortest(around or held) if held else None

    def sees(self, frame: SourceFrame, owner: Owner, *names: str, hidden: bool = False) -> bool:
        """Whether names mean the variables of a function in a call of it, or of another function.

        So they do where the other one can read them, and where no other function has such names.

        Args:
            frame: The call.
            owner: The function.
            *names: The names.
            hidden: Whether variables of the function itself hide the names, too.
        """
        hiding = frame.hiding(owner)
        if hiding is None:
            return bool(names) and all(self._owners.get(name) == {owner} for name in names)
        if hiding and not self._own:
            return False
        hiding = [*hiding, owner] if hidden else hiding
        return not any(name in self._own.get(one, ()) for one in hiding for name in names)

    @functools.cached_property
    def _own(self) -> Mapping[Owner, Mapping[str, int]]:
        """For each function its variables, each with the number of values that it held."""
        found: dict[Owner, dict[str, int]] = {}
        for one in itertools.chain.from_iterable(self._by_address.values()):
            own = found.setdefault(one.owner, {})
            own[one.name] = max(own.get(one.name, 0), one.occurrence + 1)
        return found

    @functools.cached_property
    def _owners(self) -> Mapping[str, set[Owner]]:
        """For each name the functions that have such a variable."""
        found: dict[str, set[Owner]] = {}
        for owner, names in self._own.items():
            for name in names:
                found.setdefault(name, set()).add(owner)
        return found

    @functools.cached_property
    def _called_again(self) -> frozenset[Owner]:
        """The functions that may have been called several times."""
        return frozenset(owner for owner, own in self._own.items() if min(own.values()) > 1)


def _shortest(held: Sequence[taxpr.program.Variable]) -> taxpr.program.Variable:
    """The first variable, or one that its function took out of it."""
    first = held[0]
    parts = [one for one in held if one.owner == first.owner and first.path.endswith(one.path)]
    return min(parts, key=lambda one: len(one.path))
