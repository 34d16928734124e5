"""Make functions pure that call modules of haiku without `hk.transform`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import haiku as hk  # pyright: ignore[reportMissingImports]
import jax
from jax.core import Tracer

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.model import PureCall, PureCode, like
from taxpr_jupyter._states.objects import traceable, unique
from taxpr_jupyter._states.passed import written

RNG = "rng"
_NOTE = (
    "The parameters of haiku are those of hk.transform_with_state(f).init with "
    "jax.random.key(0){rng}."
)
_RNG_NOTE = ", and so is the key of the call, the state rng"
_LEAKED = (
    "This function makes a parameter or sets a state of haiku in a loop or a branch of jax.lax, or "
    "under jax.jit, jax.grad or jax.vmap, which haiku does not see. Use its own there, such as "
    "hk.scan, hk.cond, hk.grad, hk.vmap; or a taxpr.State, which may be used in all of them"
)


def pure_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """Make a call pure by `hk.transform_with_state`.

    Parameters and states are named by their modules, such as ``mlp/linear_0/w``. If the function
    uses random keys, the first key is the state ``rng``. A function that is already transformed is
    pure and stays as it is.

    Raises:
        PanelError: If a state is set where haiku does not see it.
        Exception: Any error of the function itself.
    """
    if not traceable(args, kwargs):
        return None

    def call(*args: Any, **kwargs: Any) -> Any:  # haiku refuses functions of jax.jit
        return fun(*args, **kwargs)

    model = hk.transform_with_state(call)
    key = jax.random.key(0)

    def init(key: Any, args: Any, kwargs: Any) -> Any:
        return model.init(key, *args, **kwargs)

    # By `trace`, so that what was traced until an error is kept with it.
    program = taxpr.trace(init, names=False)(key, tuple(args), dict(kwargs))
    made = program.jaxpr
    shapes = jax.tree.unflatten(
        program.out_tree,
        [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in program.out_avals],
    )
    if not (jax.tree.leaves(shapes) or _takes_key(made)):
        return None
    if any(isinstance(const, Tracer) for const in made.consts):
        raise PanelError(_LEAKED)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves((args, kwargs))):
        params, state = shapes
    else:
        # jit drops computations that the initial values do not need.
        params, state = jax.jit(lambda key: init(key, args, kwargs))(key)
    names = _names(params, state)
    kinds = {"param": params, "state": state}
    values = {name: kinds[kind][module][own] for name, (kind, module, own) in names.items()}

    @like(fun)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        given: dict[str, dict[str, Any]] = {"param": {}, "state": {}}
        for name, (kind, module, own) in names.items():
            given[kind].setdefault(module, {})[own] = values[name]
        out, new = model.apply(given["param"], given["state"], values.get(RNG), *args, **kwargs)
        after = {
            name: new[module][own] for name, (kind, module, own) in names.items() if kind == "state"
        }
        return out, {**values, **after}

    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), {**values, RNG: key})
    jaxpr = taxpr.trace(pure)(shapes, *args, **kwargs).jaxpr
    if any(isinstance(const, Tracer) for const in jaxpr.consts):
        raise PanelError(_LEAKED)
    # JAX flattens a dict in the order of its keys.
    at = len(jax.tree.leaves({k: v for k, v in values.items() if k < RNG}))
    takes_key = _takes_key(jaxpr, at)
    return PureCall(
        fun=pure,
        states={**values, RNG: key} if takes_key else values,
        written=written(jaxpr, {**values, RNG: key}),
        args=tuple(args),
        kwargs=dict(kwargs),
        library="haiku",
        code=lambda: _code(names, takes_key),
        note=_NOTE.format(rng=_RNG_NOTE if takes_key else ""),
    )


def _takes_key(jaxpr: Any, at: int = 0) -> bool:
    """Whether a jaxpr uses the input at this position."""
    key = jaxpr.jaxpr.invars[at]
    return any(atom is key for eqn in jaxpr.jaxpr.eqns for atom in eqn.invars)


def _names(params: Any, state: Any) -> dict[str, tuple[str, str, str]]:
    """For the name of each state: "param" or "state", its module, and its name in the module."""
    places = [
        (kind, module, own)
        for kind, tree in (("param", params), ("state", state))
        for module in tree
        for own in tree[module]
    ]
    # Like haiku's scopes, without the "~" of modules made in a constructor.
    names = [f"{module}/{own}".replace("~/", "") for _, module, own in places]
    return dict(zip(unique([RNG, *names])[1:], places, strict=True))


_CODE = """
rest = args, kwargs
model = hk.transform_with_state(lambda *args, **kwargs: fun(*args, **kwargs))
params, state = jax.jit(lambda key: model.init(key, *args, **kwargs))(jax.random.key(0))
names = {{{names}
}}
kinds = {{"param": params, "state": state}}
states = {{name: kinds[kind][module][own] for name, (kind, module, own) in names.items()}}
{rng}
def pure(states, *args, **kwargs):
    kinds = {{"param": {{}}, "state": {{}}}}
    for name, (kind, module, own) in names.items():
        kinds[kind].setdefault(module, {{}})[own] = states[name]
    out, new = model.apply(kinds["param"], kinds["state"], states.get("rng"), *args, **kwargs)
    after = dict(states)
    for name, (kind, module, own) in names.items():
        if kind == "state":
            after[name] = new[module][own]
    return out, after
"""


def _code(names: Mapping[str, Any], takes_key: bool) -> PureCode:
    body = _CODE.format(
        names="".join(f"\n    {name!r}: {place!r}," for name, place in names.items()),
        rng=f"states[{RNG!r}] = jax.random.key(0)\n" if takes_key else "",
    )
    return PureCode(body, {"hk": "haiku"})
