"""Settings of JAX for all tests: strict about dtypes and ranks, with internal checks on."""

import os
import sys
import threading
from zlib import crc32

# Before jax is imported: tests must not depend on what accelerators a machine has.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

jax.config.update("jax_enable_checks", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="session")
def _no_thread_is_left():
    """Python aborts if it ends while a thread that nobody waits for is in code of XLA."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("taxpr"):
            thread.join(60)


@pytest.fixture
def switches_often():
    """Threads switch after each few instructions, for tests of what they do to each other."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def cache_on_disk(tmp_path):
    """JAX keeps what it compiles in this folder."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks once whether there is a folder
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow the cases that a test with the mark `spread(n, *names)` leaves out.

    A case is chosen by its name, not by its number, which may go up and down with one argument.
    Those that are named run each time.
    """
    seen = set()
    for item in items:
        if spread := item.get_closest_marker("spread"):
            test = item.nodeid.partition("[")[0]
            one_of, *always = spread.args
            chosen = not crc32(item.nodeid.encode()) % one_of
            chosen |= item.nodeid.endswith(tuple(f"[{case}]" for case in always))
            if test in seen and not chosen:
                item.add_marker("slow")
            seen.add(test)
