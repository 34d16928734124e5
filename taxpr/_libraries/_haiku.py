"""Make functions pure that call modules of haiku without `hk.transform`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import haiku as hk
import jax
from jax.core import Tracer

from taxpr import _compat
from taxpr._calls.libraries import Library
from taxpr._calls.model import Held, Opened, PureCode, Taken, like, pure
from taxpr._calls.objects import unique
from taxpr._calls.static import run
from taxpr._errors import RefusedError
from taxpr._programs.trace import trace

RNG = "rng"
_NOTE = (
    "The parameters of haiku come from hk.transform_with_state(f).init with jax.random.key(0){rng}."
)
_RNG_NOTE = ", and so is the key of the call, the state rng"
_LEAKED = (
    "This function makes a parameter or sets a state of haiku in a loop or a branch of jax.lax, or "
    "under jax.jit, jax.grad or jax.vmap, which haiku does not see. Use its own there, such as "
    "hk.scan, hk.cond, hk.grad, hk.vmap; or a taxpr.State, which may be used in all of them"
)


def _open(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Opened | None:
    """A call of modules, by `hk.transform_with_state`.

    Parameters and states are named by their modules, such as ``mlp/linear_0/w``. If the function
    uses random keys, the first key is the state ``rng``. A function that is already transformed is
    pure and stays as it is.

    Raises:
        RefusedError: If a state is set where haiku does not see it.
    """
    used = False

    def call(*args: Any, **kwargs: Any) -> Any:  # haiku refuses functions of jax.jit
        nonlocal used
        try:
            return run(fun, args, kwargs)
        finally:
            used = bool(hk.get_params() or hk.get_current_state())

    model = hk.transform_with_state(call)
    with jax.ensure_compile_time_eval():  # it is no equation of what is traced around
        key = jax.random.key(0)

    @pure
    def init(key: Any, args: Any, kwargs: Any) -> Any:
        return model.init(key, *args, **kwargs)

    try:
        # By `trace`, so that what was traced until an error is kept with it.
        program = trace(init)(key, args, dict(kwargs))
    except Exception:
        if used:
            raise
        return None  # the function itself tells
    made = program.jaxpr
    shapes = jax.tree.unflatten(
        program.out_tree,
        [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in program.out_avals],
    )
    if not (jax.tree.leaves(shapes) or _takes_key(made)):
        return None
    if any(isinstance(const, Tracer) for const in made.consts):
        raise RefusedError(_LEAKED)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves((args, kwargs))):
        params, state = shapes
    else:
        # jit drops computations that the initial values do not need.
        params, state = jax.jit(lambda key: init(key, args, kwargs))(key)
    names = _names(params, state)
    kinds = {"param": params, "state": state}
    values = {name: kinds[kind][module][own] for name, (kind, module, own) in names.items()}

    @like(fun)
    def applied(hidden: tuple[Held], *args: Any, **kwargs: Any) -> Any:
        given: dict[str, dict[str, Any]] = {"param": {}, "state": {}}
        states = hidden[0].values
        for name, (kind, module, own) in names.items():
            given[kind].setdefault(module, {})[own] = states[name]
        out, new = model.apply(given["param"], given["state"], states.get(RNG), *args, **kwargs)
        after = {
            name: new[module][own] for name, (kind, module, own) in names.items() if kind == "state"
        }
        return out, {"": {k: x for k, x in after.items() if x is not states[k]}}

    # JAX flattens a dict in the order of its keys.
    every = Held("", {RNG: key, **values})
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (every,))
    jaxpr = _compat.make_jaxpr(applied)(shapes, *args, **kwargs)
    if any(isinstance(const, Tracer) for const in jaxpr.consts):
        raise RefusedError(_LEAKED)
    takes_key = _takes_key(jaxpr)
    held = Held("", {**values, RNG: key} if takes_key else values)

    def take(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Taken:
        return Taken(((held,), *args), kwargs)

    return Opened(
        fun=applied,
        take=take,
        first=take(args, kwargs),
        library="haiku",
        code=lambda: _code(names, takes_key),
        note=lambda: _NOTE.format(rng=_RNG_NOTE if takes_key else ""),
    )


def _takes_key(jaxpr: Any) -> bool:
    """Whether a jaxpr uses its first input."""
    key = jaxpr.jaxpr.invars[0]
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


@contextlib.contextmanager
def _noticing() -> Iterator[Callable[[], bool]]:
    """Notices errors: outside of a transform haiku raises one wherever it has to do with states."""
    failed = False
    try:
        yield lambda: failed
    except Exception:
        failed = True
        raise


LIBRARY = Library(_open, noticing=_noticing)
