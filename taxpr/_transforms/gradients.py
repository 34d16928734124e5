"""`grad_at`: gradients with respect to tagged values."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr, JaxprEqn, PyTree
from taxpr._engine.collect import Masked, by_name, collection, together
from taxpr._engine.handler import Handled, Handler
from taxpr._engine.inject import divided, options_of, sites_of
from taxpr._engine.iterations import refuse_unless_plain
from taxpr._engine.memo import made_of
from taxpr._engine.thread import thread
from taxpr._errors import ArgumentError, RefusedError, SelectorError
from taxpr._hops.protocol import Options
from taxpr._primitives.cotangent import mark_cotangent
from taxpr._primitives.tag_equation import tag_tree
from taxpr._programs.placed import tagged
from taxpr._programs.program import Program
from taxpr._programs.static_arguments import has_statics, with_statics
from taxpr._programs.trace import Tracing, called_as, trace
from taxpr._sites.criteria import Selector
from taxpr._sites.site import Site, around, described
from taxpr._where.pick import pick_tags
from taxpr._where.select import telling

_MARK = "taxpr.grad_at"


def grad_at(
    fun: Any, where: Selector = None, *, stack: bool = False, custom_rules: str = "keep"
) -> Callable[..., dict[str, Any]]:
    """The gradient of a function's scalar result with respect to tagged values.

    It says how the result changes if something is added to the value, at each firing.

    Args:
        fun: A function of PyTrees of arrays, or a `Program`, that returns one real scalar.
        where: A selector, as for `inject`; None means all tags.
        stack: Whether tags may have one name, as for `Program.collect`.
        custom_rules: As for `inject`. A tag in a rule that is kept has no gradient; with
            ``"drop"`` the functions themselves are differentiated around the tags selected.

    Returns:
        A function ``(*args) -> {name: gradient}``. A gradient has the tagged value's structure,
        shapes and dtypes, with the leading axes that `collect` gives its values: one for each scan.
        If a branch was not taken, it is zero. For complex values it is the conjugate, as for
        `jax.grad`. In a `jax.shard_map` each device adds to its own value, or all devices add the
        same if JAX knows the value to be equal on them. There is a leading axis for each mesh axis
        along which the gradient may differ, which may be fewer than the value has.

    Raises:
        ArgumentError: If the function does not return one real scalar.
        SelectorError: If nothing is selected, a value has no derivative, such as integers, or two
            tags have one name.
        RefusedError: If a tag is in a while loop, which has no reverse mode, in a custom rule that
            is kept, in a `jax.shard_map` with ``check_vma=False``, or in an equation that cannot be
            injected.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import grad_at, tag
        >>> def f(xs):
        ...     return jax.lax.scan(lambda c, x: (tag(c * x, name="c"), None), 1.0, xs)[0]
        >>> grad_at(f, "c")(jnp.asarray([2.0, 3.0, 4.0]))
        {'c': Array([12.,  4.,  1.], dtype=float32)}
    """
    options = options_of(custom_rules)
    if isinstance(fun, Program):
        return lambda *args, **kwargs: _gradients(fun, where, stack, options, args, kwargs)
    if has_statics(fun):

        def of(bound: dict[str, Any]) -> Any:
            return grad_at(bound["f"], where, stack=stack, custom_rules=custom_rules)

        return called_as(fun)(with_statics(of, {"f": fun}))
    tracing = Tracing(fun, where)

    @called_as(fun)
    def gradients(*args: PyTree, **kwargs: PyTree) -> dict[str, Any]:
        def ask(program: Program) -> dict[str, Any]:
            return _gradients(program, where, stack, options, args, kwargs)

        return tracing.ask(ask, args, kwargs)

    return gradients


def _gradients(
    program: Program,
    where: Selector,
    stack: bool,
    options: Options,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> dict[str, Any]:
    """Mark the cotangents of the tokens, and collect them from the backward pass."""
    _check_result(program)
    program, where = tagged(program, where, each=True, stack=stack)
    with telling(program, where):
        sites = pick_tags(sites_of(program.jaxpr, options), where, change=True).found
    for site in sites:
        _check_site(site, options)
    named = by_name("grad_at", sites, stack)
    gate, flat = _compat.on_mesh_here(jnp.float32(0)), program.flat(args, kwargs)
    key = ("grad_at", options.custom_rules, tuple(map(jax.typeof, flat)))
    backward = made_of(
        program.jaxpr, sites, key, lambda: _backward(program, sites, options, gate, flat)
    )
    found = backward.gradients(gate, *flat)
    values: dict[str, Any] = {}
    for name, group in named.items():
        each = [
            _plain(found[site.address])
            if site.address in found
            else _no_gradient(program, site, options)
            for site in group
        ]
        values[name], _ = together(each)
    return values


@dataclasses.dataclass(frozen=True)
class _Backward:
    """The backward pass.

    Attributes:
        program: From the gate and the flat inputs to the collected gradients, if there are any.
        marked: Whether there are gradients to collect.
    """

    program: Program
    marked: bool

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.program.jaxpr

    def gradients(self, *flat: Array) -> dict[str, Any]:
        return self.program(*flat)[1] if self.marked else {}


def _backward(
    program: Program, sites: Sequence[Site], options: Options, gate: Array, flat: Sequence[Array]
) -> _Backward:
    this = object()  # so that only the marks that are made here are found
    chosen = [(site, _marking(site.address, this)) for site in sites]
    options = dataclasses.replace(options, unchanged=frozenset({0}))
    threaded = thread(program.jaxpr, chosen, [jax.typeof(gate)], options)

    def opened(gate: Array, *flat: Array) -> Any:
        return _compat.jaxpr_as_fun(threaded.jaxpr)(gate, *flat)[0]

    backward = trace(_compat.grad(opened))(gate, *flat)
    if not any(_is_mark(site, this) for site in backward.tags()):
        return _Backward(backward, False)
    return _Backward(backward.collect(functools.partial(_is_mark, this=this)), True)


def _is_mark(site: Site, this: object) -> bool:
    return site.params.get(_MARK) is this


def _marking(address: str, this: object) -> Handler:
    def run(found_at: str, eqn: JaxprEqn, ctx: list[Array], token: list[Array]) -> Handled:
        user = (("name", address), (_MARK, this))
        # Of what devices have parts of the gradient is that of what these make together.
        token, parts = [_compat.whole(leaf) for leaf in token], token
        # What flows back into the gate differs as the token does.
        axes = sorted({name for leaf in token for name in _compat.varying(leaf)})
        gate = _compat.pvary(ctx[0], [n for n in axes if n not in _compat.varying(ctx[0])])
        marked = mark_cotangent(jax.tree.unflatten(tag_tree(eqn), token), user, gate)
        what = f"grad_at: {described(found_at, eqn)} asks for the gradient of"
        return ctx, [divided(*one, what) for one in zip(marked, token, parts, strict=True)], None

    return Handler(run)


def _plain(value: Any) -> Any:
    """A gradient without its mask: it is zero if a branch was not taken."""
    return value.value if isinstance(value, Masked) else value


def _no_gradient(program: Program, site: Site, options: Options) -> Any:
    """Zeros, for a value that the result does not depend on."""
    shapes = collection(program.jaxpr, program.out_tree, [site], None, False, options).shapes
    [value] = shapes[1].values()

    def zeros(x: jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros(x.shape, x.dtype)

    return jax.tree.map(zeros, _plain(value))


def _check_result(program: Program) -> None:
    avals = jax.tree.leaves(program.result(program.out_avals))
    if len(avals) != 1 or avals[0].shape != () or not jnp.issubdtype(avals[0].dtype, jnp.floating):
        shown = ", ".join(aval.str_short() for aval in avals) or "nothing"
        raise ArgumentError(
            f"grad_at: {program.name} returns {shown}. Only a single real scalar has a gradient."
        )


def _check_site(site: Site, options: Options) -> None:
    refuse_unless_plain("grad_at", site, len(site.steps), options)
    for address, step in around(site.steps):
        if step.eqn.primitive is _compat.shard_map_p and not step.eqn.params["check_vma"]:
            raise RefusedError(
                f"grad_at: the {site} is in {described(address, step.eqn)}, with check_vma=False. "
                "JAX does not know there which values are the same on all devices, so that each "
                "device may have only a share of the gradient. Give check_vma=True, or select "
                "other tags with where=."
            )
        if step.is_while:
            raise RefusedError(
                f"grad_at: the {site} is in the loop {described(address, step.eqn)}, through which "
                "JAX has no reverse mode. A fori_loop of a fixed number of iterations is a scan "
                "and has one."
            )
    for aval in jax.tree.leaves(site.avals):
        if not jnp.issubdtype(aval.dtype, jnp.inexact):
            raise SelectorError(
                f"grad_at: the token of the {site} holds a {aval.str_short()}, which has no "
                "derivative. Select other tags with where=, or tag the floats alone."
            )
