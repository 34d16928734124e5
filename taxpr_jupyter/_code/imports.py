"""Find the free names of code, and write the imports that define them."""

import ast
import symtable
import sys
from types import ModuleType
from typing import Any


def free_names(code: str) -> list[str]:
    """The names that the code reads and does not define itself, in order of appearance."""
    tables = [symtable.symtable(code, "<code>", "exec")]
    made = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_assigned()}
    read = set()
    for table in tables:  # a `lambda` has a table of its own, where the name may be an argument
        tables += table.get_children()
        outermost = table is tables[0]
        read |= {s.get_name() for s in table.get_symbols() if outermost or s.is_global()}
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    names.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in names if node.id in read - made))


def import_line(name: str, value: Any) -> str | None:
    """The line that imports this object under this name.

    None if it cannot be imported, such as an object defined in the notebook itself.

    Example:
        >>> import jax
        >>> import_line("jnp", jax.numpy), import_line("rectified", jax.nn.relu)
        ('import jax.numpy as jnp', 'from jax.nn import relu as rectified')
    """
    if isinstance(value, ModuleType):
        if sys.modules.get(value.__name__) is not value or value.__name__ == "__main__":
            return None
        return f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else "")
    own, home = getattr(value, "__name__", None), _home(value)
    if home is None:
        return None
    return f"from {home} import {own}" + (f" as {name}" if own != name else "")


def _home(value: Any) -> str | None:
    """The public module that has a function or class under its own name, or None."""
    own, home = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if not isinstance(own, str) or not isinstance(home, str) or home == "__main__":
        return None
    top = home.partition(".")[0]
    # A library often defines a function in a private module and exports it from another one.
    homes = [home, *sorted((n for n in list(sys.modules) if n.partition(".")[0] == top), key=len)]
    for place in homes:
        public = not any(part.startswith("_") for part in place.split("."))
        if public and vars(sys.modules.get(place, object)).get(own) is value:
            return place
    return None
