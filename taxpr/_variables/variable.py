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
        path: Where in it the value was, such as ``"['w']"``; ``""`` where it was the value.
        function: The qualified name of the function, such as ``"loss.<locals>.layer"``.
        file: The file of the function; of a cell in a notebook what Python calls it.
        begins: The line at which the function begins, from 1.
        line: The line that bound it, from 1.
        occurrence: Which of the values it is that the variable held one after the other, from 0,
            counted over all calls of the function.
        address: The address of the value.
        aval: The value's aval.
        loops: The addresses of the loops around it, outermost first.
        mapped: The axes of the value that `jax.vmap` has put into it.
        recomputed: Whether it is computed once more for a backward pass.
        differentiated: Whether a derivative of it was taken. Changing the value afterwards does not
            change that derivative.
        edited: What `taxpr.edit` did in that line, such as ``"h = h * 2"``; "" if nothing.

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
        """The function, as no other is called."""
        return self.file, self.begins, self.function

    def quoted(self, statement: str) -> str:
        """The statement that bound it, with what an edit did there."""
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
