"""What nbval does not compare: pictures, and pages and messages made for people.

The cells that are checked print a canonical text.
"""

import pytest


def pytest_collectstart(collector: pytest.Collector) -> None:
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("image/svg+xml", "text/html", "stderr")
