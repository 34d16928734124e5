"""The store of texts that the processes of `jax.distributed` share, and the mesh with devices."""

from typing import Any

import jax

from taxpr._compat._private import private

_distributed = private("distributed")
_mesh = private("mesh")


def process_store() -> Any:
    """The store of messages between processes; None without other processes.

    It has `key_value_set`, `blocking_key_value_get` and `key_value_delete`. JAX makes no client of
    its coordinator public.
    """
    return None if jax.process_count() == 1 else _distributed.global_state.client


def devices_here() -> list[Any]:
    """The devices of the mesh that `jax.set_mesh` has set; none without."""
    mesh = _mesh.get_concrete_mesh()
    return [] if mesh is None or mesh.empty else list(mesh.devices.flat)
