"""The entry of `cond`, the primitive behind both `jax.lax.cond` and `jax.lax.switch`."""

import collections
from collections.abc import Hashable, Mapping, Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, Aval, ClosedJaxpr
from taxpr._hops.nested import Nested, plain
from taxpr._hops.protocol import Emission, Emits, Hop, Made, Thread, Threaded
from taxpr._hops.table import register
from taxpr._jaxprs.zeros import zeros_of


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    branches = eqn.params["branches"]
    platforms = eqn.params.get("branches_platforms")

    def title(index: int) -> str:
        if platforms is not None:
            return f"on {' or '.join(platforms[index] or ('any other platform',))}"
        if len(branches) == 2:
            return f"branch {index} ({'true' if index else 'false'})"
        return f"branch {index}"

    return tuple(
        plain(
            f"branch{index}",
            title(index),
            ("branches", index),
            stored,
            first_operand=1,
            conditional=True,
            facts={"index": index},
        )
        for index, stored in enumerate(branches)
    )


def _inject(eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread) -> Made:
    index, *rest = operands
    stored = eqn.params["branches"]
    branches = [thread(f"branch{i}") for i in range(len(stored))]
    slots, placed = _slots([branch.emitted() for branch in branches])
    if slots:
        avals = [jax.typeof(x) for x in (*ctx, *rest)]
        jaxprs = [
            _handing_out(branch, number, slots, placed[number], len(ctx), avals)
            for number, branch in enumerate(branches)
        ]
    else:
        jaxprs = [branch.jaxpr for branch in branches]
    closed, consts = _with_common_consts(jaxprs)
    params = {
        **eqn.params,
        "branches": tuple(
            _compat.as_stored(new, old) for new, old in zip(closed, stored, strict=True)
        ),
    }
    out = _compat.bind(eqn.primitive, [index, *consts, *ctx, *rest], params)
    n_out, n_ctx = len(eqn.outvars), len(ctx)
    emits = _read(slots, placed, out[n_out + n_ctx :]) if slots else {}
    return out[n_out : n_out + n_ctx], out[:n_out], emits


def _slots(emitted: Sequence[Emits]) -> tuple[list[Emission], list[dict[str, int]]]:
    """Assign the emissions of all branches to common output slots.

    All branches must return the same types. Only one of them runs, so emissions of the same type
    in different branches share a slot. Otherwise each branch would return zeros for every tag of
    every other branch.

    Invariant: within one branch no two emissions share a slot.

    Returns:
        The type of each slot, and for each branch the slot of each emission key.
    """
    slots: list[Emission] = []
    of_kind: dict[Hashable, list[int]] = collections.defaultdict(list)
    placed: list[dict[str, int]] = []
    for emits in emitted:
        taken: collections.Counter[Hashable] = collections.Counter()
        here: dict[str, int] = {}
        for key, emission in emits.items():
            leaves, tree = jax.tree.flatten(emission)
            kind = tree, tuple(leaves)
            if taken[kind] == len(of_kind[kind]):
                of_kind[kind].append(len(slots))
                slots.append(emission)
            here[key] = of_kind[kind][taken[kind]]
            taken[kind] += 1
        placed.append(here)
    return slots, placed


def _handing_out(
    branch: Threaded,
    number: int,
    slots: Sequence[Emission],
    placed: Mapping[str, int],
    n_ctx: int,
    avals: Sequence[Aval],
) -> ClosedJaxpr:
    """The branch as a jaxpr that also returns its number and a value for each slot.

    A slot that this branch does not use gets zeros.
    """

    def run(*args: Array) -> list[Array]:
        ctx, outs, emits = branch(args[:n_ctx], args[n_ctx:])
        own = {slot: emits[key] for key, slot in placed.items()}
        every = [own.get(k) or jax.tree.map(zeros_of, slot) for k, slot in enumerate(slots)]
        return [*outs, *ctx, jnp.int32(number), *jax.tree.leaves(every)]

    return _compat.make_jaxpr(run)(*avals)


def _read(
    slots: Sequence[Emission], placed: Sequence[Mapping[str, int]], handed_out: Sequence[Array]
) -> Emits:
    """The emissions by key, read from the number of the branch that ran and the slots."""
    number, *leaves = handed_out
    values = jax.tree.unflatten(jax.tree.structure(slots), leaves)
    users = collections.Counter(slot for here in placed for slot in here.values())
    emits: Emits = {}
    for index, here in enumerate(placed):
        ran = number == index
        for key, slot in here.items():
            emission = values[slot]
            if users[slot] > 1:  # otherwise every other branch returned zeros here
                emission = _where(ran, emission)
            if emission.fired is None:
                emission = emission._replace(fired=ran.astype(jnp.int32))
            emits[key] = emission
    return emits


def _where(ran: Array, emission: Emission) -> Emission:
    return _compat.map_leaves(lambda x: jax.lax.select_n(ran, zeros_of(x), x), emission)


def _with_common_consts(
    jaxprs: Sequence[ClosedJaxpr],
) -> tuple[list[ClosedJaxpr], list[Array]]:
    """Give all branches one signature: the consts of all of them as leading arguments."""
    all_consts = [list(_compat.consts_of(jaxpr)) for jaxpr in jaxprs]
    new: list[ClosedJaxpr] = []
    for index, jaxpr in enumerate(jaxprs):
        inner, own = _compat.hoisted(jaxpr)
        opened = _compat.open_jaxpr(inner)
        before = [c for consts in all_consts[:index] for c in consts]
        after = [c for consts in all_consts[index + 1 :] for c in consts]
        invars = [
            *(_compat.fresh_var(jax.typeof(c)) for c in before),
            *opened.invars[: len(own)],
            *(_compat.fresh_var(jax.typeof(c)) for c in after),
            *opened.invars[len(own) :],
        ]
        new.append(_compat.rebuilt(inner, eqns=opened.eqns, invars=invars))
    return new, [c for consts in all_consts for c in consts]


register(_compat.cond_p, Hop(nested=_nested, inject=_inject))
