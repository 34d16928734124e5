"""Follow a value through an optimized program: who reads it, and who made it."""

from collections.abc import Iterator

from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import HloModule, Instruction

# What hands a value on as it is, in another place, order or shape; what ends in "-done" does, too.
MOVES = ("bitcast", "copy", "copy-start", "reshape", "transpose", "optimization-barrier")
_INLINE = ("fusion", "fusion-start", "call", "async-start")

# A part of what an instruction returns: its name, and the path in a tuple.
Part = tuple[str, tuple[int, ...]]


def moves(instruction: Instruction) -> bool:
    """Whether an instruction hands its operand on as it is."""
    return instruction.opcode in MOVES or instruction.opcode.endswith("-done")


def readers(hlo: HloModule, part: Part) -> list[Instruction]:
    """The instructions that compute with a value, wherever it is handed on, in order.

    Where what reads it comes from no equation of the user's, those that read its result; and where
    none computes with it, those that move it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr._compiled.compile_call import compile_call
        >>> call = compile_call(lambda x: jnp.sin(x.T @ x), (jnp.ones((8, 8)),), {})
        >>> [one.opcode for one in readers(call.hlo, (call.hlo.entry.parameters[0].name, ()))]
        ['dot']
    """
    found: dict[str, Instruction] = {}
    moved: dict[str, Instruction] = {}
    seen: set[Part] = set()
    open_parts = [part]
    while open_parts:
        name, path = now = open_parts.pop()
        if now in seen:
            continue
        seen.add(now)
        for user in hlo.users.get(name, ()):
            if hlo.stamp(user) is not None and not _goes_in(user):
                (moved if moves(user) else found)[user.name] = user
            if user.name not in found:
                open_parts += _handed_on(hlo, user, name, path)
        open_parts += _returned(hlo, name, path)
    found = found or moved
    return [one for name, one in hlo.instructions.items() if name in found]


def _goes_in(user: Instruction) -> bool:
    return user.opcode in (*_INLINE, "while", "conditional", "tuple", "get-tuple-element")


def _handed_on(
    hlo: HloModule, user: Instruction, name: str, path: tuple[int, ...]
) -> Iterator[Part]:
    """The parts that an operand of an instruction becomes."""
    for number, operand in enumerate(user.operands):
        if operand != name:
            continue
        match user.opcode:
            case "tuple":
                yield user.name, (number, *path)
            case "get-tuple-element":
                if path[:1] == (user.number,):
                    yield user.name, path[1:]
            case "while":
                for called in user.calls("body", "condition"):
                    yield hlo.computations[called].parameters[0].name, path
            case "conditional":
                if number:
                    called = user.calls()[number - 1]
                    yield hlo.computations[called].parameters[0].name, path
            case opcode if opcode in _INLINE:
                called = user.calls("calls", "to_apply")[0]
                yield hlo.computations[called].parameters[number].name, path
            case "fusion-done":
                yield user.name, path[1:]
            case _ if moves(user):
                yield user.name, path
            case _:
                yield user.name, ()


def _returned(hlo: HloModule, name: str, path: tuple[int, ...]) -> Iterator[Part]:
    """The parts that a returned value of a computation becomes."""
    home = hlo.instructions[name].computation
    caller = hlo.callers.get(home)
    if caller is None or hlo.computations[home].root.name != name:
        return
    if caller.opcode == "while":
        if home in caller.calls("body"):
            yield hlo.computations[home].parameters[0].name, path
            yield caller.name, path
    elif _goes_in(caller):
        yield caller.name, (1, *path) if caller.opcode == "fusion-start" else path


def maker(call: CompiledCall, instruction: Instruction, operand: int = 0) -> Instruction | None:
    """The instruction of the user's, or the parameter, that an operand comes from, if it is known.

    For values that a loop keeps, one for each iteration, it is the maker of one of them.

    Args:
        call: The call.
        instruction: The instruction that reads it, or hands it on.
        operand: The number of the operand.
    """
    hlo = call.hlo
    name, path = instruction.operands[operand], ()
    for _ in hlo.instructions:  # more steps than these are a circle
        one = hlo.instructions[name]
        if one.opcode == "get-tuple-element":
            name, path = one.operands[0], (one.number or 0, *path)
        elif one.opcode == "tuple" and path:
            name, path = one.operands[path[0]], path[1:]
        elif one.opcode in _INLINE:
            name = hlo.computations[one.calls("calls", "to_apply")[0]].root.name
        elif one.opcode == "while":
            name = hlo.computations[one.calls("body")[0]].root.name
        elif one.opcode == "parameter":
            caller = hlo.callers.get(one.computation)
            if caller is None:
                return one
            if caller.opcode == "conditional":
                number = 1 + caller.calls().index(one.computation)
            else:
                number = one.number or 0
            name = caller.operands[number]
        elif one.opcode == "dynamic-update-slice" and _is_kept(call, one):
            name, path = one.operands[1], ()
        elif hlo.stamp(one) is not None and not moves(one):
            return one
        elif one.operands:
            name = one.operands[0]
        else:
            return None
    return None


def _is_kept(call: CompiledCall, instruction: Instruction) -> bool:
    """Whether a loop writes this for each iteration, and no equation in it does."""
    equations = call.equations(instruction)
    return not equations or any(address.is_in(equations[-1]) for address in call.addresses)
