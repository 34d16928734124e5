"""From a program to a `Picture`."""

from __future__ import annotations

from collections.abc import Collection

import taxpr
from taxpr_jupyter._picture._compared import Compared
from taxpr_jupyter._picture._drawing import Drawing
from taxpr_jupyter._picture._fold import Fold
from taxpr_jupyter._picture._model import Counts, Picture
from taxpr_jupyter._picture._text import Tooltips, Where


def build_picture(
    program: taxpr.Program,
    unfolded: Collection[str] | None = None,
    injected: Collection[str] = frozenset(),
    added: Collection[str] = frozenset(),
    budget: int = 300,
    where: Where | None = None,
    compared: Compared | None = None,
) -> Picture:
    """Draws a program.

    Args:
        program: The program. It is only looked at.
        unfolded: Addresses of the equations and groups that are open; None opens, from the outside
            in, what fits the budget.
        injected: Addresses of tags that have an injector.
        added: Addresses of tags that were added interactively.
        budget: About how many nodes to show. Jaxprs too long for it are cut into groups, so the
            addresses of groups depend on it.
        where: Writes the source lines in tooltips, for those who know better than file and line.
        compared: What this program is compared with. Then what is different is open and marked.

    Returns:
        The picture: equal for equal programs, in every process.
    """
    fold = Fold(program, unfolded, budget, compared.wants if compared else None)
    drawing = Drawing(fold, Tooltips(taxpr.var_names(program), where), injected, added)
    drawing.program(program)
    eqns, tags = fold.size(program)
    counts = Counts(len(drawing.drawn), drawing.folded, eqns + tags, tags)
    assert counts.drawn + sum(counts.folded.values()) == counts.total, counts
    picture = Picture(
        name=program.name,
        nodes=tuple(drawing.canvas.nodes),
        edges=tuple(drawing.canvas.edges),
        clusters=tuple(drawing.canvas.clusters),
        counts=counts,
        unfolded=frozenset(drawing.unfolded),
        foldable=frozenset(drawing.foldable),
        note=fold.note,
    )
    return compared.marked(picture, fold.root) if compared else picture
