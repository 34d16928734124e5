"""Find the parameters that each equation of a program reads, through all that only moves them."""

from collections.abc import Mapping, Sequence

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._costs.costs import parts_of
from taxpr._hops.places import numbered
from taxpr._primitives.tag_equation import is_tag
from taxpr._questions.depends import named

# What reads the result of these reads the parameter.
_MOVES = named(
    "broadcast_in_dim convert_element_type copy device_put dynamic_slice expand_dims "
    "optimization_barrier reduce_precision reshape rev sharding_constraint slice split squeeze "
    "transpose unstack"
) | {_compat.sharding_constraint_p, _compat.reshard_p, _compat.stop_gradient_p}

_Leaves = frozenset[int]
_NONE: _Leaves = frozenset()


def used_parameters(
    jaxpr: StoredJaxpr, inputs: Mapping[int, int], consts: Mapping[int, int]
) -> dict[Address, _Leaves]:
    """The parameters that equations read, by the addresses of the equations.

    Args:
        jaxpr: The jaxpr of a program.
        inputs: The numbers of its inputs that are parameters, each with the number of the
            parameter.
        consts: The same of arrays that it closes over, by their `id`.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> program = trace(lambda w, b, x: x @ w.T + b)(jnp.ones((2, 3)), jnp.ones(2), jnp.ones(3))
        >>> used_parameters(program.jaxpr, {0: 0, 1: 1}, {})
        {'1:dot_general': frozenset({0}), '2:add': frozenset({1})}
    """
    walk = _Walk(consts)
    invars = _compat.open_jaxpr(jaxpr).invars
    walk.of(jaxpr, {id(invars[k]): frozenset({leaf}) for k, leaf in inputs.items()}, Address())
    return walk.used


class _Walk:
    def __init__(self, consts: Mapping[int, int]) -> None:
        self._consts = consts
        self.used: dict[Address, _Leaves] = {}

    def of(self, stored: StoredJaxpr, known: dict[int, _Leaves], home: Address) -> list[_Leaves]:
        """Note what the equations of a jaxpr read; returns what its results are.

        Args:
            stored: The jaxpr.
            known: The parameters that its variables are, by their `id`.
            home: Its address.
        """
        inner = _compat.open_jaxpr(stored)
        for var, value in zip(inner.constvars, _compat.consts_of(stored), strict=False):
            if id(value) in self._consts:
                known[id(var)] = frozenset({self._consts[id(value)]})
        for local, eqn in numbered(inner):
            read = [known.get(id(atom), _NONE) for atom in eqn.invars]
            made: Sequence[_Leaves] = ()
            if is_tag(eqn):
                made = read
            elif eqn.primitive in _MOVES:
                made = [_NONE.union(*read)] * len(eqn.outvars)
            elif parts_of(eqn) or any(read):
                made = self._within(eqn, read, home / local)
            known.update((id(var), leaves) for var, leaves in zip(eqn.outvars, made, strict=False))
        return [known.get(id(atom), _NONE) for atom in inner.outvars]

    def _within(
        self, eqn: _compat.JaxprEqn, read: list[_Leaves], address: Address
    ) -> Sequence[_Leaves]:
        made, entered = [_NONE] * len(eqn.outvars), set[int]()
        for part, _ in parts_of(eqn):
            known: dict[int, _Leaves] = {}
            for var, operand in zip(part.jaxpr.invars, part.operands, strict=True):
                if operand is not None:
                    known[id(var)] = read[operand]
                    entered.add(operand)
            results = self.of(part.stored, known, address / part.label)
            for leaves, number in zip(results, part.results, strict=True):
                if number is not None:
                    made[number] |= leaves
        own = _NONE.union(*(x for k, x in enumerate(read) if k not in entered))
        if own:
            self.used[address] = own
        return made
