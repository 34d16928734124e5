"""The loops in a closed part, each with how often it runs and the loops in it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from taxpr import introspect
from taxpr_jupyter._analysis.sizes import Loop
from taxpr_jupyter._closed import loops
from taxpr_jupyter._model.model import count_of


def each_of(
    found: Sequence[Loop], count: int, width: int, within: Iterable[introspect.JaxprEqn] = ()
) -> list[str]:
    """`scan ×12`, `2 × scan ×5 reverse › while`: loops with those in them, if there is room.

    Args:
        found: The loops.
        count: How many there are. If these are not all, there is only the number.
        width: The characters for a loop.
        within: The equations that they are in.
    """
    if count > len(found):
        return [count_of(count, "loop")]
    texts = [_with_inner(one, width, within if count == 1 else ()) for one in found]
    return [f"{times} × {text}" if times > 1 else text for text, times in Counter(texts).items()]


def _with_inner(loop: Loop, width: int, within: Iterable[introspect.JaxprEqn]) -> str:
    own = loops.words(loop.eqn, within)
    inner = each_of(loop.first, loop.loops, width)
    text = " › ".join([own, *inner]) if len(inner) < 2 else f"{own} › ({', '.join(inner)})"
    short = f"{own} › {count_of(loop.loops, 'loop')}" if loop.loops else own
    return text if len(text) <= width else short
