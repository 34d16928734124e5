"""The values of variables in a run with injectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import taxpr
from taxpr_jupyter._edits.attach import noted_already
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.run_plan import Plan

_HELD = "value of a variable"  # the name of tags that only a recording sees


def held_with_injectors(plan: Plan) -> Callable[..., taxpr.questions.Recording]:
    """Run the program with its injectors, and keep the values of its variables, as `taxpr.watch`.

    The values are tagged, those with injectors after the injectors. An injection keeps tags that it
    does not inject, in their order, so that the tags of the injected program are these.

    Raises:
        PanelError: An injector cannot work.
    """
    if broken := next((one for one in plan.attached.values() if one.error), None):
        raise PanelError(f"Nothing was run. {broken.error}")
    attached = plan.injected
    injected_at = {row.site.value_address: row.site for row in plan.sites if row.key in attached}
    variables = plan.edited.variables()
    places = dict.fromkeys(one.address for one in variables)
    where: Any = [injected_at.get(address, address) for address in places]
    tagged = plan.edited.tag_at(where, name=_HELD)
    own, held = ([s for s in tagged.tags() if (s.name == _HELD) is its] for its in (False, True))
    made_by = {one.address: one.value_address for one in own}
    addresses = [
        made_by.get(taxpr.Address(one.value_address or "").eqn, one.value_address) for one in held
    ]
    with noted_already():
        injected = tagged.inject(
            {
                site: attached[row.key].injector
                for site, row in zip(own, plan.sites, strict=True)
                if row.key in attached
            }
        )

    tags: Any = injected.tags(_HELD)
    owners: dict[str, set[Any]] = {}
    for one in variables:
        owners.setdefault(one.text, set()).add(one.owner)

    def run(*args: Any, **kwargs: Any) -> taxpr.questions.Recording:
        recording = taxpr.watch(injected, tags)(injected.ctx, *args, **kwargs)
        at = dict(zip(addresses, recording.parts, strict=True))
        parts = [
            dataclasses.replace(
                at[one.address],
                name=one.text if len(owners[one.text]) == 1 else one.short,
                address=str(one.address),
                file=one.file,
                line=one.line,
                function=one.function,
                variable=one,
                mapped=one.mapped,
            )
            for one in variables
        ]
        out, _ = recording.out
        return taxpr.questions.Recording(
            recording.name, out, parts, recording.skipped, recording.notes
        )

    return run
