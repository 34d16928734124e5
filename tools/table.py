"""Writes the table of docs/primitives.md, from the table of entries in `taxpr._hops.table`.

.envs/newest/bin/python tools/table.py      with the newest JAX
"""

from pathlib import Path

import jax.experimental.pallas  # noqa: F401  (its primitives enter the table once it is imported)

from taxpr import _compat
from taxpr._errors import name_of
from taxpr._hops.protocol import Hop
from taxpr._hops.table import registered

PAGE = Path(__file__).resolve().parent.parent / "docs" / "primitives.md"
BEGIN, END = "<!-- table of higher-order primitives -->", "<!-- end of table -->"


def injects(hop: Hop) -> str:
    if hop.refusal:
        return f"refused: {hop.refusal}"
    return f"inlined: {hop.drops} is dropped" if hop.drops else "yes"


def markdown() -> str:
    """The entries, those that say the same in one row; first those that can be injected."""
    # These keep their jaxprs in an object, where none can be replaced, but for that of a root.
    hiding = {kind for kind in registered() if isinstance(kind, type)} - {_compat.CustomRoot}
    hiding.add(_compat.call_hi_primitive_linearized_p)
    names: dict[tuple[str, ...], list[str]] = {}
    for kind, hop in registered().items():
        dissolve = "refused: its jaxpr is hidden" if kind in hiding else "yes"
        row = ("yes", dissolve, injects(hop), "yes")
        if not (hop.inject or hop.refusal):
            row = ("no: only JAX writes its jaxpr", "no", "no", "as one node")
        names.setdefault(row, []).append(f"`{name_of(kind)}`")
    rows = [(", ".join(sorted(same)), *row) for row, same in names.items()]
    rows.sort(key=lambda row: (row[3] == "no", row[3] != "yes", row[3], row[0]))
    head = ("Primitive", "walk", "dissolve", "inject", "draw")
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))


def written(page: str) -> str:
    """The page with the table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
