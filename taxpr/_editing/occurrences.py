"""Which bindings of a variable one of its occurrences is, as `Program.variables` counts them.

The function is traced once more before, without a change. The marks in that program tell which
binding left them. A body that JAX traces several times to find its types binds its variables each
time; all but the last time leave nothing in the program, and are changed like the last one.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from taxpr import _compat
from taxpr._editing.changer import Changer, Edits, Logged
from taxpr._errors import RefusedError
from taxpr._variables.select import Var, chosen
from taxpr._variables.table import Variables
from taxpr._watching.frames import changing, marks_left, watching
from taxpr._watching.hidden import with_hidden


def occurrences(
    edits: Edits, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[int, frozenset[int]]:
    """For each edit of one occurrence the numbers of the bindings that it means.

    Raises:
        SelectorError: If there is no such occurrence.
        RefusedError: If a binding is several occurrences, and not all of them are meant.
    """
    changer = Changer(edits, watched=marks_left)
    leaves, tree = jax.tree.flatten((args, dict(kwargs)))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]

    def of_arrays(*arrays: Any) -> Any:
        new = list(leaves)
        for k, array in zip(places, arrays, strict=True):
            new[k] = array
        args, kwargs = jax.tree.unflatten(tree, new)
        out = fun(*args, **kwargs)
        return [one for one in jax.tree.leaves(out) if isinstance(one, jax.Array)]

    with (
        jax.disable_jit(False),
        changing(changer, object(), edits.in_jax()) as told,
        watching() as watch,
    ):
        if not told:
            return {}
        jaxpr, _ = _compat.make_jaxpr_and_shapes(of_arrays)(*(leaves[k] for k in places))
        variables = Variables(with_hidden(jaxpr))
    found: dict[int, frozenset[int]] = {}
    for number, one in enumerate(edits.edits):
        if one.occurrence is None:
            continue
        where = Var(one.text, one.line, one.occurrence)
        every = chosen(variables.table, Var(one.text, one.line), may_be_empty=True)
        wanted = chosen(variables.table, where, one.optional)
        at = _bindings(changer.log, number)
        of = {one: at.get(variables.number_of(one), -1) for one in every}
        meant, left = {of[one] for one in wanted}, set(of.values())
        if also := [one for one in every if of[one] in meant and one not in wanted]:
            raise RefusedError(
                f"edit: {edits.edits[number]!r} is {also[0]}, too: JAX has traced the function "
                "once for both. Leave out occurrence= to change all, or inject changes one of them."
            )
        found[number] = frozenset(_with_others(changer.log, number, meant, left, watch.again))
    return found


def _bindings(log: list[Logged], edit: int) -> dict[int, int]:
    """The bindings that left marks, by the numbers of these: the last one before each."""
    return {one.marks + 1: k for k, one in enumerate(log) if one.binds.edit == edit}


def _with_others(
    log: list[Logged],
    edit: int,
    meant: set[int],
    left: set[int],
    again: Mapping[tuple[int, int, str], int],
) -> Iterator[int]:
    """The bindings that are meant, and those like them that left nothing in the program.

    These come before them, or hand a function the same large value again.
    """
    own = [(k, one) for k, one in enumerate(log) if one.binds.edit == edit]
    first = {k: again.get((one.marks, one.code, one.binds.name)) for k, one in own}
    following: dict[tuple[Any, int], int] = {}
    for k, one in reversed(own):
        same = one.binds, one.code
        if k in left:
            following[same] = k
        if (k in left or first[k] is None) and following.get(same) in meant:
            yield k
    last: dict[tuple[Any, int], int] = {}
    for k, one in own:
        number = first[k]
        if k in left:
            last[one.binds, one.marks + 1 if number is None else number] = k
        elif number is not None and last.get((one.binds, number)) in meant:
            yield k
