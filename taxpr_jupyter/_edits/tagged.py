"""A program with its added tags, and facts about it."""

import functools
from collections.abc import Mapping
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.sizes import Size, Sizes
from taxpr_jupyter._analysis.slices import Slices
from taxpr_jupyter._edits.sites import SiteRow, site_rows
from taxpr_jupyter._search.find import Finder
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tracing.sources import source_text


class Tagged:
    """A program with added tags.

    All edits with these tags share one, so what is in here depends on nothing else. Each part is
    made when somebody asks for it.
    """

    def __init__(self, program: taxpr.Program, tags: Mapping[str, Mapping[str, Any]]) -> None:
        for address, params in tags.items():
            program = program.tag_at(address, **params)
        self.program = program
        self._tags = tags
        self._divided: tuple[Any, introspect.Divisions] | None = None

    @functools.cached_property
    def index(self) -> Index:
        """The places of the program."""
        return Index(self.program)

    @functools.cached_property
    def finder(self) -> Finder:
        """Searches the program."""
        return Finder(self.index, source_text)

    @functools.cached_property
    def slices(self) -> Slices:
        """Computes upstream and downstream slices of the program."""
        return Slices(self.index)

    @functools.cached_property
    def rows(self) -> tuple[SiteRow, ...]:
        """All tags in program order, without injectors."""
        if not self.program.tags():  # avoids computing the index
            return ()
        return site_rows(self.program, self.index, self._tags)

    @functools.cached_property
    def letters(self) -> Mapping[Any, str]:
        """The names of the variables."""
        return introspect.var_names(self.program)

    @functools.cached_property
    def held(self) -> HeldVariables:
        """The variables of the source."""
        return HeldVariables(self.program)

    def divided(
        self, known: Mapping[str, introspect.Division] | None = None
    ) -> introspect.Divisions:
        """How its values are divided among devices; the last answer is kept.

        Args:
            known: Divisions by XLA, if it has compiled the program.
        """
        kept = self._divided
        if kept is None or kept[0] is not known:
            kept = self._divided = known, introspect.divisions(self.program, known)
        return kept[1]

    @functools.cached_property
    def costs(self) -> introspect.Costs:
        """Reckons what equations cost."""
        return introspect.Costs()

    @functools.cached_property
    def size(self) -> Size:
        """How much there is in the program."""
        return Sizes().of_jaxpr(self.program)
