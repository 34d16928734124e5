"""A call in a `jax.shard_map`, run alone."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from taxpr import _compat
from taxpr._compat import JaxprEqn, Var
from taxpr._derivatives.finite_differences import is_float
from taxpr._untyped import lax as _lax


def spread_again(
    spread: Sequence[JaxprEqn], invars: Sequence[Var], run: Callable[..., Sequence[Any]]
) -> Callable[..., list[Any]]:
    """A function of one device's operands, which all devices run together.

    All get the same operands, and a result is the mean of theirs. So mesh axes have their sizes,
    collectives have their partners, and types say along which axes values vary.

    Args:
        spread: The equations of `jax.shard_map` around the call, the outermost first.
        invars: The operands of the call, with their types.
        run: The call.

    Returns:
        The function; None for each result that is not a float of 32 or 64 bits.
    """
    manual = frozenset[str]().union(*map(_compat.manual_axes, spread))
    checked = spread[-1].params["check_vma"]

    def mean(out: Any) -> Any:
        axes = [name for name in manual if not checked or name in _compat.varying(out)]
        return None if not is_float(out) else _lax.pmean(out, axes) if axes else out

    def body(*operands: Any) -> list[Any]:
        given = [
            _compat.pvary(x, sorted(_compat.varying(var.aval) - _compat.varying(x)))
            for x, var in zip(operands, invars, strict=True)
        ]
        return list(map(mean, run(*given)))

    return jax.shard_map(
        body,
        mesh=spread[0].params["mesh"],
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        axis_names=manual,
        check_vma=checked,
    )
