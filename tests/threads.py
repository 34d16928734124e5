"""Threads that begin at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor


def at_once(*calls):
    """What the calls return, begun at the same time, each in a thread of its own."""
    start = threading.Barrier(len(calls))

    def begin(call):
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(begin, call) for call in calls]]
