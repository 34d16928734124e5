"""Trees as messages and programs name their leaves."""

from typing import Any

import jax

from taxpr._compat import PyTree

_keys: Any = jax.tree_util  # which declares no types of paths


def named_leaves(root: str, tree: PyTree) -> list[tuple[str, Any]]:
    """The leaves with their names, such as ``"ctx['w']"`` for the root ``"ctx"``."""
    return [
        (f"{root}{_keys.keystr(path)}", leaf)
        for path, leaf in _keys.tree_flatten_with_path(tree)[0]
    ]
