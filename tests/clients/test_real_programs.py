"""The programs of the gallery of pictures: drawn in whole, within the budget, and read as it is.

`check` finds nothing in them.
"""

import pytest
from client_checks import check_identity
from line_ends import misread
from picture_quality import measured
from real_programs import PROGRAMS

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._model.kinds import COMPUTING
from taxpr_jupyter._tree.fold import BUDGET


@pytest.mark.spread(6, "haiku_resnet_block", "numpyro_nuts_step")
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_drawn_within_the_budget(name):
    fn, args = PROGRAMS[name]()
    drawing = draw(taxpr.trace(fn)(*args))
    picture = drawing.picture
    counts = picture.counts
    assert counts.drawn + sum(counts.folded.values()) == counts.total > 0
    assert sum(node.kind in COMPUTING for node in picture.nodes) <= BUDGET
    assert len(picture.nodes) <= 2 * BUDGET  # with the names of what enters and leaves
    assert picture.note == ""
    svg = drawing.svg()
    assert misread(picture, svg) == []
    found = measured(picture, svg)
    assert (found["over"], found["texts"]) == (0, 0)


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_check_raises_no_alarm(name):
    fn, args = PROGRAMS[name]()
    assert not taxpr.check(fn)(*args), taxpr.check(fn)(*args)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["flax_linen_transformer_gradient", "flax_nnx_transformer_gradient", "rnn_by_scan"]
)
def test_what_no_other_test_injects(name):
    fn, args = PROGRAMS[name]()
    check_identity(fn, *args)
