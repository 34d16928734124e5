"""Runs an edited function: finds what is changed, and says what is not found."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from taxpr._editing.alteration import Alteration, Bound, alteration, shown
from taxpr._editing.changer import Changer, Edit, Edits, changer_of
from taxpr._editing.exchange import exchanged, in_place_of, own_code
from taxpr._editing.functions import found_at, full_path, in_module, plain, with_result
from taxpr._editing.fused import FusedError, functions_with, set_apart
from taxpr._editing.lines import Owner, owners, reads_too_early, with_line
from taxpr._editing.occurrences import occurrences
from taxpr._editing.spelled import RETURN, Spelled, place_of, selected
from taxpr._editing.unfound import why_unfound
from taxpr._errors import (
    ArgumentError,
    RefusedError,
    SelectorError,
    TaxprError,
    name_of,
    say_more,
    say_where,
)
from taxpr._sites.criteria import Maybe
from taxpr._variables.select import Var
from taxpr._watching.frames import changing


class EditedFunction:
    """A function with its edits.

    Args:
        fun: The function.
        pairs: The variables and functions, each with its change.

    Raises:
        ArgumentError: If one of them is neither, or cannot be changed so.
    """

    def __init__(self, fun: Callable[..., Any], pairs: Sequence[tuple[Any, Any]]) -> None:
        self._fun = fun
        self._given: dict[int, types.FunctionType] = {}  # functions that were given themselves
        self._put: set[int] = set()  # the edits that put another function in the place of one
        self._owners: dict[tuple[int, int], Owner] = {}  # of lines that are other ones
        self._made: dict[tuple[int, int], tuple[Callable[..., Any], str]] = {}  # with the places
        self._looked = False
        self._kept: list[Any] = []  # whose ids are in there
        edits: list[Edit] = []
        for place, change in pairs:
            optional, place = (True, place.where) if isinstance(place, Maybe) else (False, place)
            if isinstance(place, str) and callable(change) and (function := full_path(place)):
                self._given[len(edits)] = function
                put = Alteration(name_of(change), lambda _, change=change: change)
                self._put.add(len(edits))
                edits.append(Edit(Spelled(place), None, put, optional, True))
            elif isinstance(place, str | Var):
                text = place if isinstance(place, str) else place.text
                edits.append(_of_variable(place, alteration(change, text), optional))
            elif (function := plain(place)) is not None:
                self._given[len(edits)] = function
                name, new = name_of(place), alteration(change, name_of(place))
                edits.append(Edit(Spelled(name), None, new, optional, True))
            else:
                raise ArgumentError(
                    f"edit: where={shown(place)} is of the type {type(place).__name__}. Give a "
                    'variable, "attend.weights" or taxpr.var("weights", line=12), or a function. '
                    "Other values have no line that binds them: inject changes them as traced."
                )
        self._edits = Edits(edits)

    @property
    def texts(self) -> list[str]:
        """The variables and functions that are changed."""
        return [one.text for one in self._edits.edits]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if changer_of(self._edits) is not None:
            return self._fun(*args, **kwargs)  # it calls itself
        if not self._looked:  # else what ran before is traced twice
            self._looked = True
            self._edits.look_for_fused(self._fun, args, kwargs)
        known = len(self._edits.fused)
        apart = dict.fromkeys(functions_with(self._edits.fused), self._apart)
        try:
            with exchanged(apart):
                return self._run(args, kwargs)
        except FusedError:
            if len(self._edits.fused) == known:
                raise
        return self(*args, **kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        chosen = self._chosen(args, kwargs)
        changer = Changer(self._edits, chosen)
        key = object() if chosen else self._edits.key
        with changing(changer, key, self._edits.in_jax()) as told:
            if not told:
                raise RefusedError(_TAKEN)
            with exchanged(dict(self._exchanges(changer))):
                try:
                    out = self._fun(*args, **kwargs)
                except TaxprError:
                    raise
                except Exception as error:
                    if isinstance(error, UnboundLocalError):
                        self._refuse_too_early(error)
                    if error is not changer.error and changer.applied:
                        say_more(error, "\nMeanwhile ", self._said(changer))
                    raise
        if changer.error is not None:
            raise changer.error  # the user's code has caught it
        self._refuse_unfound()
        return out

    def _apart(self, now: Callable[..., Any]) -> Callable[..., Any]:
        """A function that binds edited variables and reads them by an instruction each."""
        key = -1 - len(self._edits.fused), id(now)
        if key not in self._made:
            self._made[key] = set_apart(cast(Any, now), self._edits.fused), ""
            self._kept.append(now)
        return self._made[key][0]

    def _exchanges(
        self, changer: Changer
    ) -> Iterator[tuple[types.FunctionType, Callable[[Any], Any]]]:
        """The functions of modules and classes that are changed, and how."""
        found: dict[types.FunctionType, list[int]] = {}
        for number, one in enumerate(self._edits.edits):
            if one.alteration.line:
                for own in owners(one.of):
                    self._owners[number, id(own.function)] = own
                    found.setdefault(cast(Any, own.function), []).append(number)
            elif number in self._given:
                found.setdefault(self._given[number], []).append(number)
            elif one.text.endswith(RETURN) or not one.alteration.of_values:
                try:
                    functions = list(found_at(one.text.removesuffix(RETURN), self._fun))
                except RefusedError as why:
                    if one.text.endswith(RETURN):
                        raise
                    functions = []  # a variable may have that name, too
                    self._edits.missed[number] = str(why).removeprefix("edit: ").rstrip(".")
                for function in functions:
                    found.setdefault(function, []).append(number)
        for function, numbers in found.items():
            self._edits.exchanged |= dict.fromkeys(numbers, own_code(function))
            changed = changer.keeping_errors()(self._changed)
            yield function, functools.partial(changed, changer, function, numbers)

    def _changed(
        self,
        changer: Changer,
        function: types.FunctionType,
        numbers: Sequence[int],
        now: Callable[..., Any],
    ) -> Callable[..., Any]:
        code, taken = own_code(function), dict[tuple[str, str], int]()
        for number in numbers:
            name, key = function.__qualname__, (number, id(now))
            if (own := self._owners.get((number, id(function)))) is not None:
                name = f"{own.code.co_qualname}.{own.name}"
            if key not in self._made:
                edit, place = self._edits.edits[number], place_of(code)
                if own is None:
                    make = functools.partial(self._of_function, number, place=place)
                    self._made[key] = in_place_of(function, now, make), place
                else:
                    self._made[key] = with_line(
                        cast(Any, now), own, edit.line, edit.alteration.line
                    )
                self._kept.append(now)
            now, place = self._made[key]
            changer.found(number, (code.co_filename, name), place)
            if own is not None and (other := taken.setdefault((name, place), number)) != number:
                one, two = (self._edits.edits[k].alteration.text for k in (other, number))
                raise ArgumentError(
                    f"edit: {one} and {two} take the place of the same line ({place}), and one "
                    "alone can. Leave one out."
                )
        return now

    def _of_function(
        self, number: int, function: Callable[..., Any], place: str
    ) -> Callable[..., Any]:
        one = self._edits.edits[number]
        if one.text.endswith(RETURN):
            altered = functools.partial(self._edits.altered, number)
            return with_result(function, altered, one.text, place)

        def names() -> Mapping[str, Any]:
            seen = getattr(inspect.unwrap(function), "__globals__", {})
            return {**seen, one.text.rpartition(".")[2]: function}

        try:
            new = one.alteration.of(Bound(function, one.text, place, 0, names))
        except Exception as error:
            what = f"raised by the change of the function {one.text} ({place})"
            say_where(
                error,
                f"{what}. A variable of that name is selected with its function: "
                f"var('step.{one.text}').",
            )
            raise
        if not callable(new):
            raise ArgumentError(
                f"edit: {one.alteration.text} made {shown(new)} of the function {one.text} "
                f"({place}), which is of the type {type(new).__name__} and no function."
            )
        return new

    def _said(self, changer: Changer) -> str:
        texts: list[str] = []
        for number, place in changer.applied.items():
            one = self._edits.edits[number]
            how = one.alteration.text
            if number in self._put:
                how += (
                    f", which takes the place of {one.text} and is called with its arguments: to "
                    "make another function of it, give the function itself and not its name"
                )
            texts.append(f"{one!r} ({place}) was changed by {how}")
        return "; ".join(texts) + "."

    def _refuse_too_early(self, error: UnboundLocalError) -> None:
        """Raise if a line that takes the place of another one reads its own variable."""
        for (number, _), own in self._owners.items():
            if wrong := reads_too_early(self._edits.edits[number].alteration.line, own, error):
                raise ArgumentError(f"edit: {wrong}") from error

    def _refuse_unfound(self) -> None:
        for number, one in enumerate(self._edits.edits):
            if not (self._edits.owners.get(number) or one.optional):
                raise SelectorError(f"edit: {one!r}: {why_unfound(self._edits, number, self._fun)}")

    def _chosen(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[int, frozenset[int]]:
        """For edits of one occurrence the bindings that they mean."""
        if all(one.occurrence is None for one in self._edits.edits):
            return {}
        return occurrences(self._edits, self._fun, args, kwargs)


_TAKEN = (
    "edit: something else is told of the lines that run, and Python has no room for another. Run "
    "without the debugger, the profiler or the measurement of coverage."
)


def _of_variable(where: str | Var, change: Alteration, optional: bool) -> Edit:
    where = selected(where)
    if where.inside is False:
        raise ArgumentError(
            f"edit: {where!r}: the variable alone is changed, and never what its caller has."
        )
    if change.line and where.occurrence is not None:
        raise ArgumentError(
            f"edit: {where!r}: a line takes its place in all runs. Give line=, not occurrence=."
        )
    if (
        where.text.endswith(RETURN)
        and not change.line
        and (where.line, where.occurrence) != (None, None)
    ):
        raise ArgumentError(
            f"edit: {where!r}: a result has no line and no occurrence. A line that returns takes "
            "the place of one: 'return x * 2'."
        )
    of = Spelled(where.text, where.line, in_module(where.text))
    return Edit(of, where.occurrence, change, optional)
