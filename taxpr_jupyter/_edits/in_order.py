"""Several injectors at one tag, which run in order: one `Injector` that has the numbers of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._tracing.call_names import fresh

_PLAIN = taxpr.injectors.Injector  # others need to know their tag


def together(parts: Sequence[Attached], labels: Sequence[str] = ()) -> Attached:
    """Several injectors as one, with parameters such as ``scale.factor``.

    Those that are off have parameters, and do nothing. One that must be alone, see `must_be_alone`,
    raises where it is traced.

    Args:
        parts: The injectors, in their order; none of them is several itself.
        labels: The beginnings of the names of values that the first parts have already.

    Example:
        >>> from taxpr_jupyter._edits.attach import make
        >>> scale, add = (make("h", name, (), {}, {}) for name in ("scale", "add"))
        >>> str(together([scale, add]))
        'scale(factor=0.5), add(value=0)'
    """
    if len(parts) == 1:
        return parts[0]
    named = dict(zip(_labels(parts, labels), parts, strict=True))
    on = [name for name, one in named.items() if not one.off]
    injector = _chain({name: one.injector for name, one in named.items()}, on)
    return Attached(
        key=parts[0].key,
        name=", ".join(one.name for one in parts),
        kind="several",
        values={f"{k}.{name}": v for k, one in named.items() for name, v in one.values.items()},
        params={f"{k}.{name}": v for k, one in named.items() for name, v in one.params.items()},
        injector=injector,
        source=injector,
        variable=parts[0].variable,
        parts=tuple(named.items()),
    )


def must_be_alone(name: str, one: taxpr.injectors.Injector) -> str:
    """Why an injector cannot stand among several; empty if it can."""
    if type(one) is _PLAIN:
        return ""
    return f"{name} cannot stand among several injectors of one tag"


def _labels(parts: Sequence[Attached], before: Sequence[str]) -> list[str]:
    labels = list(before)
    for one in parts[len(labels) :]:
        name = one.name if one.kind != "typed" else "line"
        labels.append(fresh(name, lambda free: free not in labels, mark=""))
    return labels


def _chain(
    named: Mapping[str, taxpr.injectors.Injector], on: Sequence[str]
) -> taxpr.injectors.Injector:
    """One injector that runs those that are on, one after the other."""
    acting = tuple((name, named[name]) for name in on)  # a tuple, for `closure_key` looks into it

    def own(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: values[f"{name}.{key}"] for key in named[name].values}

    def fire(values: Any, state: Any, token: Any, params: Any) -> tuple[Any, Any]:
        after = dict(state)
        for name, one in acting:
            if alone := must_be_alone(name, one):
                raise TypeError(alone)
            ctx = {"values": own(name, values), "state": state[name]}
            token, ctx = one(ctx, token, params)
            after[name] = ctx["state"]
        return token, after

    def check(values: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        for name, one in named.items():
            if one.check is not None:
                one.check(own(name, values), one.options)

    return taxpr.injectors.Injector(
        name=", ".join(named),
        values={f"{name}.{key}": v for name, one in named.items() for key, v in one.values.items()},
        fire=fire,
        new_state=lambda site: {
            name: one.new_state(None if one.shared else site) for name, one in acting
        },
        report=lambda state: {
            f"{name}.{key}": found
            for name, one in acting
            for key, found in one.report(state[name]).items()
        },
        adds_up=all(one.adds_up for _, one in acting),
        keys=frozenset(f"{name}.{key}" for name, one in named.items() for key in one.keys),
        observes=all(one.observes for _, one in acting),
        check=check,
    )
