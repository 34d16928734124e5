"""Make calls with modules of flax nnx pure, which hold their state in Variables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import flax  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
from flax import nnx  # pyright: ignore[reportMissingImports]
from flax.errors import TraceContextError  # pyright: ignore[reportMissingImports]

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.code import taking
from taxpr_jupyter._states.free_variables import reached
from taxpr_jupyter._states.model import PureCall, PureCode, like
from taxpr_jupyter._states.objects import Taken, taken
from taxpr_jupyter._states.passed import written
from taxpr_jupyter._states.unbound import unbind

_CLOSED_OVER = (
    "This function changes a module or a Variable of flax nnx that is none of its arguments, "
    "which nnx allows in no transformation. Make it an argument, as nnx.jit would need it, too: "
    "`%%taxpr f(model, x)`. nnx says: {error}"
)
_CHANGED = (
    "{name} of flax nnx is {before} before the call and {after} after it. A state has to keep its "
    "tree, shapes and dtypes: initialise it as what it becomes"
)
_TOO_OLD = (
    "States of flax nnx cannot be taken from flax {version}, which has no nnx.Variable.ref. "
    "Install flax 0.12.4 or newer; or give the function the state of nnx.split, and call "
    "nnx.merge in it"
)
_REFS = (
    "{name} of flax nnx holds a jax.Ref, which cannot be taken out of its module. Give the "
    "function a model without: nnx.with_vars(model, ref=False)"
)


def pure_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """Make a call pure by `nnx.split` and `nnx.merge`.

    The modules are arguments of the function, or the function is a module or a method of one. A
    module that the function closes over is read-only, as in nnx itself, and becomes a constant.

    Raises:
        PanelError: If an object cannot be split, if another object is changed, or if flax is too
            old.
        Exception: Any error of the function itself.
    """
    unbound = unbind(fun, _is_object)
    n_bound = len(unbound.args)
    out = taken(unbound.fun, (*unbound.args, *args), kwargs, _is_object)
    if not out.objects:
        _refuse_changes(fun, args, kwargs)
        return None
    if not hasattr(nnx.Variable, "ref"):
        raise PanelError(_TOO_OLD.format(version=flax.__version__))
    graph, state = nnx.split(dict(out.objects))
    several = len(out.objects) > 1
    states = _named(state, several)
    outputs = {  # collected by each call, so they grow with each call
        _name(path, several)
        for path, leaf in nnx.to_flat_state(state)
        if isinstance(leaf, nnx.Intermediate) and not isinstance(leaf, nnx.Perturbation)
    }
    made: set[str] = set()

    @like(fun)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        given = nnx.map_state(lambda path, leaf: _with(leaf, values[_name(path, several)]), state)
        objects = nnx.merge(graph, given)
        own, words = out.put(objects, (*out.args[:n_bound], *args), kwargs)
        try:
            result = unbound.fun(*own, **words)
        except TraceContextError as error:
            raise PanelError(_CLOSED_OVER.format(error=error)) from error
        after = _named(nnx.state(objects), several)
        made.update(after.keys() - values.keys())
        return result, {
            name: value if name in outputs else _kept(name, value, after.get(name, value))
            for name, value in values.items()
        }

    jaxpr = taxpr.trace(pure)(states, *out.args[n_bound:], **out.kwargs).jaxpr
    note = f"The call makes new Variables, which are not shown: {', '.join(sorted(made))}."

    def write(values: Mapping[str, Any]) -> None:
        new = nnx.map_state(
            lambda path, leaf: _with(leaf, {**states, **values}[_name(path, several)]), state
        )
        nnx.update(dict(out.objects), new)

    return PureCall(
        fun=pure,
        states=states,
        written=written(jaxpr, states),
        args=out.args[n_bound:],
        kwargs=out.kwargs,
        library="flax.nnx",
        code=lambda: _code(n_bound, out, several, outputs),
        write=write,
        bound=unbound if n_bound else None,
        note=note if made else "",
    )


def _is_object(x: Any) -> bool:
    return isinstance(x, (nnx.Pytree, nnx.Variable))


def _refuse_changes(fun: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not any(_is_object(found.thing) for found in reached(fun)):
        return
    try:
        jax.eval_shape(fun, *args, **kwargs)
    except TraceContextError as error:
        raise PanelError(_CLOSED_OVER.format(error=error)) from error
    except Exception:  # tracing will report any other error
        return


def _name(path: Sequence[Any], several: bool) -> str:
    return ".".join(map(str, path if several or len(path) == 1 else path[1:]))


def _named(state: Any, several: bool) -> dict[str, Any]:
    """The values in a state of nnx, by name."""
    found = {}
    for path, leaf in nnx.to_flat_state(state):
        name = _name(path, several)
        if isinstance(leaf, nnx.Variable) and leaf.ref:
            raise PanelError(_REFS.format(name=name))
        found[name] = leaf.get_value() if isinstance(leaf, nnx.Variable) else leaf
    return found


def _with(leaf: Any, value: Any) -> Any:
    return leaf.copy(value) if isinstance(leaf, nnx.Variable) else value


def _kept(name: str, before: Any, after: Any) -> Any:
    """The value after the call, if its type is unchanged."""
    types = [
        (jax.tree.structure(value), [(jnp.shape(x), jnp.result_type(x)) for x in leaves])
        for value in (before, after)
        for leaves in [jax.tree.leaves(value)]
    ]
    if types[0] == types[1]:
        return after
    raise PanelError(_CHANGED.format(name=name, before=_type(before), after=_type(after)))


def _type(value: Any) -> str:
    leaves = [f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in jax.tree.leaves(value)]
    return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"


_CODE = """
graph, state = nnx.split(objects)

def name(path):
    return ".".join(map(str, path{inner}))

def by_name(state):
    found = nnx.to_flat_state(state)
    return {{name(path): x.get_value() if hasattr(x, "get_value") else x for path, x in found}}

def with_values(states):
    def new(path, x):
        return x.copy(states[name(path)]) if hasattr(x, "get_value") else states[name(path)]

    return nnx.merge(graph, nnx.map_state(new, state))

states = by_name(state)

def pure(states, *args, **kwargs):
    objects = with_values(states)
    args, kwargs = put(objects, {args}, kwargs)
    out = fun(*args, **kwargs)
    after = by_name(nnx.state(objects))
    return out, {{name: {kept} for name, value in states.items()}}
"""


def _code(n_bound: int, out: Taken, several: bool, outputs: Collection[str]) -> PureCode:
    body = taking("(nnx.Pytree, nnx.Variable)", out.places) + _CODE.format(
        inner="" if several else "[1:] or path",
        args=f"(*rest[0][:{n_bound}], *args)" if n_bound else "args",
        kept=(
            f"value if name in {sorted(outputs)!r} else after.get(name, value)"
            if outputs
            else "after.get(name, value)"
        ),
    )
    return PureCode(body, {"nnx": "flax.nnx"}, n_bound)
