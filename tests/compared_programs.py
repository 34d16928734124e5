"""Programs for the tests of comparisons."""

import numpy as np

import taxpr
from taxpr_jupyter._diff.diff import diff

V = np.asarray([0.3, -0.8, 1.1], np.float32)


def compared(before, after, *args):
    return diff(taxpr.trace(before)(*args), taxpr.trace(after)(*args))


def counts(found):
    return {status: n for status, n in found.counts.items() if n}


def named(name, fn):
    """The function under another name."""

    def call(*args):
        return fn(*args)

    call.__name__ = call.__qualname__ = name
    return call


def chain(*fns):
    def apply(x):
        for fn in fns:
            x = fn(x)
        return x

    return apply
