"""`Variable`: a variable of the source, and one of the values that it held."""

import dataclasses
import linecache
from typing import Any

from taxpr._address import Address
from taxpr._places import place_text


@dataclasses.dataclass(frozen=True)
class Variable:
    """A value that a variable of the user's source held while the program was traced.

    Attributes:
        name: The variable, such as ``"params"``.
        path: The value's place in it, such as ``"['w']"``; ``""`` if it was the value itself.
        function: The qualified name of the function, such as ``"loss.<locals>.layer"``.
        file: The file of the function, or Python's name for a notebook cell.
        begins: The first line of the function, from 1.
        line: The line that bound it, from 1.
        occurrence: The number of this value among all values of the variable, from 0, over all
            calls of the function.
        address: The address of the value.
        aval: The value's aval.
        loops: The addresses of the loops around it, outermost first.
        mapped: The axes of the value that `jax.vmap` has put into it.
        recomputed: Whether it is computed once more for a backward pass.
        differentiated: Whether a derivative of it was taken. Changing the value afterwards does not
            change that derivative.
        edited: The change by `taxpr.edit` in that line, such as ``"h = h * 2"``; "" without one.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> for one in taxpr.trace(f, names=True)(1.0).variables():
        ...     print(one, one.address)
        f.x 0 in0
        f.y 0 0:sin.0
    """

    name: str
    path: str
    function: str
    file: str
    begins: int
    line: int
    occurrence: int
    address: Address
    aval: Any = dataclasses.field(compare=False)
    loops: tuple[Address, ...] = ()
    mapped: tuple[int, ...] = ()
    recomputed: bool = False
    differentiated: bool = False
    edited: str = ""

    @property
    def text(self) -> str:
        """The variable as it is written, such as ``"params['w']"``."""
        return self.name + self.path

    @property
    def short(self) -> str:
        """With the function's own name, such as ``"layer.scores"``, ``"Net.__call__.x"``."""
        parts = self.function.split(".")
        return ".".join([*parts[-2 if parts[-1].startswith("__") else -1 :], self.text])

    @property
    def owner(self) -> tuple[str, int, str]:
        """A unique key of the function."""
        return self.file, self.begins, self.function

    def quoted(self, statement: str) -> str:
        """The statement that bound it, with the change by an edit."""
        if not self.edited:
            return statement
        if self.edited.startswith(statement):  # which is the new one already
            statement = linecache.getline(self.file, self.line).strip()
        return f"{statement}  # edited: {self.edited}"

    @property
    def place(self) -> str:
        """The line that bound it, such as ``"model.py:12"`` or ``"cell 3:12"``."""
        return place_text(self.file, self.line)

    def __str__(self) -> str:
        return f"{self.short} {self.occurrence}"
