"""Make a program also return values of its equations, tagged or not, at any depth.

An equation that makes a wanted value stays as it is: its variable becomes a further result of its
jaxpr. The rules of the higher-order equations carry these results outwards, as they do for
`collect`. The derivative rules of equations around a value are dropped: the program is run, not
differentiated.
"""

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Atom, Aval, ClosedJaxpr, JaxprEqn, Mesh, StoredJaxpr
from taxpr._engine.hop_thread import ThreadedJaxpr
from taxpr._engine.pack import Packs, packed, unpacked
from taxpr._engine.retraced import moved, retraced, with_origin
from taxpr._engine.wanted_tree import Slot, Summary, WantedTree
from taxpr._errors import RefusedError
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Beside, Emission, Emits, Made, Options
from taxpr._hops.rebuild import Slots, slotted, wrong_entry
from taxpr._hops.table import inject_rule, is_brought, nested_jaxprs
from taxpr._jaxprs.splice import Splice
from taxpr._sites.site import around, described
from taxpr._sites.skipped import Refusal
from taxpr._sites.values import Value
from taxpr._sites.walk import local_names

_OPTIONS = Options(custom_rules="drop", only_run=True)
# By the addresses of equations whose rule refuses them, the reasons: nothing inside is handed out.
Closed = dict[Address, str]


class HandedOut(NamedTuple):
    """A jaxpr that hands values out, their places in its results, and closed equations."""

    threaded: ThreadedJaxpr
    packs: Packs
    closed: Closed

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The jaxpr."""
        return self.threaded.jaxpr

    def unpack(self, flat: Sequence[Array | None]) -> tuple[list[Any], Emits]:
        """Its own results, and the values handed out, by address."""
        given: Sequence[Any] = flat
        _, outs, emits = self.threaded.unpack(given)
        return outs, unpacked(emits, self.packs)

    def refusal(self, value: Value) -> Refusal | None:
        """Why a value is not handed out; None if it is."""
        steps = around(value.steps) if self.closed else ()
        found = (Refusal(step, self.closed[at]) for at, step in steps if at in self.closed)
        return next(found, None)


def hand_out(
    jaxpr: ClosedJaxpr,
    values: Iterable[Value],
    *,
    max_steps: int,
    summaries: Mapping[str, Summary],
    join: bool = True,
) -> HandedOut:
    """The jaxpr ``args -> [*outs, *handed out]``, which can unpack its results.

    Args:
        jaxpr: A closed jaxpr.
        values: The values; none may be in an equation that cannot be injected. If an equation's
            rule refuses nevertheless, the equation stays unchanged.
        max_steps: How many iterations of a while loop have a place.
        summaries: By the addresses of values, functions whose results are handed out instead.
        join: Whether small values in loops become one array, so that XLA compiles faster. On
            several devices they would have to be gathered for that.
    """
    wanted = WantedTree()
    for value in values:
        here = wanted
        for step in value.steps:
            here = here.inside(step)
        slot = value.place.kind, value.place.number, value.place.out or 0
        here.at[slot] = summaries.get(value.address)
    return _HandingOut(max_steps, join).jaxpr(jaxpr, wanted, Address(), Address())


class _HandingOut:
    """One call of `hand_out`: remembers what it has made."""

    def __init__(self, max_steps: int, join: bool) -> None:
        self._max_steps, self._join = max_steps, join
        self._done: dict[Hashable, tuple[StoredJaxpr, HandedOut]] = {}

    def jaxpr(
        self,
        stored: StoredJaxpr,
        wanted: WantedTree,
        label: Address,
        address: Address,
        probed: bool = False,
    ) -> HandedOut:
        """The jaxpr that also hands out, in packs; ``address`` is the first place that has it."""
        mesh = _compat.mesh_here()
        key = id(stored), wanted.key, label, probed, mesh
        if key not in self._done:
            built = self._build(stored, wanted, label, address, probed, mesh)
            self._done[key] = stored, built  # the id in the key is that of a living object
        return self._done[key][1]

    def _build(
        self,
        stored: StoredJaxpr,
        wanted: WantedTree,
        label: Address,
        address: Address,
        probed: bool,
        outside: Mesh,
    ) -> HandedOut:
        inner = _compat.open_jaxpr(stored)
        splice = Splice(inner, _compat.consts_of(stored))
        emits: Emits = {}
        packs: Packs = {}
        closed: Closed = {}

        def put(atom: Atom, slot: Slot, local: str) -> None:
            if (summary := wanted.at[slot]) is not None:
                piece = _piece(summary, atom.aval, _compat.mesh_here())
                [atom] = splice.inline(piece, [atom], again=True)
            leaves: list[Any] = [atom]
            emits[label / local] = Emission(leaves, None)

        for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
            for k, var in enumerate(variables):
                if (kind, k, 0) in wanted.at:
                    put(var, (kind, k, 0), f"{kind}{k}")
        results: dict[int, list[int]] = {}
        for kind, position, result in wanted.at:
            if kind == "eqn":
                results.setdefault(position, []).append(result)
        done = 0
        names = local_names(inner, {*results, *wanted.below})
        for position, local in names.items():
            splice.keep(inner.eqns[done:position])
            eqn, done = inner.eqns[position], position + 1
            home, opened = label / local, None
            if position in wanted.below:
                below, at = wanted.below[position], address / local
                try:
                    opened = self._hop(eqn, below, at, splice, outside)
                except RefusedError as error:  # looking must not cost anything
                    closed[home] = str(error)
            if opened is not None:
                outs, new, held, within = opened
                splice.write(eqn.outvars, outs)
                closed.update({home / key: why for key, why in within.items()})
                emits.update({home / key: value for key, value in new.items()})
                packs.update(
                    (home / key, {home / name: at for name, at in members.items()})
                    for key, members in held.items()
                )
            else:
                # An unused result may be a DropVar, which nothing can read.
                outvars = [
                    _compat.fresh_var(var.aval) if _compat.is_dropped(var) else var
                    for var in eqn.outvars
                ]
                eqn = eqn.replace(outvars=outvars)
                splice.keep([eqn])
                outs = _fenced(eqn, results.get(position, ()), splice)
            for k in results.get(position, ()):
                put(outs[k], ("eqn", position, k), f"{local}.{k}")
        splice.keep(inner.eqns[done:])
        if wanted.slotted and not wanted.always:
            [true] = splice.inline(_compat.make_jaxpr(_true)(), [])
            emits = {key: self._with_slots(one, true) for key, one in emits.items()}
        if label and outside.empty:  # on a mesh each value has axes of its own
            emits, own = packed(emits, splice, label, self._join and wanted.repeated)
            packs |= own
        if probed:
            [one_run] = splice.inline(_compat.make_jaxpr(lambda: jnp.int32(0))(), [])
            emits[label] = Emission([one_run], None)
        leaves, tree = jax.tree.flatten(emits)
        jaxpr = splice.finish(inner.invars, [*splice.read(inner.outvars), *leaves])
        threaded = ThreadedJaxpr(jaxpr, 0, tree, touched=True, address=address)
        return HandedOut(threaded, packs, closed)

    def _with_slots(self, one: Emission, true: Atom) -> Emission:
        """An emission of every run, with slots for iterations if it has none yet."""
        if slotted(one):
            return one
        return one._replace(value=[Slots(one.value, true, self._max_steps)])  # type: ignore[arg-type]

    def _hop(
        self,
        eqn: JaxprEqn,
        wanted: Mapping[str, WantedTree],
        address: Address,
        splice: Splice,
        outside: Mesh,
    ) -> tuple[list[Atom], Emits, Packs, Closed]:
        """Trace an equation with wanted values again: its results, and the values handed out."""
        rule = inject_rule(eqn)
        assert rule is not None, "refused before"
        mesh = _compat.mesh_at(eqn, is_hop=True)

        thread = _Thread(self, eqn, wanted, address)

        def run(*operands: Array) -> Made:
            _, outs, emits = rule(eqn, [], list(operands), thread)
            return [], list(outs), {key: one for key, one in emits.items() if key not in wanted}

        piece, tree = retraced(run, [_compat.aval_of(atom) for atom in eqn.invars], eqn, mesh)
        flat = splice.inline(with_origin(piece, eqn), splice.read(eqn.invars))
        _, outs, new = jax.tree.unflatten(tree, flat)
        leaves, tree = jax.tree.flatten(new)
        leaves = moved(splice, leaves, [_compat.sharding_on(x.aval, outside) for x in leaves])
        return outs, jax.tree.unflatten(tree, leaves), thread.packs, thread.closed


@dataclasses.dataclass(frozen=True, eq=False)
class _Thread:
    """The jaxprs of one equation for its rule, without a context; see `Thread`."""

    handing: _HandingOut
    eqn: JaxprEqn
    wanted: Mapping[str, WantedTree]
    address: Address
    options: Options = _OPTIONS
    used: tuple[int, ...] = ()
    observes: bool = True
    seen: frozenset[int] = frozenset()
    packs: Packs = dataclasses.field(default_factory=dict[str, Any])
    closed: Closed = dataclasses.field(default_factory=dict[Address, str])

    @functools.cached_property
    def _nested(self) -> dict[str, Nested]:
        return {nested.label: nested for nested in nested_jaxprs(self.eqn)}

    @property
    def place(self) -> str:
        """The equation, for messages."""
        return described(self.address, self.eqn)

    def selected(self, label: str | None = None) -> list[str]:
        """The values that are handed out of a nested jaxpr, for messages."""
        return [f"a value in the {label or 'whole'} of {self.place}"]

    def rule(self, label: str, jaxpr: ClosedJaxpr) -> tuple[ThreadedJaxpr, Beside | None]:
        """A derivative rule as it is: none runs."""
        at = Address(label), self.address / label
        return self.handing.jaxpr(jaxpr, WantedTree(), *at).threaded, None

    def __call__(self, label: str, *, ctx: Sequence[Array] | None = None) -> ThreadedJaxpr:
        """The nested jaxpr of a label, which also hands out."""
        del ctx
        if label not in self._nested:
            labels = ", ".join(map(repr, self._nested))
            text = f"inject asked for thread({label!r}), and nested gave the labels {labels}"
            raise wrong_entry(self.eqn, text)
        checked, below = is_brought(self.eqn), self.wanted.get(label, WantedTree())
        stored, home = self._nested[label].stored, self.address / label
        probed = checked and label in self.wanted
        built, packs, closed = self.handing.jaxpr(stored, below, Address(label), home, probed)
        self.packs.update(packs)
        self.closed.update(closed)
        return built.asked_by(self.eqn, label) if checked else built


def _fenced(eqn: JaxprEqn, wanted: Iterable[int], splice: Splice) -> list[Atom]:
    """Results of an equation; XLA computes the wanted ones once.

    Otherwise XLA computes a value that has a buffer of its own anew in each kernel that uses it:
    the kernels of a chain of n values then have n * n instructions, and their values may differ in
    the last bits from the ones handed out. Computing a scalar again takes less time than compiling
    a kernel for it.
    """
    outvars: list[Any] = list(eqn.outvars)
    avals = {k: _compat.aval_of(outvars[k]) for k in wanted}
    at = [k for k, one in avals.items() if one.size > 1 and not _compat.is_extended(one.dtype)]
    if not at:
        return outvars
    held = [outvars[k] for k in at]
    new = [_compat.fresh_var(one.aval) for one in held]
    splice.keep([_fence().replace(invars=held, outvars=new, ctx=eqn.ctx)])
    splice.write(held, new)
    return splice.read(outvars)


@functools.cache
def _fence() -> JaxprEqn:
    """An equation that only keeps XLA from moving anything past it."""
    [eqn] = _compat.open_jaxpr(_compat.make_jaxpr(_compat.optimization_barrier)(0.0)).eqns
    return eqn


@functools.lru_cache(maxsize=1024)
def _piece(summary: Summary, aval: Aval, mesh: Mesh) -> ClosedJaxpr:
    del mesh  # what it is computed under counts, too
    return _compat.make_jaxpr(summary)(aval)


def _true() -> Array:
    return jnp.bool_(True)
