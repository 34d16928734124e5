"""Match the arguments of a call with the trace's, by position or by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, signature_of
from taxpr._jaxprs.trees import named_leaves

_SHOWN = 5  # names in a message


@dataclasses.dataclass(frozen=True)
class Arguments:
    """How a function was called when it was traced, without static arguments.

    Attributes:
        signature: Its parameters, without static ones.
        positional: The names of arguments given by position, in order.
        keywords: The names of arguments given by name.
        contexts: The number of contexts that injections have added in front.
    """

    signature: inspect.Signature
    positional: tuple[str, ...]
    keywords: frozenset[str]
    contexts: int = 0

    def with_ctx(self) -> Arguments:
        """The arguments after an injection, which adds a context in front."""
        return dataclasses.replace(self, contexts=self.contexts + 1)

    def arranged(
        self, name: str, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[Any, Any]:
        """The arguments of a call, rearranged to the form of the traced call.

        Missing arguments take the function's defaults.

        Raises:
            ArgumentError: If there are too many, too few, or others.
        """
        n = min(self.contexts, len(args))
        try:
            bound = self.signature.bind(*args[n:], **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{name}: {error}. {self._shown(name)}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        known = {*self.positional, *self.keywords}
        if more := sorted(given - known):
            raise ArgumentError(
                f"{name}: {', '.join(more)} was left out when it was traced, so it is its "
                f"default. {self._shown(name)} Trace it again to give more."
            )
        values = bound.arguments
        positional = [values[key] for key in self.positional]
        return (*args[:n], *positional), {key: values[key] for key in self.keywords}

    def paths(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[str]:
        """The names of the leaves of arguments in the form of the traced call."""
        named = zip([*["ctx"] * self.contexts, *self.positional], args, strict=True)
        return [
            name
            for key, one in [*named, *sorted(kwargs.items())]
            for name, _ in named_leaves(key, one)
        ]

    def _shown(self, name: str) -> str:
        words = [*["ctx"] * self.contexts, *self.positional]
        words += [f"{key}=" for key in sorted(self.keywords)]
        return f"It was traced as {name}({', '.join(words)})."


def arguments_of(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Any, statics: Collection[str]
) -> Arguments | None:
    """How a function is called, static arguments left out; None if its signature is unknown."""
    if (signature := signature_of(fun)) is None:
        return None
    parameters = [p for p in signature.parameters.values() if p.name not in statics]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    # Without static parameters, one with a default may come before one without.
    try:
        signature = signature.replace(parameters=parameters)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    names = tuple(bound.arguments)
    return Arguments(signature, names[: len(args)], frozenset(kwargs))


def misfit(name: str, expected: Sequence[str], given: Sequence[str]) -> str:
    """A message about arguments of another structure, with the names of their leaves."""
    told = [
        f"{what} {', '.join(some[:_SHOWN])}{', …' if len(some) > _SHOWN else ''}"
        for what, some in (
            ("lacks", [path for path in expected if path not in given]),
            ("has", [path for path in given if path not in expected]),
        )
        if some
    ]
    if not told:  # for example, containers of another type
        told = ["has containers of other types"]
    return (
        f"{name}: it was traced with other arguments: the call {' and '.join(told)}. Call it as it "
        "was traced, or trace it again."
    )
