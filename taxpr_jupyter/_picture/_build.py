"""From a program to a `Picture`."""

from __future__ import annotations

from collections.abc import Collection

import taxpr
from taxpr_jupyter._picture._drawing import Drawing
from taxpr_jupyter._picture._fold import BUDGET, Fold
from taxpr_jupyter._picture._lines import Line, Lines
from taxpr_jupyter._picture._model import Counts, Picture
from taxpr_jupyter._picture._text import Tooltips, Where


class Builder:
    """Draws one program, again and again: what does not depend on folding is found once.

    Args:
        program: The program. It is only looked at.
        budget: About how many nodes to show. Code too long for it is cut into groups, so the
            addresses of groups depend on it.
        where: Writes the source lines in tooltips, for those who know better than file and line.
    """

    def __init__(
        self, program: taxpr.Program, budget: int = BUDGET, where: Where | None = None
    ) -> None:
        self.program = program
        self._fold = Fold(program, budget)
        self._tooltips = Tooltips(taxpr.var_names(program), where)

    def picture(
        self,
        unfolded: Collection[str] | None = None,
        injected: Collection[str] = frozenset(),
        added: Collection[str] = frozenset(),
    ) -> Picture:
        """The picture: equal for equal programs, in every process.

        Args:
            unfolded: Addresses of the equations and groups that are open; None opens the most
                important ones, as far as the budget goes.
            injected: Addresses of tags that have an injector.
            added: Addresses of tags that were added interactively.
        """
        fold, program = self._fold, self.program
        fold.choose(unfolded)
        drawing = Drawing(fold, self._tooltips, injected, added)
        drawing.program(program)
        eqns, tags = fold.size(program)
        counts = Counts(len(drawing.drawn), drawing.folded, eqns + tags, tags)
        assert counts.drawn + sum(counts.folded.values()) == counts.total, counts
        return Picture(
            name=program.name,
            nodes=tuple(drawing.canvas.nodes),
            edges=tuple(drawing.canvas.edges),
            clusters=tuple(drawing.canvas.clusters),
            counts=counts,
            unfolded=frozenset(drawing.unfolded),
            foldable=frozenset(drawing.foldable),
            note=fold.note,
        )

    def lines(
        self,
        unfolded: Collection[str] | None = None,
        injected: Collection[str] = frozenset(),
        added: Collection[str] = frozenset(),
    ) -> list[Line]:
        """What `picture` shows, as lines; the arguments are the same."""
        self._fold.choose(unfolded)
        return list(Lines(self._fold, self._tooltips, injected, added).folded(self.program))

    def all_lines(
        self, injected: Collection[str] = frozenset(), added: Collection[str] = frozenset()
    ) -> list[Line]:
        """Every equation as a line, in no groups."""
        return list(Lines(self._fold, self._tooltips, injected, added).all(self.program))


def build_picture(
    program: taxpr.Program,
    unfolded: Collection[str] | None = None,
    injected: Collection[str] = frozenset(),
    added: Collection[str] = frozenset(),
    budget: int = BUDGET,
    where: Where | None = None,
) -> Picture:
    """Draws a program once; the arguments are those of `Builder` and `Builder.picture`."""
    return Builder(program, budget, where).picture(unfolded, injected, added)
