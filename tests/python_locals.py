"""What plain Python sees in the variables of functions, to compare programs with."""

import ast
import functools
import pathlib
import sys
import types
from collections.abc import Iterator

import jax
import numpy as np
from checks import assert_close

import taxpr
from taxpr import var
from taxpr._variables.select import labels


def compare(fn, args, monkeypatch, around=()):
    """Assert that the variables of a traced function held what they hold op by op.

    ``around`` has functions and variables whose values come from around two iterations of a loop.
    """
    program = taxpr.trace(fn, names=True)(*args)
    found = collected(program, args)
    check_recorded(program, args, found)
    monkeypatch.setattr(jax, "checkpoint", lambda fn: fn)  # which traces also op by op
    expected = Locals({one.file for one in program.variables()})(fn, *args)
    # Op by op, the counter of a loop is a number of Python.
    assert {key for key in found if key[1] != "k"} == set(expected)
    for key, values in expected.items():
        times = 2 if key[:2] in around else 1
        assert len(found[key]) * times == len(values), key
        for one, other in zip(found[key] * times, values, strict=True):
            assert_close(one, other, tolerance=1e-5)


@functools.cache
def line_of_def(file, first):
    """The line of the def of a function, by the line where it begins: at its first decorator."""
    lines = []
    for node in ast.walk(ast.parse(pathlib.Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            lines.append((min(one.lineno for one in node.decorator_list), node.lineno))
    return dict(lines).get(first, first)


class Locals:
    """Every value that a local variable held, in order, by function, name, path and line."""

    def __init__(self, files):
        self.files = files
        self.found = {}
        self.held = {}

    def __call__(self, fn, *args):
        before = sys.gettrace()
        try:
            with jax.disable_jit():
                sys.settrace(self._call)
                fn(*args)
        finally:
            sys.settrace(before)
        return self.found

    def _call(self, frame, event, arg):
        if frame.f_code.co_filename not in self.files:
            return None
        if frame not in self.held:  # and no generator that goes on
            code = frame.f_code
            self.held[frame] = {}, line_of_def(code.co_filename, code.co_firstlineno)
        return self._event

    def _event(self, frame, event, arg):
        held, line = self.held[frame]
        for name, value in frame.f_locals.items():
            if name in frame.f_code.co_freevars:
                continue
            for path, leaf in leaves(value):
                if held.get((name, path)) is not leaf:
                    held[name, path] = leaf
                    key = frame.f_code.co_qualname, name + path, line
                    self.found.setdefault(key, []).append(number(leaf))
        self.held[frame] = held, frame.f_lineno
        return self._event


def leaves(value):
    if isinstance(value, Iterator):
        return []
    if is_object(value):
        return [
            (f".{name}{path}", leaf)
            for name, one in vars(value).items()
            if not is_object(one)
            for path, leaf in leaves(one)
        ]
    paths = jax.tree_util.tree_flatten_with_path(value)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in paths if is_array(leaf)]


def is_object(value):
    no = (type, types.FunctionType, types.ModuleType, jax.Array)
    return (
        jax.tree_util.all_leaves([value])
        and hasattr(value, "__dict__")
        and not isinstance(value, no)
    )


def is_array(leaf):
    return isinstance(leaf, jax.Array)


def number(leaf):
    while isinstance(leaf, jax.core.Tracer):
        leaf = leaf.primal if hasattr(leaf, "primal") else leaf.val
    return np.asarray(leaf)


def collected(program, args):
    """The same of a program: for each iteration of the loops around a variable what it held."""
    every = [one for one in program.variables() if not one.recomputed]
    where = [var(exact(one), line=one.line, occurrence=one.occurrence) for one in every]
    values = program.collect(where, max_steps=50)(*args)[1]
    assert len(values) == len(every)
    found = {}
    for one, label in zip(every, labels(every), strict=True):
        key = one.function, one.text, one.line
        found.setdefault((key, one.loops), []).append((one, values[label]))
    out = {}
    for (key, loops), pairs in found.items():
        rows = [fired(value, len(loops), np.shape(one.aval)) for one, value in pairs]
        each = zip(*rows, strict=True) if loops else rows
        out.setdefault(key, []).extend(x for step in each for x in step)
    return out


def check_recorded(program, args, expected):
    """Assert that a recording kept the same. What a loop is only handed it has once."""
    every = [one for one in program.variables() if not one.recomputed]
    rec = taxpr.watch(program)(*args)
    values = {}
    for part in rec.parts:
        if part.variable in every:
            kept = part.kept
            one = np.asarray(kept.value).reshape(-1, *kept.shape)
            one = one if kept.fired is None else one[kept.fired.reshape(-1)]
            key = part.variable.function, part.variable.text, part.variable.line
            values.setdefault(key, []).append(list(one))
    assert values.keys() == expected.keys()
    for key, parts in values.items():
        rest = list(expected[key])
        for x in (x for one in parts for x in one):
            same = [k for k, other in enumerate(rest) if close(x, other)]
            assert same, (key, x)
            del rest[same[0]]
        # What is left was handed to several iterations.
        assert all(any(close(x, other) for one in parts for x in one) for other in rest)


def close(one, other):
    return one.shape == other.shape and np.allclose(one, other, 1e-5, 1e-6, equal_nan=True)


def exact(one):
    return f"{one.function.replace('<locals>.', '')}.{one.text}"


def fired(value, loops, shape):
    """The values of all firings in order."""
    mask = None
    if isinstance(value, (taxpr.Masked, taxpr.Steps)):
        value, mask = value.value, getattr(value, "mask", None)
    value = np.asarray(value).reshape(-1, *shape)
    return list(value if mask is None else value[np.asarray(mask).reshape(-1)])
