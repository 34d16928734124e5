"""Release large results of old runs, so that a session does not fill up the memory."""

import dataclasses
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.run import HOW_AGAIN, Run
from taxpr_jupyter._runs.state_runs import WriteRun
from taxpr_jupyter._text.short import aval_text

KEPT_BYTES = 2**28  # of large results, for all runs before the last one
SMALL = 2**14  # bytes of an array that the last runs do not release
_NUMBER = 16  # bytes of one


class Released:
    """Replaces a large array in a `Run` whose memory was released.

    Using it as an array raises an error that says how to get the array back.

    Attributes:
        shape: The shape of the array.
        dtype: The dtype of the array.
        nbytes: Its size in bytes; it also has `ndim`, `size` and `itemsize`.
    """

    _noun = "array"

    def __init__(self, array: Any, number: int) -> None:
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        self.ndim, self.size, self.itemsize = array.ndim, array.size, array.itemsize
        self._what = f"{aval_text(jax.typeof(array))} of run {number}"

    def __repr__(self) -> str:
        return f"<{self._what}, released: print(run.code) shows how to have it again>"

    @property
    def _message(self) -> str:
        return f"The {self._noun} {self._what} was released. {HOW_AGAIN}"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PanelError(self._message)

    __array__ = __getitem__ = __iter__ = __len__ = __bool__ = _refuse
    __int__ = __float__ = __complex__ = __neg__ = __abs__ = __pow__ = __matmul__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self._message} It has no {name!r}", name=name, obj=self)


class ReleasedTree(Released):
    """Replaces a whole PyTree, if its class accepts only arrays."""

    _noun = "value"

    def __init__(self, tree: Any, number: int) -> None:
        self._what = f"{type(tree).__name__} of run {number}"


def trimmed(
    runs: Sequence[Run], kept_bytes: float, others: Any = (), *, keep_last: bool = True
) -> list[Run]:
    """Release large arrays of older runs until the rest fits a limit; the oldest goes first.

    The last completed run keeps its arrays. Arrays in ``others`` do not count.

    Args:
        runs: The runs, oldest first.
        kept_bytes: The most bytes of arrays in runs before the last one.
        others: A PyTree with arrays that stay in memory anyway.
        keep_last: Whether to keep the last run.
    """
    kept = {id(array) for array in jax.tree.leaves(others)}
    last = max((k for k, run in enumerate(runs) if run.ok and keep_last), default=-1)
    if last >= 0:
        kept |= {id(array) for array in _large(runs[last])}
    new = list(runs)
    for k in reversed(range(len(runs))):
        own = {id(array): array.nbytes for array in _large(runs[k])}
        kept_bytes -= sum(nbytes for key, nbytes in own.items() if key not in kept)
        if kept_bytes >= 0:
            kept |= own.keys()
        else:
            new[k] = _released(runs[k], kept)
        if k < len(runs) - 1 or not keep_last:
            _clear_frames(runs[k].exception)
            if new[k].finish is not None:  # `finish` holds all results of a live run
                write = new[k].write_code
                code = write() if write else new[k].code
                new[k] = dataclasses.replace(new[k], finish=None, write_code=None, code=code)
    return new


def summary_of(run: Run) -> Run:
    """The run with its texts, statistics, differences and single numbers, without arrays."""
    return _released(run, (), _NUMBER)


def _clear_frames(error: BaseException | None) -> None:
    """Clear the local variables in the frames of an error, such as the inputs of a run."""
    todo, seen = [error], set()
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:  # an error can be its own cause
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            todo += [one.__cause__, one.__context__]


def _large(run: Run, most: int = SMALL) -> list[Any]:
    """The arrays of a run with more bytes than this."""
    found: list[Any] = []

    def look(tree: Any) -> Any:
        for leaf in jax.tree.leaves(tree):
            if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.nbytes > most:
                found.append(leaf)
        return tree

    _mapped(run, look)
    return found


def _released(run: Run, kept: Collection[int], most: int = SMALL) -> Run:
    """The run without its large arrays, except those whose ids are in `kept`."""
    gone = {id(array): array for array in _large(run, most) if id(array) not in kept}
    if not gone:
        return run

    def without(tree: Any) -> Any:
        leaves, structure = jax.tree.flatten(tree)
        if not any(id(leaf) in gone for leaf in leaves):
            return tree
        left = [Released(leaf, run.number) if id(leaf) in gone else leaf for leaf in leaves]
        try:
            return jax.tree.unflatten(structure, left)
        except Exception:  # the user's class accepts only arrays
            return ReleasedTree(tree, run.number)

    new = _mapped(run, without)
    size = sum(array.nbytes for array in gone.values())
    states = tuple(
        dataclasses.replace(state, writes=tuple(map(_without_values, state.writes)))
        for state in new.states
    )
    return dataclasses.replace(new, states=states, released=run.released + size)


def _without_values(write: WriteRun) -> WriteRun:
    """The write without its values, with a note if they were released."""
    if not isinstance(write.values, Released):
        return write
    note = ", ".join(filter(None, [write.note, "released"]))
    return dataclasses.replace(write, values=None, note=note)


def _mapped(run: Run, of: Callable[[Any], Any]) -> Run:
    """The run with each PyTree of its results changed."""

    def each(trees: Mapping[str, Any]) -> dict[str, Any]:
        return {name: of(tree) for name, tree in trees.items()}

    records = {
        key: dataclasses.replace(record, value=of(record.value), report=each(record.report))
        for key, record in run.records.items()
    }
    states = tuple(
        dataclasses.replace(
            state,
            writes=tuple(dataclasses.replace(w, values=of(w.values)) for w in state.writes),
        )
        for state in run.states
    )
    return dataclasses.replace(
        run,
        records=records,
        states=states,
        outputs=of(run.outputs),
        baseline=of(run.baseline),
        ctx=each(run.ctx),
        final_states=each(run.final_states),
        baseline_states=each(run.baseline_states),
    )
