"""The variables of the source, by the addresses of the values that they held."""

import functools
from collections.abc import Collection, Iterable, Sequence

import taxpr
from taxpr_jupyter._text.short import visible


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
        if not held:
            return ""
        first = held[0]
        parts = [one for one in held if one.owner == first.owner and first.path.endswith(one.path)]
        return visible(min(parts, key=lambda one: len(one.path)).text)
