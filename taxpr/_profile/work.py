"""How much each kernel computes and moves: its operations, by the equations, and its bytes."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import HloModule, Instruction
from taxpr._costs.costs import Cost
from taxpr._costs.placed_costs import placed
from taxpr._kernels.hlo_dataflow import MOVES
from taxpr._kernels.kernels import Kernel, written
from taxpr._kernels.merged_products import CONTRACT, CONTRACTIONS, merged_products
from taxpr._untyped import jnp as _jnp

_TAKE_PART = "dynamic-slice", "gather", "slice"
# What computes nothing of an equation: another kernel does.
_ARRANGE = frozenset(
    (
        *MOVES,
        *("broadcast", "concatenate", "constant", "convert", "copy-done", "fusion", "iota", "pad"),
        *(
            "fusion-start",
            "fusion-done",
            "get-tuple-element",
            "parameter",
            "reverse",
            "tuple",
            "dynamic-update-slice",
        ),
        *_TAKE_PART,
    )
)
_FLOAT = "float32"


class KernelWork(NamedTuple):
    """The work of a kernel in one run.

    Attributes:
        flops: Its operations, by the type of the numbers that a contraction reads; float32 of all
            else.
        bytes: The bytes that it reads and writes.
        known: Whether all its operations are counted.
    """

    flops: dict[str, int]
    bytes: int
    known: bool


class Work:
    """The work of the kernels of a call.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr._compiled.compile_call import compile_call
        >>> from taxpr._kernels.kernels import Kernels
        >>> call = compile_call(jnp.dot, (jnp.ones((8, 8)), jnp.ones((8, 8))), {})
        >>> kernels = Kernels(call).every
        >>> sum(sum(Work(call, kernels).of(one).flops.values()) for one in kernels)
        1024
    """

    def __init__(self, call: CompiledCall, kernels: Sequence[Kernel]) -> None:
        self._call = call
        self._eqns: dict[Address, tuple[JaxprEqn, Cost]] = {}
        self._makers: dict[tuple[Address, int], Address] = {}  # by jaxpr, and `id` of the variable
        for part in placed(call.program.jaxpr):
            for address, eqn, cost in part.eqns:
                if cost is not None:
                    self._eqns[address] = eqn, cost
                    self._makers.update(((part.home, id(var)), address) for var in eqn.outvars)
        self._merged = merged_products(call)
        self._contracting: dict[Address, set[str]] = {}
        for kernel in kernels:
            for address, opcode in self._computed(kernel):
                if opcode in CONTRACT:
                    name = kernel.instruction.name
                    self._contracting.setdefault(address, set()).add(name)

    @property
    def dtypes(self) -> list[str]:
        """The types of numbers that its contractions read, and float32."""
        found = (_dtype(eqn) for eqn, _ in self._eqns.values())
        return list(dict.fromkeys((_FLOAT, *found)))

    def of(self, kernel: Kernel) -> KernelWork:
        """The work of a kernel in one run."""
        name, flops, costs = kernel.instruction.name, dict[str, int](), list[Cost]()
        computed = self._computed(kernel)
        for address in dict.fromkeys(x for x, opcode in computed if opcode not in _ARRANGE):
            if address not in self._eqns or name not in self._contracting.get(address, {name}):
                continue
            eqn, cost = self._eqns[address]
            costs.append(cost)
            dtype = _dtype(eqn)
            flops[dtype] = flops.get(dtype, 0) + cost.operations
        return KernelWork(
            flops, touched(self._call.hlo, kernel.instruction), not Cost.total(costs).unknown
        )

    def _computed(self, kernel: Kernel) -> Iterator[tuple[Address, str]]:
        """The equations that a kernel computes, with the operations for that."""
        for one in self._call.hlo.computed(kernel.instruction):
            stamp = self._call.hlo.stamp(one)
            addresses = () if stamp is None else (self._call.addresses[stamp],)
            if one.opcode in CONTRACT:
                # Where XLA writes one anew, what reads it has the name.
                addresses = tuple(map(self._contraction, addresses or kernel.equations))
                addresses += self._merged.get(one.name, ())
            yield from ((address, one.opcode) for address in addresses)

    def _contraction(self, address: Address) -> Address:
        """The contraction that an instruction computes, which XLA names after what moves it."""
        at = address
        while at in self._eqns and self._eqns[at][0].primitive not in CONTRACTIONS:
            eqn, cost = self._eqns[at]
            made = (self._makers.get((at.home, id(atom))) for atom in eqn.invars)
            maker = next((one for one in made if one is not None), None)
            if cost.operations or maker is None:
                return address
            at = maker
        return at if at in self._eqns else address


def _dtype(eqn: JaxprEqn) -> str:
    if eqn.primitive not in CONTRACTIONS:
        return _FLOAT
    dtype: Any = _compat.aval_of(eqn.invars[0]).dtype
    return str(dtype) if _jnp.issubdtype(dtype, _jnp.floating) else _FLOAT


def touched(hlo: HloModule, instruction: Instruction) -> int:
    """The bytes that an instruction reads and writes each time, of slices and updates the part."""
    return written(hlo, instruction) + sum(
        _read(hlo, instruction, number) for number in range(len(instruction.operands))
    )


def _read(hlo: HloModule, instruction: Instruction, number: int) -> int:
    """How much of an operand an instruction reads."""
    operand = hlo.operand(instruction, number)
    if instruction.opcode in _TAKE_PART:
        return instruction.bytes if number == 0 else operand.bytes
    if instruction.opcode == "dynamic-update-slice":
        return 0 if number == 0 else operand.bytes
    inner = instruction if instruction.opcode == "bitcast" else None
    if instruction.is_fusion:
        inner = hlo.computations[instruction.calls("calls")[0]].parameters[number]
    users = hlo.users.get(inner.name, ()) if inner else ()
    if inner is None or not users:
        return operand.bytes
    reads = (
        _read(hlo, user, k)
        for user in users
        for k, name in enumerate(user.operands)
        if name == inner.name
    )
    return min(sum(reads), operand.bytes)
