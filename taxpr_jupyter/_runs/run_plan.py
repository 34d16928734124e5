"""`Plan`: the description of one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._tracing.changed import numbers_of


@dataclasses.dataclass(frozen=True)
class Plan:
    """The description of one run.

    Attributes:
        number: The number of the run.
        edition: Counts the changes of the session, see `Session.stale`.
        untouched: The program as traced at first.
        program: The program with the changes of its source.
        edited: The same with the added tags.
        edits: The changes.
        sites: The tags of ``edited``.
        write_code: Writes Python that does the same.
        states: The initial values of the states by name.
        gradients: Whether to compare the gradients of the first result that is a single float.
    """

    number: int
    edition: int
    untouched: taxpr.Program
    program: taxpr.Program
    edits: Edits
    edited: taxpr.Program
    sites: Sequence[SiteRow]
    write_code: Callable[[], str]
    states: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gradients: bool = False

    @property
    def tags(self) -> Any:
        """The added tags, as a hashable object."""
        return tuple((key, *params.items()) for key, params in self.edits.tags.items())

    @property
    def numbers(self) -> Mapping[str, Any]:
        """The numbers of the changes of the source: further arguments of the program."""
        return numbers_of(self.edits.changes)

    @property
    def attached(self) -> dict[str, Attached]:
        """The injectors by key, also those that are edits of the source."""
        return {site.key: site.injector for site in self.sites if site.injector}

    @property
    def injected(self) -> dict[str, Attached]:
        """Those that are injected into the program."""
        return {key: one for key, one in self.attached.items() if not one.edits}

    @property
    def rewritten(self) -> bool:
        """Whether the source was changed."""
        return self.program is not self.untouched
