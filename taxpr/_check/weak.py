"""The rule on weak types: an argument is a Python scalar in one call and an array in another."""

import re
from collections.abc import Iterator
from typing import Any

import jax

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.walk import iter_eqns
from taxpr._source.files import is_library_file
from taxpr._untyped import tree_util as _trees

_NEW = re.compile(r"^(new|next|updated)_|_(new|next|updated)$")


def weak_types(program: Examined) -> Iterator[Suspicion]:
    """A type is weak once and strong at another time, so that JAX traces again."""
    yield from _handed_back(program)
    yield from _traced_twice(program)


def _handed_back(program: Examined) -> Iterator[Suspicion]:
    """Arguments that come back with another type."""
    traced = program.program
    of_argument: dict[int, list[int]] = {}
    # What is new in an argument has no number of its.
    changes = ((k, out) for k, out in program.changes.items() if k < len(traced.in_avals))
    for k, out in (*changes, *_same_names(program), *_same_trees(program)):
        before, after = traced.in_avals[k], traced.out_avals[out]
        if _is_traced_again(before, after):
            of_argument.setdefault(k, []).append(out)
    for k, (out, *_) in sorted(of_argument.items()):
        name, before, after = traced.in_names[k], traced.in_avals[k], traced.out_avals[out]
        what = "a Python scalar" if not before.shape else before.str_short()
        comes = f"{name} comes in as {what} (weakly typed)"
        dtype = "" if before.dtype == after.dtype else f" of {after.dtype.name}"
        yield Suspicion(
            f"{comes} and goes out as an array{dtype} (strongly typed). Called with its result, "
            "the function is traced and compiled again.",
            variable=name,
            address=f"in{k}",
            fix=_FULL if before.shape else "",
        )


_FULL = "Give it a dtype from the start: jnp.full(shape, 0.0, jnp.float32)."


def _is_traced_again(before: Any, after: Any) -> bool:
    same = getattr(before, "shape", None) == getattr(after, "shape", ())
    return same and getattr(before, "weak_type", False) and not after.weak_type


def _same_names(program: Examined) -> Iterator[tuple[int, int]]:
    """Arguments, and results that have the name of one."""
    traced, level = program.program, program.levels[0]
    names = {name: k for k, name in enumerate(traced.in_names)}
    outs: list[int] = jax.tree.leaves(program.results)
    for out in outs:
        name = _NEW.sub("", _own_name(program.name(level, level.outs[out])))
        k = names.get(name)
        if k is not None and _dtype(traced.in_avals[k]) == _dtype(traced.out_avals[out]):
            yield k, out


def _own_name(short: str) -> str:
    return short.rpartition(".")[2] if "[" not in short else short


def _same_trees(program: Examined) -> Iterator[tuple[int, int]]:
    """Leaves of an argument, and of a result of the same structure, shapes and names."""
    traced, level = program.program, program.levels[0]
    args, kwargs = jax.tree.unflatten(traced.in_tree, range(len(traced.in_avals)))
    whole: Any = program.results
    results: list[Any] = [whole, *(whole if isinstance(whole, (tuple, list)) else ())]
    for argument in (*args, *kwargs.values()):
        taken: list[int] = jax.tree.leaves(argument)
        if not _is_named(argument) and not any(_shape(traced.in_avals[k]) for k in taken):
            continue  # numbers, which a result may have by chance
        for result in results:
            given: list[int] = jax.tree.leaves(result)
            if jax.tree.structure(result) != jax.tree.structure(argument):
                continue
            pairs = list(zip(taken, given, strict=True))
            shapes = [
                (_shape(traced.in_avals[k]), _shape(traced.out_avals[out])) for k, out in pairs
            ]
            # A gradient is no new state.
            if any(_is_derivative(level, out) for out in given):
                continue
            if all(before == after for before, after in shapes):
                yield from pairs


def _is_named(tree: Any) -> bool:
    paths = _trees.tree_leaves_with_path(tree)
    return any(not isinstance(key, _trees.SequenceKey) for path, _ in paths for key in path)


def _is_derivative(level: Level, out: int) -> bool:
    maker = level.makers.get(level.outs[out])
    return maker is not None and maker.backward


def _shape(aval: Any) -> Any:
    return getattr(aval, "shape", None)


def _dtype(aval: Any) -> Any:
    return getattr(aval, "dtype", None)


def _traced_twice(program: Examined) -> Iterator[Suspicion]:
    """A function of the user's that was traced for both, within one program."""
    seen: dict[object, list[tuple[bool, ...]]] = {}
    for address, eqn in iter_eqns(program.program):
        if eqn.primitive is not _compat.jit_p:
            continue
        inner: Any = _compat.open_jaxpr(nested_jaxprs(eqn)[0].stored)
        function = _compat.function_of(inner)
        avals = [var.aval for var in inner.invars]
        arrays = all(isinstance(aval, _compat.ShapedArray) for aval in avals)
        if function is None or is_library_file(function[0], eqn) or not arrays:
            continue
        weak = tuple(aval.weak_type for aval in avals)
        others = seen.setdefault((function, tuple((a.shape, a.dtype) for a in avals)), [])
        if others and weak not in others:
            names = inner.debug_info.arg_names or range(len(avals))
            pairs = zip(names, others[0], weak, strict=True)
            differ = " and ".join(str(name) for name, one, other in pairs if one is not other)
            yield Suspicion(
                f"{eqn.params['name']} is traced twice, since {differ} is a Python scalar in one "
                "call and an array in another.",
                program.statements(address),
                address,
                differ,
            )
        others.append(weak)
