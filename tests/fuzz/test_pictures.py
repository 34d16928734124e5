"""Random programs, folded and unfolded at random: pictures that are complete and can be read.

How many: `fuzz.amount`.
"""

from collections import Counter

import jax
import pytest
from fuzz.amount import PROGRAMS, SEED
from fuzz.build import as_source, build
from fuzz.generate import choices, program_of
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

import taxpr
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.fold import HARD_LIMIT
from taxpr_jupyter._tree.refold import refolded

STEPS = 8
BUDGETS = (8, 25, 60)


@pytest.mark.timeout(1800)  # shrinking a failure takes long
@seed(f"{SEED} pictures")
@settings(
    max_examples=max(1, PROGRAMS // 40),
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    phases=[Phase.generate, Phase.shrink],
)
@given(choices(), st.sampled_from(BUDGETS), st.booleans(), st.randoms(use_true_random=False))
def test_no_sequence_of_folds_loses_anything(tape, budget, differentiated, random):
    made = program_of(tape, reversible=differentiated)
    note(as_source(made))
    fn, args = build(made)
    if differentiated:
        fn = _gradient(fn)
    program = taxpr.trace(fn)(*args)
    equations = _equations(program)
    builder = Builder(program, budget)
    now, picture = None, builder.picture()
    # A quarter more, where less than half of it would be used without. A tag is on another node.
    nodes = [node for node in picture.nodes if not node.on]
    assert len(nodes) <= 1.25 * budget or not _opened(picture), "more than the budget"
    for _ in range(STEPS):
        _check(picture, equations)
        if not picture.foldable:
            break
        address = random.choice(sorted(picture.foldable))
        note(f"{address} {'closed' if address in picture.unfolded else 'opened'}")
        before = picture
        now = refolded(picture, address, address not in picture.unfolded)
        picture = builder.picture(now)
        assert (picture.unfolded != before.unfolded) or picture.note
    assert picture == Builder(program, budget).picture(now)  # what was drawn before is forgotten


def _gradient(fn):
    def gradient(*args):
        out, transposed = jax.vjp(fn, *args)
        return transposed(out)

    return gradient


def _opened(picture):
    return [address for address in picture.unfolded if ":in" not in address]


def _equations(program):
    """All equations by address, through every nested jaxpr."""
    found = {}

    def walk(jaxpr, prefix):
        for local, eqn in taxpr.numbered(jaxpr):
            found[f"{prefix}{local}"] = eqn
            for nested in taxpr.nested_jaxprs(eqn):
                walk(nested.jaxpr, f"{prefix}{local}/{nested.label}/")

    walk(program, "")
    return found


def _check(picture, equations):
    # Every equation is drawn, or folded into a node.
    counts = picture.counts
    assert counts.total == len(equations)
    assert counts.drawn + sum(counts.folded.values()) == len(equations)
    nodes = {node.id: node for node in picture.nodes}
    assert counts.folded.keys() <= nodes.keys()
    assert all(picture.element_of(address) is not None for address in equations)
    # No edge ends nowhere.
    clusters = {cluster.id for cluster in picture.clusters}
    for edge in picture.edges:
        assert {edge.source, edge.target, *edge.also} <= nodes.keys()
        assert {edge.into, edge.out_of} <= {None, *clusters}
    assert len(nodes) == len(picture.nodes)
    # It can be laid out, or says what to do.
    assert len(nodes) <= HARD_LIMIT or picture.note
    _check_order(picture, nodes, equations)


def _check_order(picture, nodes, equations):
    """It can be read which operand is which, and which result."""
    heads, tails = {}, {}
    for edge in picture.edges:
        if edge.kind in ("value", "residual"):
            heads.setdefault(edge.target, []).append(edge.head)
            tails.setdefault(edge.source, []).append(edge.tail)
    for node in picture.nodes:
        eqn = equations.get(node.address)
        if node.kind != "eqn" or node.id != node.address or eqn is None:
            continue
        values = {str(k) for k, atom in enumerate(eqn.invars) if not taxpr.is_literal(atom)}
        if labels.ordered(eqn):
            said = Counter(part for head in heads[node.id] for part in head.split(", "))
            assert said.keys() == values, node.id
        if len(values) < len(eqn.invars):
            assert node.lines[0].count(",") >= len(eqn.invars) - 1 or "…" in node.lines[0]
        if len(eqn.outvars) > 1:
            assert all(tails.get(node.id, [])), node.id
