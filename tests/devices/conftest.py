"""Eight devices on the CPU. These tests are a pytest call of their own: the number of devices
cannot change once JAX has started."""

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)


@pytest.fixture(scope="session", autouse=True)
def _eight_devices():
    assert jax.device_count() == 8
