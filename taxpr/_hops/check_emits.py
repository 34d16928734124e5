"""Check what the rule of another library emits: for each run of a jaxpr, and for each tag in it."""

# What others give is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import Aval, JaxprEqn, PyTree
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Emission, Emits, Hop
from taxpr._hops.rebuild import before_loop, shown, types_of, wrong_entry


def check_emits(hop: Hop, eqn: JaxprEqn, one: Nested, each: Emits, found: Emits) -> None:
    """Check what a rule emits. The engine lets each jaxpr emit a number by the key of its label."""
    lost = sorted(each.keys() - (found if isinstance(found, dict) else {}).keys())
    if lost:
        tags = ", ".join(key for key in lost if key != one.label)
        raise wrong_entry(
            eqn,
            f"inject lost what {f'is collected at {tags}' if tags else f'{one.label} emits'}: "
            "return what each call of thread(label) hands out, all in one dict",
        )
    for key in sorted(each):
        _check_emission(hop, eqn, one, key, each[key], found[key])


def _check_emission(
    hop: Hop, eqn: JaxprEqn, one: Nested, key: str, each: Emission, found: Any
) -> None:
    if not isinstance(found, Emission):
        kind = type(found).__name__
        raise wrong_entry(eqn, f"inject returned a {kind} at {key}, not a taxpr.hops.Emission")
    if found.mesh != each.mesh:
        return  # with axes of devices, too
    loops = hop.loops and not one.once
    lead = (one.trips,) if loops and one.trips is not None else ()
    if loops and one.trips is None:
        fix = "combine what the runs emit by later, from before_loop of the body's emitted()"
        each = each._replace(value=_loop_begins(each))
    elif loops:
        fix = (
            f"nested says trips={one.trips}, so stack what as many runs emit, as jax.lax.scan does"
        )
    else:
        fix = "return what the run emits. For several runs give trips= and loops=True"
    counts = each.fired is not None or one.conditional or one.trips is None
    if counts and found.fired is None:
        text = f"inject returned no count of the runs of {one.label!r} (Emission.fired): "
        raise wrong_entry(eqn, text + (fix if loops else "use counted and never of taxpr.hops"))
    avals, own = _avals(each.value), _avals(found.value)
    expected = [((*lead, *aval.shape), aval.dtype) for aval in avals]
    if types_of(own) == expected:
        return
    if key == one.label and len(own) == 1:
        runs = own[0].shape
        text = f"emits of {_runs(runs)} of {one.label!r}, and expected emits of {_runs(lead)}"
    else:
        text = shown(own) + f" for the value collected at {key}, and expected "
        text += ", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in expected)
    raise wrong_entry(eqn, f"inject returned {text}: {fix}")


def _loop_begins(each: Emission) -> PyTree:
    return _compat.make_jaxpr_and_shapes(lambda: before_loop(each))()[1].value


def _avals(value: PyTree) -> list[Aval]:
    return [
        x if hasattr(x, "dtype") and not isinstance(x, jax.Array) else jax.typeof(x)
        for x in jax.tree.leaves(value)
    ]


def _runs(lead: Sequence[object]) -> str:
    if not lead:
        return "a single run"
    return f"{' × '.join(map(str, lead))} stacked run{'s' * (tuple(lead) != (1,))}"
