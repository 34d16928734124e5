"""`agreed`: processes tell each other what they ask before they run it together.

A program on devices of several processes runs when all of them start it. One that starts another,
or none, would leave the others waiting for ever.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection

import jax

from taxpr import _compat
from taxpr._errors import ArgumentError

_WAIT = "TAXPR_WAIT_SECONDS"  # a variable of the environment
_SECONDS = 300.0  # as long as `jax.distributed.initialize` waits

_turns: dict[frozenset[int], int] = {}  # by the processes, how often they have agreed
_alone = threading.Lock()


def agreed(processes: Collection[int], said: str, number: int = 0) -> int:
    """Wait until some processes ask the same thing; one process does not wait.

    Args:
        processes: Their numbers; this one's is among them.
        said: The question of this process, in words.
        number: A number, such as the bytes that are free here.

    Returns:
        The minimum of their numbers, so that all go on in the same way.

    Raises:
        ArgumentError: If another process asks something else, or nothing in the time that the
            environment variable ``TAXPR_WAIT_SECONDS`` has.
    """
    store, own = _compat.process_store(), jax.process_index()
    if store is None or len(processes) == 1:
        return number
    with _alone:
        group = frozenset(processes)
        turn, among = _turns.get(group, 0), "-".join(map(str, sorted(group)))

        def key(process: int, turn: int = turn) -> str:
            return f"taxpr/{among}/{turn}/{process}"

        store.key_value_set(key(own), json.dumps([said, number]))
        found: dict[int, tuple[str, int]] = {}
        seconds = float(os.environ.get(_WAIT, _SECONDS))
        end = time.monotonic() + seconds
        for process in sorted(group):
            left = max(int(1000 * (end - time.monotonic())), 1)
            try:
                text = store.blocking_key_value_get(key(process), left)
            except jax.errors.JaxRuntimeError as error:
                store.key_value_delete(key(own))  # so that it may ask again
                late = {"process": process, "seconds": seconds, "own": own, "said": said}
                raise ArgumentError(_LATE.format(**late)) from error
            found[process] = tuple(json.loads(text))
        # All have come to this turn, so that all have read what was said in the one before.
        _turns[group] = turn + 1
        if turn:
            store.key_value_delete(key(own, turn - 1))
    for process, (other, _) in found.items():
        if other != said:
            raise ArgumentError(_OTHER.format(process=process, other=other, own=own, said=said))
    return min(number for _, number in found.values())


_LATE = (
    "process {process} has not asked in {seconds:g} s what process {own} asks: {said}. The values "
    "are on devices of both, so both must ask, in the same order, as with any computation of JAX; "
    "also where one alone shows the answer. TAXPR_WAIT_SECONDS in the environment says how long to "
    "wait. The reason may also be that the process has ended with an error."
)
_OTHER = (
    "process {process} asks something else. It asks: {other}. Process {own} asks: {said}. The "
    "values are on devices of both, so both must ask the same, with the same options."
)
