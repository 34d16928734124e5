"""The program object: a function traced once, to be looked at, changed and called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._attach import Attached, attach_function, attach_many, attach_one, check_injector
from taxpr._collect import collected, collector
from taxpr._edit import dissolve_sites, tag_at_address
from taxpr._errors import ArgumentError, SelectorError
from taxpr._inject import ctx_aval
from taxpr._injector import Injector
from taxpr._selectors import select
from taxpr._splice import followed_by
from taxpr._thread import thread
from taxpr._walk import Site, find_sites


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"


_NO_CTX: Any = _NotGiven()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Program:
    """A traced function.

    It is immutable: every method that changes something returns another program. Two
    programs are equal when they are one object. Calling it runs it, and composes with
    `jax.jit`, `jax.grad`, `jax.vmap` and the like.

    Attributes:
        jaxpr: The closed jaxpr.
        in_tree: The treedef of ``(args, kwargs)``.
        out_tree: The treedef of the result.
        in_names: The names of the flat inputs, such as ``"params['w']"``.
        out_names: The names of the flat outputs, such as ``"['loss']"``.
        name: The function's name.
    """

    jaxpr: Any
    in_tree: Any
    out_tree: Any
    in_names: tuple[str, ...]
    out_names: tuple[str, ...]
    name: str

    @property
    def eqns(self) -> Sequence[_compat.JaxprEqn]:
        """The equations of the outermost jaxpr."""
        return _compat.open_jaxpr(self.jaxpr).eqns

    @property
    def invars(self) -> Sequence[Any]:
        """The variables of the flat inputs."""
        return _compat.open_jaxpr(self.jaxpr).invars

    @property
    def outvars(self) -> Sequence[Any]:
        """The variables or literals of the flat outputs."""
        return _compat.open_jaxpr(self.jaxpr).outvars

    @property
    def constvars(self) -> Sequence[Any]:
        """The variables of the values that the function closed over."""
        return _compat.open_jaxpr(self.jaxpr).constvars

    @property
    def consts(self) -> Sequence[Any]:
        """The values that the function closed over."""
        return _compat.consts_of(self.jaxpr)

    @property
    def in_avals(self) -> list[Any]:
        """The avals of the flat inputs."""
        return [var.aval for var in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        """The avals of the flat outputs."""
        return [atom.aval for atom in self.outvars]

    def __repr__(self) -> str:
        tags = len(find_sites(self.jaxpr))
        takes, gives = (
            ", ".join(aval.str_short() for aval in avals)
            for avals in (self.in_avals, self.out_avals)
        )
        return f"<{type(self).__name__} {self.name}({takes}) -> {gives}; {tags} tags>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, without static arguments if it was traced with any.

        Raises:
            ArgumentError: If tree, shapes or dtypes are not those of the trace.
        """
        flat = self._flat(args, kwargs)
        return jax.tree.unflatten(self.out_tree, _compat.jaxpr_as_fun(self.jaxpr)(*flat))

    def _flat(self, args: Any, kwargs: Any) -> list[Any]:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.in_tree:
            raise ArgumentError(
                f"{self.name} was traced with arguments of the structure {self.in_tree} and was "
                f"called with {tree}. Call it as it was traced, or trace it again."
            )
        out = []
        for leaf, aval, name in zip(leaves, self.in_avals, self.in_names, strict=True):
            try:
                array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
            except TypeError:
                raise ArgumentError(
                    f"{self.name}: the argument {name} is a {type(leaf).__name__}, which is no "
                    "array."
                ) from None
            if (array.shape, array.dtype) != (aval.shape, aval.dtype):
                raise ArgumentError(
                    f"{self.name} was traced with {name}: {aval.str_short()} and was called with "
                    f"{jax.typeof(array).str_short()}. Convert it, or trace again."
                )
            out.append(_compat.with_weak_type(array, aval.weak_type))
        return out

    def tags(self, where: Any = None) -> list[Site]:
        """The tags, in program order; ``where`` is a selector, see `find_tags`."""
        sites = find_sites(self.jaxpr)
        return sites if where is None else select(sites, where)

    def tag_at(self, site: str, /, **params: Any) -> Program:
        """A program with one tag more; see `tag_at`."""
        return dataclasses.replace(self, jaxpr=tag_at_address(self.jaxpr, site, params))

    def dissolve(self, where: Any = None) -> Program:
        """A program without the tags that ``where`` selects; None means all."""
        return dataclasses.replace(self, jaxpr=dissolve_sites(self.jaxpr, self.tags(where)))

    def inject(
        self,
        injector: Injector | Callable[..., Any] | Mapping[Any, Any],
        ctx: Any = _NO_CTX,
        *,
        where: Any = None,
    ) -> Injected:
        """Run injectors at tags, with their contexts threaded through the program.

        Args:
            injector: An `Injector` such as ``scale(0.5)``; or a function
                ``(ctx, token, params) -> (token, ctx)``; or a mapping from selectors to
                these, all run in one pass.
            ctx: The context of a function, a PyTree of arrays. An `Injector` has its own.
            where: A selector of tags; None means all. Not with a mapping.

        Returns:
            A program ``(ctx, *args) -> (out, ctx)``, whose ``ctx`` is the context to begin
            with. For a mapping it is a dict with one context for each key.

        Raises:
            SelectorError: If a selector matches nothing, or two match one tag.
            InjectorError: If an injector does not keep token and ctx as they were.
            RefusedError: If a tag is in an equation that cannot be injected.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import add, scale, tag, trace
            >>> def f(x):
            ...     return tag(tag(jnp.sin(x), name="s") + x, name="y")
            >>> program = trace(f)(0.0)
            >>> changed = program.inject({"s": add(1.0), "y": scale(10.0)})
            >>> changed(changed.ctx, 0.0)[0]
            Array(10., dtype=float32, weak_type=True)
        """
        sites = find_sites(self.jaxpr)
        if isinstance(injector, Mapping):
            if ctx is not _NO_CTX or where is not None:
                raise ArgumentError(
                    "inject: with a mapping, neither ctx nor where is given. Its keys are the "
                    "selectors, and a function gets a context by from_function(fn, ctx)."
                )
            return self._injected(attach_many(injector, sites))
        check_injector(injector)
        # That there is nothing to select is an error also where all tags are meant.
        chosen = select(sites, where)
        if not isinstance(injector, Injector):
            return self._injected(attach_function(injector, () if ctx is _NO_CTX else ctx, chosen))
        if ctx is not _NO_CTX:
            raise ArgumentError(f"inject: {injector} has a context of its own; leave out ctx.")
        return self._injected(attach_one(injector, chosen))

    def _injected(self, attached: Attached) -> Injected:
        chosen, ctx, report = attached
        leaves, ctx_tree = jax.tree.flatten(ctx)
        threaded = thread(self.jaxpr, chosen, [ctx_aval(leaf) for leaf in leaves])
        args_tree, kwargs_tree = self.in_tree.children()
        paths = jax.tree_util.tree_flatten_with_path(ctx)[0]
        names = tuple(f"ctx{jax.tree_util.keystr(path)}" for path, _ in paths)
        args = jax.tree.unflatten(args_tree, range(args_tree.num_leaves))
        kwargs = jax.tree.unflatten(kwargs_tree, range(kwargs_tree.num_leaves))
        out = jax.tree.unflatten(self.out_tree, range(self.out_tree.num_leaves))
        return Injected(
            jaxpr=threaded.jaxpr,
            in_tree=jax.tree.structure(((jax.tree.unflatten(ctx_tree, leaves), *args), kwargs)),
            out_tree=jax.tree.structure((out, jax.tree.unflatten(ctx_tree, leaves))),
            in_names=names + self.in_names,
            out_names=self.out_names + names,
            name=self.name,
            ctx=jax.tree.map(_strong_array, ctx),
            report=report,
        )

    def collect(self, where: Any = None) -> Program:
        """A program that also returns the values of tags.

        Args:
            where: A selector of tags; None means all.

        Returns:
            A program ``(*args) -> (out, values)``, where ``values`` maps the name of each
            tag, or its address where it has no name, to its token. Under a scan the values
            of all iterations are stacked on a leading axis, for nested scans on several.
            Under a branch of cond or switch it is a `Masked`, and under a while loop a
            `Last`. A `jax.vmap` inside the traced function is part of the program: its
            branches run both and its while loops run on until all lanes have ended, so
            that tags in there also see lanes that have ended. For what each lane does by
            itself, trace the function of one lane and map the program.

        Raises:
            SelectorError: If nothing is selected, or two tags have one name.
            RefusedError: If a tag is in an equation that cannot be injected.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr import tag, trace
            >>> def f(xs):
            ...     def step(c, x):
            ...         c = tag(c + x, name="c")
            ...         return c, None
            ...     return jax.lax.scan(step, 0.0, xs)[0]
            >>> out, values = trace(f)(jnp.arange(4.0)).collect("c")(jnp.arange(4.0))
            >>> values["c"]
            Array([0., 1., 3., 6.], dtype=float32)
        """
        sites = select(find_sites(self.jaxpr), where)
        keys = _names_of(sites)
        threaded = thread(self.jaxpr, [(site, collector) for site in sites], [])

        def split(flat: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
            _, outs, emits = threaded.unpack(flat)
            values = {keys[s.address]: collected(s, emits[s.address]) for s in sites}
            return jax.tree.unflatten(self.out_tree, outs), values

        piece, shapes = jax.make_jaxpr(split, return_shape=True)(threaded.jaxpr.out_avals)
        paths = jax.tree_util.tree_flatten_with_path(shapes[1])[0]
        names = tuple(f"values{jax.tree_util.keystr(path)}" for path, _ in paths)
        return dataclasses.replace(
            self,
            jaxpr=followed_by(threaded.jaxpr, piece),
            out_tree=jax.tree.structure(shapes),
            out_names=self.out_names + names,
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Injected(Program):
    """A program ``(ctx, *args) -> (out, ctx)``.

    Attributes:
        ctx: The context to begin with.
        report: ``(ctx) -> dict``: what a final context says, for people. For a mapping of
            injectors it has the mapping's keys, and below them the addresses of the tags.
    """

    ctx: Any
    report: Callable[[Any], dict[str, Any]]

    def _flat(self, args: Any, kwargs: Any) -> list[Any]:
        given = jax.tree.structure(args[0]) if args else None
        if given != jax.tree.structure(self.ctx):
            raise ArgumentError(
                f"{self.name} was injected, so that it takes its context first: "
                "injected(injected.ctx, ...). "
                + (f"The first argument has the structure {given}." if args else "")
            )
        return super()._flat(args, kwargs)


def _strong_array(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    return _compat.with_weak_type(jnp.asarray(leaf), False)


def _names_of(sites: Sequence[Site]) -> dict[str, str]:
    """The key of each site among collected values, by address."""
    names: dict[str, Site] = {}
    for site in sites:
        key = str(site.name) if site.name is not None else site.address
        if key in names:
            raise SelectorError(
                f"collect: two tags have the name {key!r}: the {names[key]} and the {site}. "
                "Select one of them by address."
            )
        names[key] = site
    return {site.address: key for key, site in names.items()}
