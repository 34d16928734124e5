"""The arguments of a traced function, by position or by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from taxpr._compat import PyTree
from taxpr._errors import ArgumentError
from taxpr._jaxprs.trees import named_leaves

_SHOWN = 5  # names in a message


@dataclasses.dataclass(frozen=True)
class Arguments:
    """How a function was called when it was traced, static arguments left out.

    Attributes:
        signature: Its parameters, without those.
        positional: The names of what was given by position, in order.
        keywords: The names of what was given by name.
        contexts: How many contexts injections have put before them.
    """

    signature: inspect.Signature
    positional: tuple[str, ...]
    keywords: frozenset[str]
    contexts: int = 0

    def with_ctx(self) -> Arguments:
        """Those after an injection."""
        return dataclasses.replace(self, contexts=self.contexts + 1)

    def arranged(
        self, name: str, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[Any, Any]:
        """The arguments of a call, each given as it was when tracing.

        What was left out takes the function's default.

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
                f"{name}: {', '.join(more)} was left out when it was traced, and so is what its "
                f"default is. {self._shown(name)} Trace it again to give more."
            )
        values = bound.arguments
        positional = [values[key] for key in self.positional]
        return (*args[:n], *positional), {key: values[key] for key in self.keywords}

    def paths(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[str]:
        """The names of the leaves of arguments that are given as they were when tracing."""
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
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Any, statics: Collection[str]
) -> Arguments | None:
    """How a function is called; None where its signature does not tell names from positions.

    Args:
        fn: The function.
        args: The positional arguments, static ones left out.
        kwargs: The keyword arguments, static ones left out.
        statics: The names of the static ones.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none
        return None
    parameters = [p for p in signature.parameters.values() if p.name not in statics]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    # Without the static ones a parameter with a default may come before one without.
    try:
        signature = signature.replace(parameters=parameters)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    names = tuple(bound.arguments)
    return Arguments(signature, names[: len(args)], frozenset(kwargs))


def misfit(name: str, expected: Sequence[str], given: Sequence[str]) -> str:
    """What is said of arguments of another structure, by the names of their leaves."""
    told = [
        f"{what} {', '.join(some[:_SHOWN])}{', …' if len(some) > _SHOWN else ''}"
        for what, some in (
            ("lacks", [path for path in expected if path not in given]),
            ("has", [path for path in given if path not in expected]),
        )
        if some
    ]
    if not told:  # containers of another type, say
        told = ["has containers of other types"]
    return (
        f"{name}: it was traced with other arguments: the call {' and '.join(told)}. Call it as it "
        "was traced, or trace it again."
    )
