"""How much two runs may differ, and how precise a program's values can be."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr, Var
from taxpr._errors import ArgumentError
from taxpr._hops.interpreter import Forwards
from taxpr._recordings.part import Part
from taxpr._untyped import jnp as _jnp
from taxpr._untyped import np

_NOT_CAST = (
    "{count} of {of} float values were {found} and not {dtype}: {first}{more}. Arrays that the "
    "function closes over or makes anew keep their dtype, and widen what they are combined with."
)
EPS = 16  # times the precision of a type: what is tolerated without being asked


def coarsest(dtypes: Sequence[Any]) -> Any:
    """The float type with the least precision; None without floats."""
    floats = [one for one in dtypes if one is not None and _jnp.issubdtype(one, _jnp.inexact)]
    return max(floats, key=lambda one: _jnp.finfo(one).eps, default=None)


def precisions(jaxpr: StoredJaxpr) -> tuple[dict[str, Any], list[Any]]:
    """The coarsest type among what each value was computed from, by address, and of each result.

    A sum in float32 of numbers that were rounded to bfloat16 is no more precise than these.
    """
    flow, inputs = _Coarsest(), len(_compat.open_jaxpr(jaxpr).invars)
    return flow.found, flow.run(jaxpr, [None] * inputs, Address())


class _Coarsest(Forwards[Any]):
    nothing = None

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Any] = {}

    def join(self, each: Sequence[Any]) -> Any:
        return coarsest(each)

    def held(self, var: Var, of: Any, address: Address | None) -> Any:
        if address is not None:
            self.found[address] = of = coarsest([of, getattr(var.aval, "dtype", None)])
        return of


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How much two runs may differ; None of both numbers means what precision does."""

    atol: float | None
    rtol: float | None

    def __post_init__(self) -> None:
        for name, given in (("atol", self.atol), ("rtol", self.rtol)):
            is_number = hasattr(given, "__float__") and not isinstance(given, bool)
            if given is not None and not (is_number and given >= 0):
                raise ArgumentError(
                    f"first_difference: {name}={given!r} is no tolerance. Give a number from 0 on."
                )

    @property
    def asked(self) -> bool:
        """Whether one of both was given."""
        return self.atol is not None or self.rtol is not None

    def of(self, most: float, b: Any, dtypes: Sequence[Any]) -> Any:
        """How much two arrays of numbers may differ, if they are finite.

        Args:
            most: The greatest size of a number that is finite in either.
            b: The second one.
            dtypes: The coarsest types that they were computed in.
        """
        if self.asked:
            return (self.atol or 0.0) + (self.rtol or 0.0) * np.abs(b)
        least = self.coarsest(dtypes)
        if least is None:
            return 0.0
        return EPS * float(_jnp.finfo(least).eps) * most

    def coarsest(self, dtypes: Sequence[Any]) -> Any:
        """The type whose precision is tolerated; None where none is."""
        return None if self.asked else coarsest(dtypes)


def not_cast(parts: Sequence[Part], dtype: Any) -> list[str]:
    """A note if values of a run in ``dtype`` were of other types; none where ``dtype`` is None."""
    floats: dict[str, Part] = {}
    for one in parts:
        if _jnp.issubdtype(one.kept.dtype, _jnp.floating):
            floats.setdefault(one.address, one)  # of the names of one value the first is told
    others = [one for one in floats.values() if one.kept.dtype != dtype]
    if dtype is None or not others:
        return []
    one = others[0]
    first = f"{one.name}{one.path}" + (f" ({one.place})" if one.place else "")
    found = " or ".join(dict.fromkeys(str(one.kept.dtype) for one in others))
    counts = {"count": len(others), "of": len(floats), "more": " first" * (len(others) > 1)}
    return [_NOT_CAST.format(**counts, found=found, dtype=dtype.name, first=first)]
