"""`Compiled`, the answer of `compiled`, which can be saved."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import json
import operator
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import alike, as_dict, size_text
from taxpr._errors import ArgumentError, a_type
from taxpr._given import file_to_write, refuse_no_path, told_how
from taxpr._kernels.changes import CompiledChanges, changes
from taxpr._kernels.collectives import CollectiveRow, Collectives
from taxpr._kernels.shardings import ShardingRow, Shardings
from taxpr._programs.divided import Division

_MOVED = "Values moved between devices, with mesh axes and statements: .collectives"
_REMOVED = (
    "XLA has computed them beforehand, made one equation of them and others, or left them out; or "
    "they only give a value another shape."
)


@dataclasses.dataclass(frozen=True)
class KernelRow:
    """A kernel in `Compiled`: an instruction that XLA runs, with all fused operations.

    Attributes:
        kind: XLA's word, such as ``"fusion"``, ``"dot"`` or ``"copy"``.
        variable: The variables that its statements bound; for XLA's own copy, the copied variable.
        line: Their lines.
        code: The statements; for a kernel that XLA has added, "" or the copied statement.
        shared: How many statements it computes: 0 if XLA has added it.
        times: How often it runs in a call; None in a while loop.
        bytes: The bytes that it writes, over all runs.
        address: The first of its equations.
        equations: The addresses of all.
        instruction: XLA's name for it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> [row] = taxpr.compiled(f)(jnp.ones(50)).rows
        >>> row.shared, row.equations, row.bytes
        (2, ('0:sin', '1:mul'), 200)
    """

    kind: str
    variable: str
    line: str
    code: str
    shared: int
    times: int | None
    bytes: int
    address: str
    equations: tuple[str, ...]
    instruction: str


@dataclasses.dataclass(frozen=True)
class RemovedRow:
    """A statement with equations that no kernel computes; `Compiled.removed` has these rows.

    Attributes:
        variable: The variable that the statement bound.
        line: Its line.
        code: The statement.
        address: The first of these equations.
        equations: The addresses of all.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     unused = jnp.sin(x)
        ...     return x * 2
        >>> [row] = taxpr.compiled(f)(jnp.ones(50)).removed.rows
        >>> row.variable, row.equations
        ('unused', ('0:sin',))
    """

    variable: str
    line: str
    code: str
    address: str
    equations: tuple[str, ...]


_NONE, _NO_COLLECTIVES, _NO_SHARDINGS = Answer("", []), Collectives("", []), Shardings("", [])


class _Removed(Answer):
    _columns = "variable", "line", "code", "equations"


class _Kernels(Answer):
    _columns = "kind", "variable", "line", "code", "shared", "kernels", "times", "bytes"

    def listed(self) -> list[dict[str, Any]]:
        """The kernels of the same statements as one row, most bytes first: a GPU runs hundreds."""
        said = operator.attrgetter("kind", "variable", "line", "code", "shared", "times")
        told = [
            {
                **as_dict(rows[0]),
                "kernels": len(rows) if len(rows) > 1 else None,
                "bytes": sum(row.bytes for row in rows),
            }
            for rows in alike(self.rows, said)
        ]
        return sorted(told, key=lambda one: -one["bytes"])

    def _shown(self) -> list[dict[str, Any]]:
        return [{**row, "bytes": size_text(row["bytes"])} for row in super()._shown()]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Compiled(_Kernels):
    """The compiled program of a call; `compiled` makes it. Its rows are the kernels, in order.

    As text it shares a row among kernels of the same statements, the largest first.

    Attributes:
        fusions: The kernels that compute more than one statement.
        added: Kernels that XLA has added, such as copies: they have no equation. Most bytes first.
        removed: The equations that no kernel computes.
        collectives: The values that move between devices, and the statements that cause it.
        shardings: How variables are divided among several devices.
        text: The optimized program, as XLA writes it.
        executable: JAX's compiled object, with ``memory_analysis()`` and the like; None if loaded
            from a file.
        version: The version of jax that compiled it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y @ y
        >>> made = taxpr.compiled(f)(jnp.ones((50, 50)))
        >>> [row.variable for row in made.rows], made.fusions.rows, made.added.rows
        (['y', ''], [], [])
    """

    fusions: Answer = _NONE
    added: Answer = _NONE
    removed: Answer = _NONE
    collectives: Collectives = _NO_COLLECTIVES
    shardings: Shardings = _NO_SHARDINGS
    text: str = ""
    executable: Any = None
    version: str = ""
    _parts: CompiledParts | None = dataclasses.field(default=None, repr=False)

    @told_how("Give it another answer of taxpr.compiled.")
    def compare(self, other: Compiled) -> CompiledChanges:
        """The differences from another compilation, largest change first.

        Args:
            other: Another answer of `compiled`: of an edited function, with other options, or by
                another version of jax, see `questions.load_compiled`.

        Example:
            >>> import jax.numpy as jnp, taxpr
            >>> def f(x):
            ...     y = jnp.sin(x)
            ...     return y @ y
            >>> x = jnp.ones((50, 50))
            >>> shorter = taxpr.edit(f, taxpr.var("y"), lambda y: y[:25, :25])
            >>> found = taxpr.compiled(f)(x).compare(taxpr.compiled(shorter)(x))
            >>> [(row.before, row.after) for row in found.rows if row.code == "return y @ y"]
            [(10000, 2500)]
        """
        if not isinstance(other, Compiled):
            raise ArgumentError(
                f"compare: other is {a_type(other)}. Give what taxpr.compiled(fun)(*args) returned."
            )
        return changes(self, other)

    @told_how("Give it the path of a file.")
    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a JSON file, which `questions.load_compiled` reads with another jax, too.

        Args:
            path: The file, such as ``"before.json"``.

        Raises:
            ArgumentError: If there can be no such file.

        Example:
            >>> import tempfile, jax.numpy as jnp, taxpr
            >>> made = taxpr.compiled(lambda x: jnp.sin(x) @ x)(jnp.ones((50, 50)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     made.save(f"{folder}/before.json")
            ...     before = taxpr.questions.load_compiled(f"{folder}/before.json")
            >>> before.compare(made).rows, before.version == made.version
            ([], True)
        """
        if self._parts is None:
            raise ArgumentError("save: this table has no program. Ask taxpr.compiled(fun)(*args).")
        about = {"format": _FORMAT, **dataclasses.asdict(self._parts)}
        with file_to_write("save", path) as file:
            file.write_text(json.dumps(about, indent=1), encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class CompiledParts:
    """The parts of a `Compiled` that are written to a file.

    Attributes:
        name: The name of the function.
        platform: The platform of the devices.
        version: The version of jax.
        rows: The kernels.
        removed: The statements without a kernel.
        collectives: The values that move between devices.
        shardings: How variables are divided among them.
        shardings_notes: Notes on the variables that have no row.
        text: The optimized program.
    """

    name: str
    platform: str
    version: str
    rows: Sequence[KernelRow]
    removed: Sequence[RemovedRow]
    collectives: Sequence[CollectiveRow]
    shardings: Sequence[ShardingRow]
    shardings_notes: Sequence[str]
    text: str


def compiled_of(
    parts: CompiledParts, executable: Any = None, values: Mapping[str, Division] | None = None
) -> Compiled:
    """The answer with these parts, and how each value is divided."""
    name, rows, moved, removed = parts.name, parts.rows, parts.collectives, parts.removed
    fusions = [row for row in rows if row.shared > 1]
    added = sorted((row for row in rows if not row.shared), key=lambda row: -row.bytes)
    equations = sum(len(row.equations) for row in removed)
    size = sum(row.bytes for row in moved)
    among = f"{count_of(len(moved), 'collective')} of {size_text(size)}" if moved else "none"
    headline = (
        f"compiled {name} for {parts.platform}: {count_of(len(rows), 'kernel')}, {len(fusions)} of "
        f"several statements, {len(added)} of XLA's own; {count_of(equations, 'equation')} without "
        "a kernel"
    )
    return Compiled(
        f"{headline}; {among}" if moved else headline,
        rows,
        (_MOVED,) if moved else (),
        fusions=_Kernels(f"kernels of several statements in {name}: {len(fusions)}", fusions),
        added=_Kernels(f"what XLA added to {name}: {count_of(len(added), 'kernel')}", added),
        removed=_Removed(
            f"equations of {name} without a kernel: {equations}",
            removed,
            (_REMOVED,) if removed else (),
        ),
        collectives=Collectives(f"collectives of {name}: {among}", moved, bytes=size),
        shardings=Shardings(
            f"shardings of {name}: {count_of(len(parts.shardings), 'variable')}",
            parts.shardings,
            tuple(parts.shardings_notes),
            values=values or {},
        ),
        text=parts.text,
        executable=executable,
        version=parts.version,
        _parts=parts,
    )


@told_how("Give it the path of a file that Compiled.save has written.")
def load_compiled(path: str | pathlib.Path) -> Compiled:
    """Read a file of `Compiled.save`, also one written with another version of jax.

    Args:
        path: The file.

    Returns:
        The `Compiled`, without an ``executable``.

    Raises:
        ArgumentError: If there is no such file, or something else is in it.

    Example:
        >>> import taxpr
        >>> taxpr.questions.load_compiled("nothing.json")
        Traceback (most recent call last):
        taxpr._errors.ArgumentError: load_compiled: 'nothing.json' cannot be read: No such file...
    """
    refuse_no_path("load_compiled", path)
    try:
        about = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if about.pop("format") != _FORMAT:
            raise ValueError(_FORMAT)
        about |= {name: [_row_of(kind, row) for row in about[name]] for name, kind in _ROWS.items()}
        parts = CompiledParts(**about)
    except OSError as error:
        raise ArgumentError(
            f"load_compiled: {str(path)!r} cannot be read: {error.strerror}."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"load_compiled: {str(path)!r} is no file of this version of taxpr that "
            "taxpr.compiled(fun)(*args).save(path) wrote."
        ) from error
    return compiled_of(parts)


_FORMAT = "taxpr compiled 3"
_ROWS: dict[str, Any] = {
    "rows": KernelRow,
    "removed": RemovedRow,
    "collectives": CollectiveRow,
    "shardings": ShardingRow,
}


def _row_of(kind: Any, row: dict[str, Any]) -> Any:
    return kind(**{name: _frozen(value) for name, value in row.items()})


def _frozen(value: Any) -> Any:
    many: Any = value
    return tuple(many) if isinstance(value, list) else value
