"""Expressions over recorded values: ``jnp.abs(h).max()``, ``h - y``."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

import taxpr
from taxpr_jupyter._edits.python_line import expression_of
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._lines.values import ValuesAt
from taxpr_jupyter._text.short import shortened

MOST = 4096  # times that an expression is evaluated
_HOW = "Write an expression of recorded variables, as in jnp.abs(h).max()"


def evaluated(text: str, values: ValuesAt, namespace: Mapping[str, Any]) -> Any:
    """An expression, evaluated for each iteration and each example by itself.

    Args:
        text: The expression. A variable that is bound several times means the last time; one of a
            certain function is ``layer.h``.
        values: The recorded values, at a cursor.
        namespace: Further names that it can use.

    Returns:
        The results as a value of a recording, for `ValuesAt.chip_of`.

    Raises:
        PanelError: It is no expression, a name means nothing or several variables, it cannot be
            computed, or it gives no array.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     h = x * 2
        ...     return h
        >>> values = ValuesAt(taxpr.watch(f)(jnp.arange(3.0)))
        >>> print(values.chip_of(evaluated("jnp.abs(h - x).max()", values, {"jnp": jnp}), ""))
        2
    """
    said = shortened(repr(text), 200)
    tree = checked_expression(text)
    names = _Names(values, namespace, said)
    code = compile(ast.fix_missing_locations(ast.Expression(names.visit(tree))), "<watch>", "eval")
    if not names.parts:
        raise PanelError(f"{said} has no recorded variable. {_HOW}")
    grid = _Grid(names.parts, values, said)
    results: dict[tuple[int, ...], Any] = {}
    for at, held in grid.firings():
        try:
            result = np.asarray(eval(code, {**namespace, **held}))
        except Exception as error:
            raise PanelError(f"{said} cannot be computed: {one_line(error)}") from None
        if result.dtype.kind not in "biufcV" or result.dtype.names:
            raise PanelError(f"{said} gives {shortened(repr(result), 60)}, and no numbers")
        results[at] = result
    shapes = {(one.shape, one.dtype) for one in results.values()}
    if len(shapes) > 1:
        raise PanelError(f"{said} gives arrays of different types in different iterations")
    return grid.part(text, results)


def checked_expression(text: str) -> ast.expr:
    """The tree of an expression over recorded values.

    Raises:
        PanelError: It is no expression.
    """
    return expression_of(text, shortened(repr(text), 200), _HOW)


def names_in(tree: ast.AST) -> list[str]:
    """The names in an expression, in their order."""
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return list(dict.fromkeys(names))


class _Names(ast.NodeTransformer):
    """Finds the recorded variables in an expression, and puts names of its own in their place."""

    def __init__(self, values: ValuesAt, namespace: Mapping[str, Any], said: str) -> None:
        self.parts: dict[str, Any] = {}
        self._values, self._namespace, self._said = values, namespace, said
        self._bound: set[str] = set()  # by lambdas and comprehensions

    def visit(self, node: ast.AST) -> Any:
        around = self._bound
        try:
            if isinstance(node, ast.Lambda):
                self.generic_visit(node.args)  # defaults, which see the names around
                given = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
                self._bound = around | given
                node.body = self.visit(node.body)
                return node
            if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
                first = node.generators[0]
                seen, first.iter = self.visit(first.iter), ast.Constant(None)  # sees these, too
                stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
                self._bound = around | {one.id for one in stored if isinstance(one.ctx, ast.Store)}
                self.generic_visit(node)
                first.iter = seen
                return node
        finally:
            self._bound = around
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            found = self._recorded(ast.unparse(node))
            if found is not None:
                own = next((k for k, one in self.parts.items() if one is found), None)
                own = own or f"_recorded_{len(self.parts)}"
                self.parts[own] = found
                return ast.Name(own, ast.Load())
        if isinstance(node, ast.Name) and not self._is_known(node.id):
            raise PanelError(
                f"{self._said}: no variable {node.id!r} was recorded, and the notebook has none"
            )
        return self.generic_visit(node)

    def _is_known(self, name: str) -> bool:
        builtins: Any = __builtins__
        there = builtins if isinstance(builtins, dict) else vars(builtins)
        return name in self._bound or name in self._namespace or name in there

    def _recorded(self, text: str) -> Any:
        """The part of the recording that a name means; None if it means none."""
        if text in self._bound:
            return None
        try:
            named = self._values.recording[text].parts
        except taxpr.TaxprError:
            named = [one for one in self._values.recording.parts if _is_called(one, text)]
        parts: list[Any] = [one for one in named if one.variable and not one.cotangent]
        if not parts:
            return None
        if len({one.path for one in parts}) > 1:
            raise PanelError(
                f"{self._said}: {text} is several arrays; name one, as {text}{parts[0].path}"
            )
        if len({one.variable.owner for one in parts}) > 1:
            names = ", ".join(dict.fromkeys(one.variable.short for one in parts))
            raise PanelError(f"{self._said}: {text} is a variable of several functions: {names}")
        return max(parts, key=lambda one: one.variable.occurrence)


def _is_called(part: Any, text: str) -> bool:
    return part.variable is not None and part.variable.text == text


class _Grid:
    """The iterations and the examples of several values."""

    def __init__(self, parts: Mapping[str, Any], values: ValuesAt, said: str) -> None:
        if values.example is not None:
            has = {k: one.examples == values.examples for k, one in parts.items()}
            parts = {
                k: one.of_example(values.example) if has[k] else one for k, one in parts.items()
            }
        self._said = said
        self._names = {name: one.name for name, one in parts.items()}
        self._arrays: dict[str, Any] = {}
        self._fired: dict[str, Any] = {}
        self._leads: dict[str, tuple[bool, bool]] = {}
        self.loop, self.iterations, self.examples = "", 0, 0
        for name, one in parts.items():
            try:
                array = one.whole()
            except taxpr.TaxprError as error:
                raise PanelError(f"{said}: {one_line(error)}") from None
            in_loop = bool(one.axes) and ":" in one.axes[0]
            if in_loop:
                if self.loop not in ("", one.axes[0]):
                    raise PanelError(f"{said}: its variables are in different loops")
                self.loop = one.axes[0]
                self.iterations = max(self.iterations, one.shape[0])
            mapped = bool(one.examples) and one.examples == values.examples
            if mapped:
                self.examples = one.examples
                array = jnp.moveaxis(jnp.asarray(array), one.example_axis, int(in_loop))
            self._arrays[name], self._leads[name] = array, (in_loop, mapped)
            self._fired[name] = one.kept.axes, one.kept.fired
        self._any = next(iter(parts.values()))
        if max(self.iterations, 1) * max(self.examples, 1) > MOST:
            raise PanelError(
                f"{said} would be evaluated more than {MOST} times: choose one example, or record "
                "fewer iterations"
            )

    def firings(self) -> Any:
        """Each iteration and example, with the values of the variables there."""
        for k, example in itertools.product(
            range(max(self.iterations, 1)), range(max(self.examples, 1))
        ):
            held: dict[str, Any] = {}
            for name, array in self._arrays.items():
                in_loop, mapped = self._leads[name]
                if (in_loop and k >= len(array)) or not self._ran(name, k, example):
                    break
                at = ((k,) if in_loop else ()) + ((example,) if mapped else ())
                held[name] = jnp.asarray(array[at])
            else:
                yield (k, example), held

    def _ran(self, name: str, k: int, example: int) -> bool:
        """Whether a variable was computed in an iteration, for an example.

        Raises:
            PanelError: It was in some iterations of an inner loop alone: the others are zeros.
        """
        axes, fired = self._fired[name]
        if fired is None:
            return True
        in_loop, mapped = self._leads[name]
        own = max((one for one in axes if one.startswith("vmap ")), default="")
        at = tuple(
            k if in_loop and j == 0 else example if mapped and one == own else slice(None)
            for j, one in enumerate(axes)
        )
        ran = np.asarray(fired)[at]
        if ran.any() and not ran.all():
            raise PanelError(
                f"{self._said}: {self._names[name]} was not computed in all iterations of an inner "
                "loop, or on all devices"
            )
        return bool(ran.all())

    def part(self, text: str, results: Mapping[tuple[int, ...], Any]) -> Any:
        """The results as a value of a recording."""
        first = next(iter(results.values()), np.zeros(()))
        lead = max(self.iterations, 1), max(self.examples, 1)
        value = np.zeros((*lead, *first.shape), first.dtype)
        fired = np.zeros(lead, bool)
        for at, one in results.items():
            value[at], fired[at] = one, True
        axes = [(self.loop, self.iterations), ("vmap 0", self.examples)]
        shape = tuple(many for _, many in axes if many)
        kept = dataclasses.replace(
            self._any.kept,
            axes=tuple(name for name, many in axes if many),
            shape=first.shape,
            dtype=first.dtype,
            value=value.reshape((*shape, *first.shape)),
            table=None,
            fired=fired.reshape(shape),
        )
        return dataclasses.replace(
            self._any, name=text, path="", variable=None, mapped=(), kept=kept
        )
