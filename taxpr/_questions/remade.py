"""Values that no run needs to hand out, because NumPy can make them of others.

XLA takes milliseconds to compile the handing out of a value, even if it is a slice of another such
value, or a result that is also handed out inside the call.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._hops.places import addresses_of
from taxpr._hops.table import nested_jaxprs
from taxpr._keeping.wanted import Wanted
from taxpr._questions.bits import key_of
from taxpr._questions.copies import COPIES, Copy, shape_of
from taxpr._recordings.part import KeptValue
from taxpr._sites.site import around, home_of, runs_once
from taxpr._sites.values import Value
from taxpr._untyped import np

_MADE: dict[Any, Copy] = {
    **COPIES,
    lax.transpose_p: lambda given, eqn, out, n: given[0].transpose(
        (*range(n), *(n + k for k in eqn.params["permutation"]))
    ),
    lax.broadcast_in_dim_p: lambda given, eqn, out, n: _broadcast(given[0], eqn, n),
    lax.copy_p: lambda given, eqn, out, n: given[0],
    lax.neg_p: lambda given, eqn, out, n: np.negative(given[0]),
    lax.select_n_p: lambda given, eqn, out, n: _selected(given, n),
}


class _Recipe(NamedTuple):
    """How a value is made: the addresses of its sources, and the function of them."""

    value: Value
    of: list[str]
    make: Callable[[Sequence[Any], int], Any]


class Remade:
    """The values that NumPy makes of others.

    Args:
        wanted: All values, by their addresses, in the order of execution.
        but: The addresses of values that are handed out in any case.

    Attributes:
        handed: The values to hand out, each once.
    """

    def __init__(self, wanted: Mapping[str, Wanted], but: Container[str]) -> None:
        self._wanted = wanted
        self._addresses: dict[Address, dict[int, Address]] = {}
        self._recipes: dict[str, _Recipe] = {}
        self.handed: list[Value] = []
        self._reads: dict[str, Value] = {}
        for one in wanted.values():
            address = one.read.address
            if address in self._reads:
                continue
            self._reads[address] = one.read
            recipe = None if address in but else self._recipe(one.read)
            if recipe is None:
                self.handed.append(one.read)
            else:
                self._recipes[address] = recipe

    @property
    def others(self) -> list[Value]:
        """The values that NumPy makes of others."""
        return [one.value for one in self._recipes.values()]

    def made(
        self,
        kept: Mapping[str, KeptValue],
        hand_out: Callable[[list[Value]], Mapping[str, KeptValue]],
    ) -> dict[str, KeptValue]:
        """All values, of those that were handed out.

        Args:
            kept: The values that were kept.
            hand_out: Keeps more values, if some cannot be made, as from statistics alone.
        """
        found, missing = dict(kept), list[Value]()
        for address, (value, of, make) in self._recipes.items():
            if address in found:
                continue
            given = [found.get(one) for one in of]
            arrays = [None if one is None else one.value for one in given]
            if any(one is None for one in arrays) or not _alike(given):
                missing.append(value)
                continue
            first: Any = next(iter(given), None)
            axes, fired = ((), None) if first is None else (first.axes, first.fired)
            array = make([np.asarray(one) for one in arrays], len(axes))
            aval: Any = value.aval
            found[address] = KeptValue(axes, tuple(aval.shape), aval.dtype, array, fired=fired)
        return found | dict(hand_out(missing)) if missing else found

    def _recipe(self, value: Value) -> _Recipe | None:
        """How a value is made; None if it is to be handed out."""
        eqn, out = value.eqn, value.place.out
        if eqn is None or out is None or _on_mesh(value):
            return None
        home = home_of(value.steps)
        entered = [one for one in nested_jaxprs(eqn) if not (one.rule or one.idle)]
        if entered:
            [nested, *more] = entered
            if more or not runs_once(eqn, nested) or out not in nested.results:
                return None
            below = home / Address(value.address).eqn.local / nested.label
            of = self._of(nested.jaxpr.outvars[nested.results.index(out)], nested.stored, below)
            return None if of is None else self._checked(value, [of], lambda given, n: given[0])
        make = _MADE.get(eqn.primitive)
        if make is None or (eqn.primitive is lax.select_n_p and not _chooses_one(eqn)):
            return None
        atoms = {
            k: self._of(atom, value.place.jaxpr, home)
            for k, atom in enumerate(eqn.invars)
            if not _compat.is_literal(atom)
        }
        literals = {
            k: np.asarray(atom.val) for k, atom in enumerate(eqn.invars) if _compat.is_literal(atom)
        }
        of = [one for one in atoms.values() if one is not None]
        if len(of) < len(atoms):
            return None

        def run(given: Sequence[Any], n: int) -> Any:
            rows = {k: x.reshape((1,) * n + x.shape) for k, x in literals.items()}
            rows |= dict(zip(atoms, given, strict=True))
            return make([rows[k] for k in range(len(rows))], eqn, out, n)

        return self._checked(value, of, run)

    def _checked(
        self, value: Value, of: list[str], make: Callable[[Sequence[Any], int], Any]
    ) -> _Recipe | None:
        """A recipe, if what it takes runs whenever the value is made."""
        runs = _runs(value)
        reads = [self._reads.get(one) for one in of]
        here = all(one and _runs(one) == runs and not _on_mesh(one) for one in reads)
        return _Recipe(value, of, make) if here and (of or not runs) else None

    def _of(self, atom: Any, stored: StoredJaxpr, home: Address) -> str | None:
        """Where what a variable holds is read; None if it is not."""
        if home not in self._addresses:
            self._addresses[home] = addresses_of(stored, home)
        one = self._wanted.get(self._addresses[home].get(key_of(atom), ""))
        return None if one is None else one.read.address


def _runs(value: Value) -> list[Address]:
    """The equations that say how often a value is made."""
    return [at for at, step in around(value.steps) if not runs_once(step.eqn, step.nested)]


def _on_mesh(value: Value) -> bool:
    return any(step.eqn.primitive is _compat.shard_map_p for step in value.steps)


def _alike(given: Sequence[KeptValue | None]) -> bool:
    """Whether values were kept of the same iterations."""
    rows = [one for one in given if one is not None]
    leads = {(one.axes, np.shape(one.value)[: len(one.axes)]) for one in rows}
    fired = [one.fired for one in rows]
    return len(leads) <= 1 and all(np.array_equal(one, fired[0]) for one in fired)


def _chooses_one(eqn: Any) -> bool:
    """Whether a selection chooses between two by booleans."""
    return len(eqn.invars) == 3 and eqn.invars[0].aval.dtype == np.bool_


def _broadcast(array: Any, eqn: Any, n: int) -> Any:
    shape, lead = shape_of(eqn.outvars[0]), array.shape[:n]
    wide = [1] * len(shape)
    for size, k in zip(array.shape[n:], eqn.params["broadcast_dimensions"], strict=True):
        wide[k] = size
    return np.broadcast_to(array.reshape((*lead, *wide)), (*lead, *shape))


def _selected(given: Sequence[Any], n: int) -> Any:
    which, no, yes = given
    own = max(no.ndim, yes.ndim) - which.ndim
    return np.where(which.reshape(which.shape + (1,) * own), yes, no)
