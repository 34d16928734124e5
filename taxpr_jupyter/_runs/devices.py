"""The devices that can run a program."""

import contextlib
from typing import Any

import jax
from jax.extend import backend

from taxpr_jupyter._errors import PanelError


def devices() -> dict[str, Any]:
    """The devices of this process by name, such as ``cpu:0``, JAX's default first.

    Includes the CPU if the default is an accelerator.
    """
    found: list[Any] = []
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is not None and not isinstance(chosen, str):
        found.append(chosen)
    found += jax.local_devices(backend=chosen if isinstance(chosen, str) else None)
    for platform in backend.backends():
        with contextlib.suppress(RuntimeError):  # a platform without devices in this process
            found += jax.local_devices(backend=platform)
    return {device_name(device): device for device in found}


def device_named(name: str) -> Any:
    """The device with this name.

    Raises:
        PanelError: If there is no such device.
    """
    known = devices()
    if name not in known:
        raise PanelError(f"There is no device {name!r}. There are {', '.join(known)}")
    return known[name]


def device_name(device: Any) -> str:
    """``cpu:0``."""
    return f"{device.platform}:{device.id}"


def placed_on(tree: Any) -> set[Any]:
    """The devices that hold the arrays of a tree."""
    arrays = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    return {device for array in arrays for device in array.sharding.device_set}
