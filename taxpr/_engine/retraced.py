"""Trace a piece again in the place of an equation, and move values between meshes."""

import functools
from collections.abc import Callable, Sequence

import jax

from taxpr import _compat
from taxpr._compat import Atom, Aval, ClosedJaxpr, JaxprEqn, Mesh, Sharding, TreeDef
from taxpr._hops.protocol import Made
from taxpr._jaxprs.splice import Splice


def moved(
    splice: Splice, atoms: Sequence[Atom], shardings: Sequence[Sharding | None]
) -> list[Atom]:
    """Move atoms to shardings on another mesh; None leaves one as it is.

    Where mesh axes have other types, as inside `jax.sharding.auto_axes`, a value from outside must
    be moved before use.
    """
    now = list(atoms)
    for k, sharding in enumerate(shardings):
        if sharding is not None:
            move = functools.partial(_compat.moved_to, sharding=sharding)
            (now[k],) = splice.inline(_compat.make_jaxpr(move)(atoms[k].aval), [atoms[k]])
    return now


def retraced(
    run: Callable[..., Made], avals: Sequence[Aval], eqn: JaxprEqn, mesh: Mesh
) -> tuple[ClosedJaxpr, TreeDef]:
    """The jaxpr of ``run``, traced in place of ``eqn``, and the tree of its results."""
    with _compat.as_traced(eqn, mesh), jax.disable_jit(False):
        jaxpr, shapes = _compat.make_jaxpr_and_shapes(run)(*avals)
    return jaxpr, jax.tree.structure(shapes)


def with_origin(piece: ClosedJaxpr, eqn: JaxprEqn) -> ClosedJaxpr:
    """The jaxpr whose equations have the source, scope and context of ``eqn``."""
    inner = _compat.open_jaxpr(piece)
    eqns = [e.replace(source_info=eqn.source_info, ctx=eqn.ctx) for e in inner.eqns]
    return _compat.rebuilt(piece, eqns=eqns)
