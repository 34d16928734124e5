"""`Plan`: the description of one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow


@dataclasses.dataclass(frozen=True)
class Plan:
    """The description of one run.

    Attributes:
        number: The number of the run.
        edition: Counts the changes of the session, see `Session.stale`.
        untouched: The program as traced at first.
        program: The program with the changes of its source.
        edited: The same with the added tags.
        sites: The tags of ``edited``.
        code: Python that does the same.
        tags: The added tags, as a hashable object.
        states: The initial values of the states by name.
        watched: The writes to the states, as in `Edits`.
        numbers: Further arguments of the program: the numbers of the changes of its source.
        gradients: Whether to compare the gradients of the first result that is a single float.
    """

    number: int
    edition: int
    untouched: taxpr.Program
    program: taxpr.Program
    edited: taxpr.Program
    sites: Sequence[SiteRow]
    code: str
    tags: Any
    states: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    watched: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(default_factory=dict)
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gradients: bool = False

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
