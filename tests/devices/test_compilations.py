"""Why functions are compiled again, on several devices; see tests/core/test_compilations.py."""

import pytest
from compiled_again import SHARDED, causes


@pytest.mark.parametrize("name", SHARDED)
def test_each_cause_is_named(name):
    run, expected = SHARDED[name]
    assert causes(run) == expected
