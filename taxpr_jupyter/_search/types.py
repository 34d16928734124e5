"""Parse types of values in a search: `bf16`, `[2,16]`, `f32[*,64]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taxpr_jupyter._errors import PanelError

TYPE = re.compile(r"(?:Ref\{)?([\w<>]*)\[([^\]]*)\]\}?")
DTYPE = re.compile(
    r"b?f\d+\w*|[iuc]\d+|bool|bfloat16|u?int\d+|float\d+\w*|complex\d+|key(<\w+>)?", re.I
)


def shape_of(text: str) -> re.Match[str]:
    """The type that a reader wrote, such as `2,16` or `f32[*,64]`.

    Raises:
        PanelError: It is none.
    """
    if not TYPE.fullmatch(text):
        text = f"[{text.strip('()')}]"
    found = TYPE.fullmatch(text)
    if found is None or not all(re.fullmatch(r"\d+|\*|\.\.\.", s) for s in sizes_of(found[2])):
        raise PanelError(f"{text} is no shape. Write shape:[2,16], shape:f32[*,64] or shape:[...]")
    return found


def sizes_of(text: str) -> list[str]:
    """`["2", "16"]`; of a sharded `8@x` the size only."""
    return [size.strip().partition("@")[0] for size in text.split(",") if size.strip()]


def fits_sizes(own: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a shape is one that is looked for."""
    if "..." in wanted:
        at = wanted.index("...")
        before, after = wanted[:at], wanted[at + 1 :]
        if len(own) < len(before) + len(after):
            return False
        return fits_sizes(own[:at], before) and fits_sizes(own[len(own) - len(after) :], after)
    return len(own) == len(wanted) and all(
        size in ("*", has) for has, size in zip(own, wanted, strict=True)
    )
