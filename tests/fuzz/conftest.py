"""Settings with which many random programs take less time.

JAX's own checks look at each jaxpr that is traced, and each rewritten program is checked by JAX's
type checker anyway: they are on in the first chunk of each test.
"""

import gc

import jax
import pytest


@pytest.fixture(autouse=True, scope="session")
def _rarely_collected():
    """What was imported is never garbage, and looking through it takes a tenth of the time."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _checks_of_jax(request):
    """In no other chunk than the first, nor up to 0.11: there they fail for a closed_call, which
    JAX's own rules leave behind, once that is mapped; and for numpy arrays that it takes elsewhere.
    """
    chunk = getattr(request.node, "callspec", None)
    first = chunk is None or not chunk.params.get("chunk")
    before = jax.config.jax_enable_checks
    jax.config.update("jax_enable_checks", before and first and jax.__version_info__ >= (0, 12))
    yield
    jax.config.update("jax_enable_checks", before)
