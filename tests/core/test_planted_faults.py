"""`first_difference` finds planted faults at their lines, and none in what is sound."""

import jax
import pytest
from planted_faults import FAULTS, PROGRAMS, SOUND, line_of, planted

from taxpr import first_difference


@pytest.fixture(autouse=True)
def promoting():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.spread(4)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0].__name__}: {fault[2]}")
def test_faults_are_found_at_their_lines(fault):
    fn, old, new, *at = fault
    found = first_difference(fn, planted(fn, old, new))(*PROGRAMS[fn])
    assert found.first.line == line_of(fn, *(at or [old])), found


@pytest.mark.parametrize("change", SOUND, ids=lambda change: f"{change[0].__name__}: {change[2]}")
def test_sound_changes_do_not_alarm(change):
    fn, old, new = change
    found = first_difference(fn, planted(fn, old, new))(*PROGRAMS[fn])
    assert not found, found


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_is_run_op_by_op_does_not_alarm(fn):
    found = first_difference(fn, "op by op")(*PROGRAMS[fn])
    assert not found, found
    assert not first_difference(fn, jax.jit(fn))(*PROGRAMS[fn])
