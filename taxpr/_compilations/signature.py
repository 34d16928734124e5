"""`Signature`: the properties of a call that select a compiled program in JAX's cache."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._calls.libraries import attributes_of, named_by_user
from taxpr._calls.objects import argument_names
from taxpr._compat import JittedCall, is_sequence
from taxpr._errors import name_of
from taxpr._jaxprs.trees import named_leaves
from taxpr._places import place_text
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_LONGEST = 50  # characters of a value that is shown


class SignedLeaf(NamedTuple):
    """An array among the arguments.

    Attributes:
        shape: Its shape; with the mapped axis under `jax.vmap`.
        dtype: The name of its dtype.
        weak: Whether it has a weak type.
        kind: Its kind: ``"a Python float"``, ``"a NumPy array"``, or ``""`` for JAX's arrays.
        typed: Its sharding as a part of its type, on explicit meshes.
        place: The sharding of a committed array; None for others, which go anywhere.
        under: The transformations around it.
    """

    shape: tuple[int, ...]
    dtype: str
    weak: bool
    kind: str
    typed: str
    place: Any
    under: tuple[str, ...]

    @property
    def text(self) -> str:
        """Its type for people: ``float32[3]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def lies(self) -> str:
        """Its device, for people."""
        place = self.place
        if place is None:
            return "committed to no device"
        if isinstance(place, _jax.sharding.SingleDeviceSharding):
            [device] = place.device_set
            usual = device.default_memory().kind
            kind = f" ({place.memory_kind})" if place.memory_kind not in (None, usual) else ""
            return f"committed to {device}{kind}"
        spec = getattr(place, "spec", None)
        return short(place) if spec is None else f"{spec} on {dict(place.mesh.shape)}"


@dataclasses.dataclass(frozen=True, eq=False)
class Signature:
    """What JAX looks a compiled function up by.

    Attributes:
        names: The names of the positional arguments.
        keywords: The names of the keyword arguments.
        statics: The static arguments by name, and static attributes of objects of libraries.
        trees: By argument the structure of the others.
        leaves: Their arrays, by name and path.
        settings: The settings of JAX.
        key: Those that JAX compares, without names.
        mesh: The mesh around the call.
        options: The options of `jax.jit`.
    """

    names: tuple[str, ...]
    keywords: frozenset[str]
    statics: Mapping[str, Any]
    trees: Mapping[str, Any]
    leaves: Mapping[str, SignedLeaf]
    settings: Mapping[str, Any]
    key: tuple[Any, ...]
    mesh: str
    options: Mapping[str, Any]


def signature_of(call: JittedCall) -> Signature:
    """The signature of a call of a jitted function that is running."""
    static: dict[str, Any] = {}
    trees: dict[str, Any] = {}
    leaves: dict[str, SignedLeaf] = {}
    count = len(call.args)
    if call.fun is None:
        names = [f"operand {k}" for k in range(count)]
    else:
        names = argument_names(named_by_user(call.fun), count)
    numbers = {k % count for k in call.options.get("static_argnums", ()) if -count <= k < count}
    words = call.options.get("static_argnames", ())
    given = [
        (name, x, k in numbers) for k, (name, x) in enumerate(zip(names, call.args, strict=True))
    ]
    given += [(name, x, name in words) for name, x in call.kwargs.items()]
    for name, value, is_static in given:
        if is_static:
            static[name] = value
            continue
        trees[name] = _jax.tree.structure(_jax.tree.map(_opened, value, is_leaf=_has_attributes))
        for path, one in named_leaves(name, value, _has_attributes):
            for key, part in (attributes_of(one) or {"": one}).items():
                # A scalar type, such as jnp.float32, has a dtype and no shape.
                if not key or (hasattr(part, "dtype") and hasattr(part, "shape")):
                    leaves[path + key] = _leaf(part)
                else:
                    static[path + key] = part
    key: Any = _compat.trace_key()
    return Signature(
        tuple(names),
        frozenset(call.kwargs),
        static,
        trees,
        leaves,
        {name: getattr(_jax.config, name, None) for name in _jax.config.values},
        tuple(key) if is_sequence(key) else (key,),
        str(_jax.sharding.get_abstract_mesh()),
        call.options,
    )


def _has_attributes(x: Any) -> bool:
    return attributes_of(x) is not None


def _opened(x: Any) -> Any:
    """The names of the attributes of a part, or 0 of an array."""
    return dict.fromkeys(attributes_of(x) or (), 0) or 0


def _leaf(x: Any) -> SignedLeaf:
    value, under = _compat.without_transformations(x)
    try:
        aval: Any = _jax.typeof(value)
    except TypeError:
        return SignedLeaf((), type(value).__name__, False, "", "", None, under)
    is_number = isinstance(value, (bool, int, float, complex)) and not hasattr(value, "dtype")
    kind = f"a Python {type(value).__name__}" if is_number else ""
    if isinstance(value, (np.ndarray, np.generic)):
        kind = "a NumPy array"
    committed = isinstance(value, _jax.Array) and getattr(value, "committed", False)
    return SignedLeaf(
        tuple(getattr(aval, "shape", ())),
        str(getattr(aval, "dtype", aval)),
        bool(getattr(aval, "weak_type", False)),
        kind,
        aval.str_short(mesh_axis_types=True) if "@" in str(aval) else "",
        getattr(value, "sharding", None) if committed else None,
        under,
    )


def short(value: Any) -> str:
    """A value for people, in one line; of a function its name and place."""
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if code is not None:
        name = code.co_qualname.rpartition("<locals>.")[2]
        text = f"{name} of {place_text(code.co_filename, code.co_firstlineno)}"
    elif callable(value) and isinstance(getattr(value, "__name__", None), str):
        text = name_of(value)
    elif hasattr(value, "__array__") and np.ndim(value):
        text = f"{np.asarray(value).dtype}{list(np.shape(value))}"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
