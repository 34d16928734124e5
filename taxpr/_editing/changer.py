"""Listens while an edited function runs, and puts changed values into the locals of its frames."""

import contextlib
import ctypes
import dataclasses
import dis
import functools
import itertools
import sys
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._editing.alteration import Alteration, Bound
from taxpr._editing.bindings import Binds, Plan, plan_of, puts
from taxpr._editing.exchange import is_exchanging, own_code
from taxpr._editing.functions import with_result
from taxpr._editing.fused import FunctionVariable, FusedError
from taxpr._editing.reached import every_function, is_users, names_in_jax, reached
from taxpr._editing.spelled import Spelled, part_at, parts_of, with_part
from taxpr._errors import SelectorError, TaxprError, say_where
from taxpr._places import place_text
from taxpr._source.files import is_user_file
from taxpr._source.parsed import codes_in
from taxpr._watching.frames import changers, keyed


@dataclasses.dataclass(frozen=True)
class Edit:
    """One change of a variable.

    Attributes:
        of: The variable as it is selected.
        occurrence: Which of its values; None for all.
        alteration: Makes the other value.
        optional: Whether it may find nothing.
        of_function: Whether it is a function that was given itself, and no variable.
    """

    of: Spelled
    occurrence: int | None
    alteration: Alteration
    optional: bool = False
    of_function: bool = False

    @property
    def text(self) -> str:
        """The text of the variable."""
        return self.of.text

    @property
    def line(self) -> int | None:
        """The line that binds it; None for all."""
        return self.of.line

    def __repr__(self) -> str:
        given = {"line": self.line, "occurrence": self.occurrence}
        more = (f", {name}={value}" for name, value in given.items() if value is not None)
        return f"var({self.text!r}{''.join(more)})"


class Edits:
    """The changes of one call of `edit`, and their effects in all calls of the edited function.

    Attributes:
        edits: The changes.
        key: A key that tells JAX's caches these edits from others.
        owners: For each edit the functions whose variable was changed: file and name.
        missed: For each edit why something of its name was not changed.
        exchanged: For each edit of a function, a function that it changes if it is called.
        ran: The functions that ran in any call, by their ids.
        fused: Variables that an instruction binds and reads, as far as it is known.
    """

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = tuple(edits)
        self.key = object()
        self.owners: dict[int, dict[tuple[str, str], str]] = defaultdict(dict)
        self.missed: dict[int, str] = {}
        self.exchanged: dict[int, types.CodeType] = {}
        self.ran: dict[int, types.CodeType] = {}
        self.fused: dict[FunctionVariable, None] = {}
        self._plans: dict[int, tuple[types.CodeType, Plan | None]] = {}
        # What takes the place of a line or of a function changes no variable.
        self._wanted = [
            Spelled("") if one.alteration.line or one.of_function else one.of for one in self.edits
        ]

    def plan(self, code: types.CodeType) -> Plan | None:
        """The places where a function binds edited variables."""
        if (known := self._plans.get(id(code))) is None:
            try:
                plan = plan_of(code, self._wanted)
            except FusedError as error:
                self.fused |= dict.fromkeys(error.places)
                raise
            known = self._plans[id(code)] = code, plan
        return known[1]

    def in_jax(self) -> bool:
        """Whether a variable of JAX's own functions may be meant, which is named with all of it."""
        dotted = [one for one in self._wanted if "." in one.text]
        first = {one.text.partition(".")[0] for one in dotted}
        files = [one.within[0] for one in dotted if one.within is not None]
        return any(map(_compat.is_jax_file, files)) or (
            bool(first) and not first.isdisjoint(names_in_jax(len(sys.modules)))
        )

    def look_for_fused(self, *given: Any) -> None:
        """Find what an instruction binds and reads, in the user's functions that are there.

        Args:
            *given: The function and its arguments. Where these hold functions that have the
                variables, no others are looked for.
        """
        if "STORE_FAST_LOAD_FAST" not in dis.opmap:  # up to Python 3.12
            return
        left = {number for number, one in enumerate(self._wanted) if one.text}
        for functions in (reached(*given), filter(is_users, every_function())):
            for code in itertools.chain.from_iterable(map(codes_in, map(own_code, functions))):
                with contextlib.suppress(FusedError):
                    left -= plan.edits if (plan := self.plan(code)) is not None else set()
            if not left:
                return

    def ran_in(self, file: str) -> list[types.CodeType]:
        """The functions that ran and are the user's or of this file."""
        every = self.ran.values()
        return [one for one in every if one.co_filename == file or is_user_file(one.co_filename)]

    def altered(self, edit: int, bound: Bound) -> Any:
        """The value that an edit makes of another one."""
        one, changer = self.edits[edit], changer_of(self)
        with changer.keeping_errors() if changer is not None else contextlib.nullcontext():
            try:
                return one.alteration.of(bound)
            except TaxprError:
                raise
            except Exception as error:
                by = f"the change of {one!r} ({bound.place}) to {one.alteration.text}"
                say_where(error, f"raised by {by}.")
                raise

    def found(self, edit: int, owner: tuple[str, str], place: str) -> None:
        """Note that a variable of a function is changed.

        Raises:
            SelectorError: If one of another function was changed before.
        """
        owners = self.owners[edit]
        owners.setdefault(owner, place)
        if len(owners) > 1:
            shown = ", ".join(f"{name} ({at})" for (_, name), at in owners.items())
            raise SelectorError(
                f"edit: {self.edits[edit]!r} is a variable of several functions: {shown}. Say "
                f"which: var({_shortest(owner[1])!r}), or give the line."
            )


def _shortest(name: str) -> str:
    return ".".join(name.replace(".<locals>", "").split(".")[-2:])


class Logged(NamedTuple):
    """A binding of an edited variable.

    Attributes:
        binds: The binding.
        code: The `id` of the code.
        marks: How many marks were left before.
    """

    binds: Binds
    code: int
    marks: int


class Changer:
    """Changes variables while a function runs; a `taxpr._watching.frames.Listener`.

    Args:
        edits: The edits.
        chosen: For an edit of one occurrence the bindings that it means, by their numbers.
        watched: Tells how many marks were left; if given, nothing is changed.

    Attributes:
        error: The error of a change, which the user's code may have caught.
        applied: For each edit the last place where it was applied.
        log: The bindings of edited variables, in order.
    """

    of_calls = False

    def __init__(
        self,
        edits: Edits,
        chosen: Mapping[int, frozenset[int]] = types.MappingProxyType({}),
        watched: Callable[[], int] | None = None,
    ) -> None:
        self.edits = edits
        self.log: list[Logged] = []
        self._chosen = chosen
        self._watched = watched
        self.error: BaseException | None = None
        self.applied: dict[int, str] = {}
        self._frames: dict[int, dict[Binds, Any]] = {}  # with where it comes from
        self._said: dict[int, dict[str, str]] = {}
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def wants(self, code: types.CodeType) -> bool:
        """Whether a function binds what is edited."""
        self.edits.ran[id(code)] = code
        with self.keeping_errors():
            return self.edits.plan(code) is not None

    def offsets(self, code: types.CodeType) -> frozenset[int]:
        """The instructions that bind it, and those before which a line has done so."""
        plan = self.edits.plan(code)
        return plan.offsets if plan is not None else frozenset()

    def started(self, frame: types.FrameType) -> None:
        """A function begins: its parameters are bound."""
        plan = self.edits.plan(frame.f_code)
        if plan is None:
            return
        self._frames[id(frame)] = dict.fromkeys(plan.parameters, _compat.origin())
        self._settle(frame)

    def line(self, frame: types.FrameType, line: int) -> None:
        """A line is about to run: what the last one has bound is changed."""
        del line
        self._settle(frame)

    def instruction(self, frame: types.FrameType, offset: int) -> None:
        """An instruction is about to run, which may bind a variable, or follow one that did."""
        if (plan := self.edits.plan(frame.f_code)) is None:
            return
        if offset in plan.settled:
            self._settle(frame)
        if offset in plan.stores:
            waiting = self._frames.setdefault(id(frame), {})  # a generator may have begun before
            waiting.update(dict.fromkeys(plan.stores[offset], _compat.origin()))

    def called(self, function: object, first: Any) -> None:
        """Not of interest."""

    def yielded(self, frame: types.FrameType) -> None:
        """A function yields."""
        self._settle(frame)

    def returned(self, frame: types.FrameType) -> None:
        """A function returns."""
        self._settle(frame)
        self._frames.pop(id(frame), None)

    def raised(self, frame: types.FrameType) -> None:
        """A function ends by an error."""
        self._frames.pop(id(frame), None)

    def said(self, frame: types.FrameType) -> Mapping[str, str]:
        """The changes of variables of a frame since the last call of this, by name."""
        return self._said.pop(id(frame), {})

    def found(self, edit: int, owner: tuple[str, str], place: str) -> None:
        """Note that something is changed."""
        with self.keeping_errors():
            self.edits.found(edit, owner, place)
        self.applied[edit] = place

    @contextlib.contextmanager
    def keeping_errors(self) -> Generator[None, None, None]:
        """Note what is raised meanwhile, since the user's code may catch it."""
        try:
            yield
        except BaseException as error:
            self.error = self.error or error
            raise

    def _settle(self, frame: types.FrameType) -> None:
        waiting = self._frames.get(id(frame))
        if not waiting:
            return
        bound = sorted(waiting.items(), key=lambda pair: pair[0].edit)
        waiting.clear()
        with self.keeping_errors():
            for one, origin in bound:
                with _compat.coming_from(origin):  # the equations are of the line that binds it
                    self._changed(frame, one)

    def _changed(self, frame: types.FrameType, one: Binds) -> None:
        code, variables = frame.f_code, frame.f_locals
        if one.name not in variables:  # deleted in the same line
            return
        edit, value = self.edits.edits[one.edit], variables[one.name]
        place = place_text(code.co_filename, one.line)
        try:
            part = part_at(value, one.keys)
        except (LookupError, AttributeError, TypeError):
            wanted, has = "".join(map(str, one.keys)), parts_of(value)
            more = f"; it has {has}" if has else ""
            if puts(code, one.keys[-1]):
                more += ". A line that puts it there binds no variable: give that a name first"
            self.edits.missed[one.edit] = f"what {one.name} holds ({place}) has no {wanted}{more}"
            return
        self.log.append(Logged(one, id(code), self._watched() if self._watched else 0))
        numbers = self._chosen.get(one.edit)
        if self._watched or (numbers is not None and len(self.log) - 1 not in numbers):
            return
        owner = code.co_filename, f"{one.function}.{one.name}"
        self.found(one.edit, owner, place)
        if one.returned:
            new = with_result(
                part, functools.partial(self.edits.altered, one.edit), edit.text, place
            )
        else:
            new = self._new(frame, one.edit, part, place)
        if new is not part:
            _set_local(frame, one.name, with_part(value, one.keys, new))
            of_frame = self._said.setdefault(id(frame), {})
            said = edit.alteration.said(one.name + "".join(map(str, one.keys)))
            of_frame[one.name] = "; ".join(filter(None, [of_frame.get(one.name), said]))

    def _new(self, frame: types.FrameType, number: int, part: Any, place: str) -> Any:
        trace = _compat.innermost_jaxpr_trace()
        counted: Any = self if trace is None else trace
        count = self._counts.get(counted, 0)
        self._counts[counted] = count + 1

        def names() -> Mapping[str, Any]:
            code, own = frame.f_code, frame.f_locals
            unbound = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}.difference(own)
            return {k: v for k, v in {**frame.f_globals, **own}.items() if k not in unbound}

        bound = Bound(part, self.edits.edits[number].text, place, count, names)
        if is_exchanging():
            return self.edits.altered(number, bound)
        with keyed(without=lambda _: True):  # Python tells nobody what runs now
            return self.edits.altered(number, bound)


def changer_of(edits: Edits) -> Changer | None:
    """The `Changer` that applies these edits in this thread; None without such."""
    every = (one for one in changers() if isinstance(one, Changer))
    return next((one for one in every if one.edits is edits), None)


def _set_local(frame: types.FrameType, name: str, value: Any) -> None:
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # from 3.13 on that writes through: PEP 667
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
