"""The values of variables in a run with injectors, and their cotangents."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.same_values import same_values
from taxpr_jupyter._edits.attach import noted_already
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.gradients import (
    cotangents_of,
    differentiates,
    loss_to_differentiate,
    with_back,
)
from taxpr_jupyter._runs.run_plan import Plan

_HELD = "value of a variable"  # the name of tags that only a recording sees
_ADDED = "value with an injector"  # the same, in a program that is traced again
_UNKNOWN = (
    "The cotangents with the injector {name} at {site} are not known: {why}. "
    "session.watch(injectors=False, grads=True) has those without injectors"
)
_NO_DERIVATIVE: Mapping[type[Warning], str] = {
    taxpr.errors.StaleDerivativeWarning: "it changes a value whose derivative stays as it was",
    taxpr.errors.DroppedRuleWarning: "a function's own derivative rule is dropped for it",
}
_NOWHERE = "they need another trace, and no variable tells where this value is in it"


def held_with_injectors(
    plan: Plan, fun: Callable[..., Any] | None = None
) -> Callable[..., taxpr.questions.Recording]:
    """Run the program with its injectors, and keep the values of its variables, as `taxpr.watch`.

    If a value has an injector, its result is kept, and the cotangent of its result.

    Args:
        plan: The run.
        fun: The function that the program was traced from, of the same arguments. If it is given,
            cotangents are kept, see `watched_with_cotangents`.

    Raises:
        PanelError: An injector cannot work; its cotangents are not known; there is nothing to
            differentiate.
    """
    if broken := next((one for one in plan.attached.values() if one.error), None):
        raise PanelError(f"Nothing was run. {broken.error}")
    injectors = [plan.injected.get(row.key) for row in plan.sites]
    injected_at = {
        row.site.value_address: row.site for row in plan.sites if row.key in plan.injected
    }
    held = [(one.address, one) for one in plan.edited.variables()]
    values = _Injected(plan.edited, injectors, held, injected_at)
    if fun is None:
        return values.watching()
    _refuse_unless_derived(plan)
    if not differentiates(plan.edited):
        return values.watching(loss_to_differentiate(plan.edited))

    def run(*args: Any, **kwargs: Any) -> taxpr.questions.Recording:
        traced = taxpr.trace(fun, names="cotangents")(*args, **kwargs)
        cotangents = _cotangents_inside(plan, traced)
        kept = values.watching()(*args, **kwargs)
        found = cotangents.watching()(*args, **kwargs)
        # The axes of an outer `jax.vmap` may be elsewhere than in the value, so no axis is named.
        back = [
            dataclasses.replace(part, name=f"∂ {part.name}", mapped=(), cotangent=True)
            for part in found.parts
        ]
        return with_back(kept, found, back)

    return run


def _refuse_unless_derived(plan: Plan) -> None:
    """Raises unless the injected program is differentiated as the same change by hand would be."""
    for row in plan.sites:
        attached = plan.injected.get(row.key)
        kinds = {type(one) for one in attached.warned} if attached else ()
        for kind, why in _NO_DERIVATIVE.items():
            if attached and kind in kinds:
                raise _unknown(attached, row, why)


def _unknown(attached: Attached, row: SiteRow, why: str) -> PanelError:
    return PanelError(_UNKNOWN.format(name=attached.name, site=row.title, why=why))


def _cotangents_inside(plan: Plan, traced: taxpr.Program) -> _Injected:
    """A program that knows its cotangents, with the injectors, and tags at the cotangents.

    Args:
        plan: The run.
        traced: The program of the same function, which knows cotangents, without injectors.

    Raises:
        PanelError: The value of an injector has no place in it.
    """
    same = same_values(plan.edited, traced)
    places = {old.address: new.address for old, new in same.items()}
    of_source = [row for row in plan.sites if not row.added]
    as_before = [row.name for row in of_source] == [site.name for site in traced.tags()]
    added: dict[str, Attached] = {}
    for row in plan.sites:
        attached = plan.injected.get(row.key)
        if attached and row.added and row.key in places:
            added[places[row.key]] = attached
        elif attached and (row.added or not as_before):
            raise _unknown(attached, row, _NOWHERE)
    program = traced.tag_at(list[Any](added), name=_ADDED) if added else traced
    source = iter(of_source)
    injectors = [
        added[site.value_address or ""]
        if site.name == _ADDED
        else plan.injected.get(next(source).key)
        for site in program.tags()
    ]
    old = {new: one for one, new in same.items()}
    back = zip(traced.variables(), cotangents_of(traced), strict=True)
    held = [
        (value.address, old[one])
        for one, where in back
        if one in old
        for value in taxpr.find_values(traced, where)
    ]
    return _Injected(program, injectors, held)


class _Injected:
    """A program with injectors, and tags where values of variables are kept.

    An injection keeps tags that it does not inject, in their order, so the tags of the injected
    program are those that it got before.

    Args:
        program: The program.
        injectors: For each of its tags the injector, or None.
        held: The addresses of the values, each with a variable that it belongs to.
        instead: The tags whose results are kept in place of the values at some addresses.

    Raises:
        PanelError: There is no value to keep.
    """

    def __init__(
        self,
        program: taxpr.Program,
        injectors: Sequence[Attached | None],
        held: Sequence[tuple[taxpr.Address, taxpr.program.Variable]],
        instead: Mapping[Any, taxpr.program.Site] | None = None,
    ) -> None:
        where: Any = [(instead or {}).get(at, at) for at in dict.fromkeys(at for at, _ in held)]
        tagged = program.tag_at(where, name=_HELD)
        own, kept = (
            [s for s in tagged.tags() if (s.name == _HELD) is its] for its in (False, True)
        )
        made_by = {one.address: one.value_address for one in own} if instead else {}
        self._addresses = [
            made_by.get(taxpr.Address(one.value_address or "").eqn, one.value_address)
            for one in kept
        ]
        self._held = held
        every = zip(own, injectors, strict=True)
        with noted_already():
            self._program = tagged.inject({site: one.injector for site, one in every if one})

    def watching(self, grads: str = "") -> Callable[..., taxpr.questions.Recording]:
        """A function of the program's arguments that runs it and keeps the values.

        Args:
            grads: The result whose gradients by the values are kept, too; empty for none.
        """
        injected, held = self._program, self._held
        tags: Any = injected.tags(_HELD)
        variables = [one for _, one in held]
        owners: dict[str, set[Any]] = {}
        for one in variables:
            owners.setdefault(one.text, set()).add(one.owner)
        watch = taxpr.watch(injected, tags, grads=grads or False)

        def run(*args: Any, **kwargs: Any) -> taxpr.questions.Recording:
            recording = watch(injected.ctx, *args, **kwargs)
            values = [part for part in recording.parts if not part.cotangent]
            at = {one.address: k for one, k in zip(values, self._addresses, strict=True)}
            found = {(at[part.address], part.cotangent): part for part in recording.parts}
            parts = [
                dataclasses.replace(
                    found[address, back],
                    name=f"{'∂ ' * back}{one.text if len(owners[one.text]) == 1 else one.short}",
                    address=str(address),
                    file=one.file,
                    line=one.line,
                    function=one.function,
                    variable=one,
                    mapped=one.mapped,
                )
                for back in (False, True)
                for address, one in held
                if (address, back) in found
            ]
            out, _ = recording.out
            return taxpr.questions.Recording(
                recording.name, out, parts, recording.skipped, recording.notes
            )

        return run
