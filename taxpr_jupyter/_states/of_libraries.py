"""Make a call that uses states of a library pure, with the states first and by name."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from taxpr.libraries import Held, Opened, is_held, like
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.pure_call import PureCall

_CHANGED = (
    "{name} of {library} is {before} before the call and {after} after it. A state has to keep its "
    "tree, shapes and dtypes: initialise it with those it has after the call"
)


def pure_call(opened: Opened) -> PureCall:
    """The call of a pure function.

    Its states have their names in their objects, after the objects' names if there are several.
    Values in its result that are no arrays are put aside, see `taxpr.libraries.plain`.
    """
    first = opened.first
    several = len(first.states()) > 1
    names = {
        (label, name): ".".join(filter(None, (label, name))) if several or not name else name
        for label, own in first.states().items()
        for name in own
    }
    hidden, given = first.args[0], (first.args[1:], dict(first.kwargs))
    places = jax.tree.leaves(given, is_leaf=_is_place)
    args, kwargs = jax.tree.map(lambda x: None if is_held(x) else x, given, is_leaf=is_held)
    grows = {names[one] for one in opened.grows}

    @like(opened.fun)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        def filled(x: Held) -> Held:
            return Held(x.label, {name: values[names[x.label, name]] for name in x.values})

        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_place)
        put = [filled(a) if is_held(a) else b for a, b in zip(places, leaves, strict=True)]
        own, words = jax.tree.unflatten(tree, put)
        out, after = opened.fun(tuple(map(filled, hidden)), *own, **words)
        new = dict(values)
        for label, arrays in after.items():
            for key, array in arrays.items():
                name = names[label, key]
                if name not in grows:
                    new[name] = _kept(opened.library, name, values[name], array)
        return out, new

    def write(values: Mapping[str, Any]) -> None:
        after: dict[str, dict[str, Any]] = {}
        for (label, key), name in names.items():
            if name in values and name not in grows:
                after.setdefault(label, {})[key] = values[name]
        assert first.put is not None
        first.put(after)

    def note() -> str:
        lost = " and ".join(opened.lost)
        return f"Not shown: the call {lost}." if lost else opened.note()

    return PureCall(
        fun=pure,
        states={names[k, name]: x for k, own in first.states().items() for name, x in own.items()},
        args=args,
        kwargs=kwargs,
        library=opened.library,
        code=opened.code,
        write=write if first.put else None,
        bound=opened.bound,
        note=note,
    )


def _is_place(x: Any) -> bool:
    return x is None or is_held(x)


def _kept(library: str, name: str, before: Any, after: Any) -> Any:
    """The value after the call, if its type is unchanged."""
    types = [
        (jax.tree.structure(value), [(jnp.shape(x), jnp.result_type(x)) for x in leaves])
        for value in (before, after)
        for leaves in [jax.tree.leaves(value)]
    ]
    if types[0] == types[1]:
        return after
    told = {"before": _type(before), "after": _type(after)}
    raise PanelError(_CHANGED.format(name=name, library=library, **told))


def _type(value: Any) -> str:
    leaves = [f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in jax.tree.leaves(value)]
    return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"
