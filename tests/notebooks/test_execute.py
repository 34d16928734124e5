"""All notebooks run, on whatever JAX and Jupyter there are.

For environments without nbval; where it is, it also compares the outputs. Those that need other
people's libraries run where these are.
"""

import pytest

pytest.importorskip("nbclient")
from notebooks.test_saved import PATHS, tool


def each_time(path):
    return pytest.param(path, marks=() if path.stem == "quickstart" else pytest.mark.slow)


@pytest.mark.parametrize("path", [each_time(path) for path in PATHS], ids=lambda path: path.stem)
def test_runs(path, monkeypatch):
    if path.stem in tool.WITH_LIBRARIES:
        pytest.importorskip("flax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    tool.executed(path)
