"""Uses of a variable's value inside and outside of calls of its function."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._errors import RefusedError, SelectorError
from taxpr._places import place_text
from taxpr._programs.traced import Traced
from taxpr._sites.locate import Located, locate
from taxpr._source.statements import statements_of
from taxpr._variables.calls import BindingCall, uses_of
from taxpr._variables.select import Var
from taxpr._variables.variable import Variable

_SHOWN = 3  # lines in a message


class TagFacts(NamedTuple):
    """The facts on a value that gets a tag.

    Attributes:
        differentiated: Whether a derivative of it was taken.
        elsewhere: The uses outside of the variable's function; see `used_elsewhere`.
        calls: The calls that see the tag; empty means everywhere.
    """

    differentiated: bool = False
    elsewhere: str = ""
    calls: tuple[BindingCall, ...] = ()


class InCalls(NamedTuple):
    """The place of the tag for a value that is changed in some calls only.

    Attributes:
        read: The operand of the tag: the value, or the result of another tag on it.
        after: The position of the equation before the tag; -1 means the beginning.
        users: The positions of the equations that read the tag; for the results, one after the
            last.
    """

    read: Any
    after: int
    users: tuple[int, ...]


def in_calls(stored: StoredJaxpr, value: Any, calls: Sequence[BindingCall], said: str) -> InCalls:
    """Find the uses of a value in some calls.

    Raises:
        SelectorError: If the calls have no use of it.
        RefusedError: If a use is only in part in the calls, or several tags hand on the value.
    """
    every = list(uses_of(stored, value, calls))
    if any(eqn and not _compat.frames_of(eqn)[0] for use in every for eqn in use.elsewhere):
        raise RefusedError(
            f"inside=True: an equation that uses the {said} does not say where it was made. Put a "
            "taxpr.tag in the function."
        )
    uses = [use for use in every if use.inside]
    if not uses:
        raise SelectorError(
            f"inside=True: nothing is computed of the {said} while the function of the variable "
            "runs: it returns it, or hands it to a loop that began before. Leave out inside, or "
            "put a taxpr.tag in the function."
        )
    if mixed := [one for use in uses for one in use.elsewhere]:
        raise RefusedError(
            f"inside=True: the {said} goes into a loop, branch or jitted function that was called "
            f"outside of the function of the variable, and is used there by others, too"
            f"{_lines(mixed)}. Put a taxpr.tag in the function."
        )
    reads = {var for use in uses for var in use.read}
    if len(reads) > 1:
        raise RefusedError(
            f"inside=True: the function uses the {said} and the result of a tag on it, so one "
            "tag cannot mark both. Put a taxpr.tag in the function."
        )
    [read] = reads
    eqns = _compat.open_jaxpr(stored).eqns
    makers = (k for k, eqn in enumerate(eqns) if any(var is read for var in eqn.outvars))
    return InCalls(read, next(makers, -1), tuple(use.position for use in uses))


def calls_of(
    program: Traced, where: Var, held: Iterable[Variable]
) -> dict[str, tuple[BindingCall, ...]]:
    """For each address the calls that ``where``, with ``inside=True``, changes it in.

    Raises:
        SelectorError: If a call is not known, or cannot be told apart from another one.
    """
    found: dict[str, dict[BindingCall, None]] = {}
    chosen = set(held)
    for one in chosen:
        call = program.named.call_of(one) if program.named else None
        if call is None:
            raise SelectorError(f"{where!r}: it is not known which equations the call made.")
        if others := _of_the_same(program, one, call, chosen):
            raise SelectorError(
                f"{where!r}: {len(others) + 1} calls of {one.function} from one line hold the same "
                "value, and are not told apart. Select all of them, without occurrence."
            )
        found.setdefault(one.address, {})[call] = None
    return {address: tuple(calls) for address, calls in found.items()}


def elsewhere(program: Traced, held: Iterable[Variable]) -> dict[str, str]:
    """The other uses of the values that variables hold, by address, in words for a warning."""
    at: dict[str, list[Variable]] = {}
    for one in held:
        at.setdefault(one.address, []).append(one)
    found = {address: _elsewhere(program, address, ones) for address, ones in at.items()}
    return {address: said for address, said in found.items() if said}


def _elsewhere(program: Traced, address: str, held: Sequence[Variable]) -> str:
    calls = [program.named.call_of(one) if program.named else None for one in held]
    known = [call for call in calls if call is not None]
    if len(known) < len(calls):
        return ""
    place = locate(program.jaxpr, address)
    maker, value = _maker(place)
    if maker is not None and any(call.made(maker) for call in known):
        return ""
    uses = uses_of(place.jaxpr, value, known)
    used = _lines([eqn for use in uses for eqn in use.elsewhere])
    pairs = zip(held, known, strict=True)
    others = {other for one, call in pairs for other in _of_the_same(program, one, call, set(held))}
    if others and not used:
        used = f" in {len(others)} other calls of {held[0].short.rpartition('.')[0]}"
    if not used:
        return ""
    return (
        f"holds a value that is used outside of its function, too:{used}. All uses are changed. To "
        f"change those in the function alone, select taxpr.var({held[0].short!r}, inside=True); "
        "with inside=False this is not said"
    )


def _of_the_same(
    program: Traced, one: Variable, call: BindingCall, chosen: set[Variable]
) -> list[Variable]:
    """The same variable in other calls that hold the value and are not told apart from this one."""
    return [
        other
        for other in program.variables()
        if (other.address, other.owner, other.text) == (one.address, one.owner, one.text)
        and other not in chosen
        and program.named is not None
        and program.named.call_of(other) == call
    ]


def _maker(place: Located) -> tuple[JaxprEqn | None, Any]:
    inner = _compat.open_jaxpr(place.jaxpr)
    if place.kind == "eqn":
        eqn = inner.eqns[place.number]
        return eqn, eqn.outvars[place.out or 0]
    return None, (inner.invars if place.kind == "in" else inner.constvars)[place.number]


def _lines(eqns: Iterable[JaxprEqn | None]) -> str:
    """The statements of equations, and where they are; "" where none is known."""
    said: dict[str, None] = {}
    for eqn in eqns:
        if eqn is None:
            said[" as a result of the caller"] = None
        elif statements := statements_of(eqn):
            one = statements[0]
            text = f" `{one.text}`" if one.text else ""
            said[f"{text} ({place_text(one.file, one.line)} in {one.function})"] = None
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return ",".join(list(said)[:_SHOWN]) + more
