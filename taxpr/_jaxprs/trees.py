"""Trees as messages and programs name their leaves."""

from __future__ import annotations

from typing import Any

import jax

from taxpr._compat import PyTree


def named_leaves(root: str, tree: PyTree) -> list[tuple[str, Any]]:
    """The leaves with their names, such as ``"ctx['w']"`` for the root ``"ctx"``."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(f"{root}{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves]
