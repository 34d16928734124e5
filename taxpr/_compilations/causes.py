"""Compare two calls of a jitted function: find the difference, and advise."""

import contextlib
import dataclasses
import functools
import itertools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from taxpr._calls.static import Static
from taxpr._compilations.signature import Signature, SignedLeaf, short
from taxpr._untyped import jax as _jax

_TreeDef = _jax.tree_util.PyTreeDef


class CallChange(NamedTuple):
    """A difference of two calls.

    Attributes:
        cause: Its kind, such as ``"shape"``.
        argument: The argument, with its path; else "".
        before: The earlier value or type.
        now: The present value or type.
    """

    cause: str
    argument: str
    before: str
    now: str


# Why a function is traced anew, and why one that was traced is compiled anew: the first that is
# found is told first. Each with its fix.
TRACED = {
    "number of arguments": "Give the same arguments in each call: a default always or never.",
    "keyword": "Give the argument always by keyword, or always by position.",
    "static value": "Each value is compiled for itself. If no shape depends on it, let the "
    "argument be an array and not static.",
    "static object": "It is equal to no other object. Make it once, and give the same one each "
    "time, or give its class __eq__ and __hash__.",
    "tree structure": "Build the argument alike in each call: the same keys, containers and static "
    "fields, and None always or never.",
    "transformation": "Put jax.jit outside: jax.jit(jax.grad(f)), jax.jit(jax.vmap(f)).",
    "shape": "Give a few shapes only: pad to them, or drop the last batch that is smaller.",
    "dtype": "Give the same dtype in each call: jnp.asarray(x, jnp.float32).",
    "weak type": "Give an array of a fixed dtype in each call, as jnp.float32(x): a Python "
    "scalar has a weak type, and so have values computed from it alone.",
    "explicit sharding": "Give the argument the same sharding in each call: jax.device_put.",
    "flag": "Set it once, before the first call.",
    "mesh": "Make the call in the same mesh each time.",
}
COMPILED = {
    "options": "Call jax.jit once, and keep what it returns.",
    "sharding": "Put the argument on its devices once, by jax.device_put, or give in_shardings.",
    "device": "Put the argument on one device once, by jax.device_put.",
    "committed": "Let it be on its device by jax.device_put in all calls or in none. A result is "
    "committed where an argument was.",
    "memory": "Put the argument into one kind of memory once.",
    "flag": TRACED["flag"],
}
CURES = TRACED | COMPILED


def changes(before: Signature, now: Signature, traced: bool) -> list[CallChange]:
    """In what two calls differ, the most important first.

    Args:
        before: A call that was compiled.
        now: One that is traced or compiled.
        traced: Whether it is traced: then it does not count what JAX looks at afterwards.
    """
    found = list(_of_trace(before, now))
    if not (traced and found):
        found += _of_compile(before, now)
    ranks = list(CURES)
    return sorted(found, key=lambda one: ranks.index(one.cause))


def _of_trace(before: Signature, now: Signature) -> Iterator[CallChange]:
    yield from _arguments(before, now)
    for name, value in now.statics.items():
        if name in before.statics and not _same(before.statics[name], value):
            old = before.statics[name]
            cause = "static object" if _alike(old, value) else "static value"
            path, *texts = _first_in_values(old, value)
            yield CallChange(cause, f"{name}{path}", *texts)
    for name, tree in now.trees.items():
        old = before.trees.get(name)
        if old is not None and old != tree:
            path, *texts, is_static = _first_difference(old, tree)
            cause = "static value" if is_static else "tree structure"
            yield CallChange(cause, f"{name}{path}", *texts)
    for path, leaf in now.leaves.items():
        old = before.leaves.get(path)
        if old is not None:
            yield from _of_leaf(path, old, leaf)
    yield from _settings(before, now)


def _of_compile(before: Signature, now: Signature) -> Iterator[CallChange]:
    for path, leaf in now.leaves.items():
        old = before.leaves.get(path)
        if old is not None and old.place != leaf.place:
            yield CallChange(_place_cause(old.place, leaf.place), path, old.lies, leaf.lies)
    for name, value in now.options.items():
        if name in before.options and before.options[name] != value:
            yield CallChange("options", name, short(before.options[name]), short(value))
    if before.key == now.key:
        for name, value in now.settings.items():
            if before.settings.get(name) != value and "log" not in name:
                yield CallChange("flag", name, short(before.settings.get(name)), short(value))


def _arguments(before: Signature, now: Signature) -> Iterator[CallChange]:
    for old, new, texts in (
        (before, now, ("by position", "by keyword")),
        (now, before, ("by keyword", "by position")),
    ):
        for name in old.names:
            if name in new.keywords:
                yield CallChange("keyword", name, *texts)
    every = [{*one.names, *one.keywords} for one in (before, now)]
    for name in [*now.names, *sorted(now.keywords)]:
        if name not in every[0]:
            yield CallChange("number of arguments", name, "not given", "given")
    for name in [*before.names, *sorted(before.keywords)]:
        if name not in every[1]:
            yield CallChange("number of arguments", name, "given", "not given")


def _of_leaf(path: str, old: SignedLeaf, new: SignedLeaf) -> Iterator[CallChange]:
    if old.under != new.under:
        texts = (" of ".join(one.under) or "called by itself" for one in (old, new))
        yield CallChange("transformation", path, *texts)
    if old.shape != new.shape:
        yield CallChange("shape", path, old.text, new.text)
    if old.dtype != new.dtype:
        yield CallChange("dtype", path, _said(old), _said(new))
    elif old.weak != new.weak:
        yield CallChange("weak type", path, _said(old), _said(new))
    if old.typed != new.typed and old.shape == new.shape:
        yield CallChange("explicit sharding", path, old.typed or old.text, new.typed or new.text)


def _said(leaf: SignedLeaf) -> str:
    said = ", ".join(filter(None, [leaf.kind, "weak type" if leaf.weak else ""]))
    return f"{leaf.text} ({said})" if said else leaf.text


def _settings(before: Signature, now: Signature) -> Iterator[CallChange]:
    if before.key == now.key:
        return
    differ = [pair for pair in zip(before.key, now.key, strict=False) if pair[0] != pair[1]]
    named = False
    for name, value in now.settings.items():
        old = before.settings.get(name)
        if old != value and (old, value) in differ:
            named = True
            yield CallChange("flag", name, short(old), short(value))
    if before.mesh != now.mesh:
        yield CallChange("mesh", "", before.mesh, now.mesh)
    elif not named:
        texts = (", ".join(short(pair[k]) for pair in differ) for k in (0, 1))
        yield CallChange("flag", "a context of JAX", *texts)


def _same(a: Any, b: Any) -> bool:
    """Whether two static arguments are equal, as `jax.jit` compares them."""
    return jax.tree.structure(Static(a)) == jax.tree.structure(Static(b))


def _alike(a: Any, b: Any) -> bool:
    """Whether two values that are not equal say the same, as two lambdas of one line."""
    if type(a) is not type(b):
        return False
    if isinstance(a, types.FunctionType):
        return a.__code__ == b.__code__
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and _alike(a.__self__, b.__self__)
    if isinstance(a, functools.partial):
        a_b: Any = a, b
        parts = ((one.func, *one.args, *sorted(one.keywords.items())) for one in a_b)
        return all(_same(x, y) or _alike(x, y) for x, y in itertools.zip_longest(*parts))
    if type(a).__eq__ is not object.__eq__ or not hasattr(a, "__dict__"):
        return False
    return _same(_attributes(a), _attributes(b))


def _attributes(x: Any) -> tuple[Any, ...]:
    own: Any = x.__dict__
    return tuple(own.items())


def _first_difference(old: Any, new: Any, path: str = "") -> tuple[str, str, str, bool]:
    """The first difference of two tree structures.

    Returns:
        The path, what there is in each, and whether these are static values.
    """
    kinds, children = (_node(one) for one in (old, new)), (old.children(), new.children())
    a, b = kinds
    if a != b or len(children[0]) != len(children[1]):
        if a is not None and b is not None and a[0] is b[0]:
            for name, *values in _static_values(a[0], old, new):
                inner, before, now = _first_in_values(*values)
                return f"{path}{name}{inner}", before, now, True
        return path, *_texts(old, new), False
    keys = _keys(old)
    for key, one, other in zip(keys, *children, strict=True):
        if one != other:
            return _first_difference(one, other, f"{path}{key}")
    return path, *_texts(old, new), False


def _static_values(kind: Any, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """The static values that two nodes of one class have and that differ, with their names."""
    trees = old, new
    if kind is Static:
        before, now = (jax.tree.unflatten(one, ()).value for one in trees)
        yield "", before, now
    if not dataclasses.is_dataclass(kind):
        return
    children = {*_keys(old)}
    with contextlib.suppress(Exception):  # of a class of the user's, which takes no numbers
        nodes = [_jax.tree.unflatten(one, range(one.num_leaves)) for one in trees]
        for field in dataclasses.fields(kind):
            before, now = (getattr(one, field.name, None) for one in nodes)
            if f".{field.name}" not in children and not _same(before, now):
                yield f".{field.name}", before, now


def _first_in_values(old: Any, new: Any, path: str = "") -> tuple[str, str, str]:
    """The first difference of two static values: the path, and both values there."""
    if type(old) is type(new) and type(old) in (tuple, list, dict) and len(old) == len(new):
        of_dict = isinstance(old, dict)
        keys: list[Any] = [*old] if of_dict else [*range(len(old))]
        for key in keys:
            if (not of_dict or key in new) and not _same(old[key], new[key]):
                return _first_in_values(old[key], new[key], f"{path}[{key!r}]")
    if isinstance(old, _TreeDef) and isinstance(new, _TreeDef):
        inner, before, now, _ = _first_difference(old, new)
        return f"{path}{inner}", before, now
    return path, short(old), short(new)


def _node(tree: Any) -> Any:
    return tree.node_data()


def _keys(tree: Any) -> list[str]:
    """The paths from a node to its children, as JAX writes them."""
    count = len(tree.children())
    children: list[Any] = []
    with contextlib.suppress(Exception):  # of a class of the user's, which takes no numbers
        node: Any = _jax.tree.unflatten(tree, range(tree.num_leaves))

        def is_below(x: Any) -> bool:
            return x is not node

        children = _jax.tree_util.tree_flatten_with_path(node, is_leaf=is_below)[0]
    if len(children) != count:
        return [f"[{k}]" for k in range(count)]
    return [_jax.tree_util.keystr(path) for path, _ in children]


def _texts(old: Any, new: Any) -> tuple[str, str]:
    """Two nodes in words: for two dicts the keys that the other lacks."""
    a, b = _node(old), _node(new)
    if a is None or b is None or a[0] is not b[0] or a[1] == b[1]:
        return _kind(old), _kind(new)
    if a[0] is dict:
        return _keys_text(a[1], b[1]), _keys_text(b[1], a[1])
    return f"{a[0].__name__} of {short(a[1])}", f"{b[0].__name__} of {short(b[1])}"


def _keys_text(own: list[Any], other: list[Any]) -> str:
    """The keys of a dict that another one has not, else those that it lacks."""
    more = [repr(key) for key in own if key not in other]
    lacking = [repr(key) for key in other if key not in own]
    return f"with {', '.join(more)}" if more else f"without {', '.join(lacking)}"


def _kind(tree: Any) -> str:
    data = _node(tree)
    if data is None:
        return "an array" if tree.num_leaves else "None"
    if data[0] is Static:
        return short(jax.tree.unflatten(tree, ()).value)
    count = len(tree.children())
    return f"{data[0].__name__} of {count}"


def _place_cause(old: Any, new: Any) -> str:
    single = [one for one in (old, new) if one is not None]
    if not all(isinstance(one, _jax.sharding.SingleDeviceSharding) for one in single):
        return "sharding"
    devices = [one.device_set for one in single]
    if len(single) == 2:
        return "memory" if devices[0] == devices[1] else "device"
    [[device]] = map(list, devices)
    return "committed" if device == _jax.devices()[0] else "device"
