"""`Program`: a function that is traced once, to look at, change and call; and `Injected`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.model import States, Taken
from taxpr._compat import Array, PyTree
from taxpr._engine.collect import Collection, axes_of, collection
from taxpr._engine.inject import options_of, sites_of
from taxpr._errors import AddressError, ArgumentError, SelectorError, a_type
from taxpr._given import NOT_GIVEN, refuse_no_flag
from taxpr._hops.protocol import Shards
from taxpr._injectors.attach import attach_many
from taxpr._injectors.injector import Injector
from taxpr._injectors.parameters import Parameter, with_values
from taxpr._injectors.plant import plant
from taxpr._jaxprs.prune import pruned
from taxpr._jaxprs.trees import named_leaves
from taxpr._programs.edit import dissolve_sites, tag_values
from taxpr._programs.injecting import (
    attached_at,
    check_ctx,
    names_of,
    refuse_more,
    report_of,
    strong_array,
    threaded,
)
from taxpr._programs.placed import known_of, tagged
from taxpr._programs.traced import Traced
from taxpr._sites.criteria import Selector
from taxpr._sites.site import Site
from taxpr._sites.skipped import Skipped, merged
from taxpr._sites.values import Value
from taxpr._sites.walk import find_sites
from taxpr._where.meaning import is_mapping, names_for, said
from taxpr._where.pick import pick_tags
from taxpr._where.select import select, telling

SAY_WHICH = 'tag_at: say which values. A predicate that is always true means all, and so does "*".'


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Program(Traced):
    """A traced function.

    It is immutable: every method that changes something returns another program. Two programs are
    equal only if they are the same object. Calling it runs it, and composes with `jax.jit`,
    `jax.grad`, `jax.vmap` and the like.

    Attributes:
        jaxpr: The closed jaxpr.
        in_tree: The treedef of ``(args, kwargs)``.
        out_tree: The treedef of the result.
        in_names: The names of the flat inputs, such as ``"params['w']"``.
        out_names: The names of the flat outputs, such as ``"['loss']"``.
        name: The function's name.
        arguments: The names of its arguments; None if only positions are known.
        used: The names of tags that injections have used up.
        skipped: Places that selectors skipped because they cannot be injected; see `find_tags`.
        named: The variables of the source; None if they are not known. See `variables`.
        arranged: Puts the values that `collect` adds to the result in the order of execution; None
            without such values.
        closed: The arrays that variables outside of the function hold; see `const_name`.
        door: How the arguments of a call are taken apart; None if all are arrays.
        after: Takes a result, and gives the states of library objects after the call; see
            `states_after`.
        shardings: How the flat inputs were divided, a `jax.sharding.NamedSharding` for each that
            was on a mesh of several devices, else None; () if unknown.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import tag, trace
        >>> program = trace(lambda x: {"y": tag(jnp.sin(x), name="s") * 2})(jnp.ones(3))
        >>> program
        <Program <lambda>(float32[3]) -> float32[3]; 1 tag>
        >>> jax.jit(program)(jnp.zeros(3))
        {'y': Array([0., 0., 0.], dtype=float32)}
    """

    def tags(self, where: Selector = None) -> list[Site]:
        """The tags, in program order.

        Args:
            where: A selector, see `find_tags`; None means all.

        Raises:
            SelectorError: If it matches nothing.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import tag, trace
            >>> program = trace(lambda x: tag(jnp.sin(tag(x, name="x")), name="s"))(1.0)
            >>> [site.address for site in program.tags("s")]
            ['t1']
        """
        return find_sites(self.jaxpr) if where is None else select(self, where, Site).found

    def tag_at(self, where: Selector, /, **params: Any) -> Program:
        """Add a tag to each selected value; returns a new program.

        Args:
            where: An address, the name of an input or output, or another selector of values; see
                `taxpr.tag_at`.
            **params: The params of the tags, as for `tag`.

        Raises:
            AddressError: If there is no such value.
            SelectorError: If nothing is selected.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import trace
            >>> program = trace(lambda x: jnp.sin(x) + 1)(0.0)
            >>> program.tag_at("0:sin", name="s").collect()(0.0)[1]
            {'s': Array(0., dtype=float32)}
        """
        if names_for(where) == "cotangents":
            raise SelectorError(
                f"tag_at: where={where!r}: a cotangent is a use of a value, and that value may "
                "have others, so that a tag at it would mean more. Select it by inject, collect or "
                "plant."
            )
        if where is None:
            raise AddressError(SAY_WHICH)
        where = said(self, where, Value)
        known = known_of(self, where)
        found, skipped = select(self, where, Value, change=True)
        jaxpr = tag_values(self.jaxpr, found, params, known)
        return dataclasses.replace(self, jaxpr=jaxpr, skipped=merged(self.skipped, skipped))

    def dissolve(self, where: Selector = None) -> Program:
        """Remove tags; returns a new program.

        Args:
            where: A selector of tags; None means all.

        Raises:
            SelectorError: If it matches nothing.
            RefusedError: If a tag is in a jaxpr that its equation keeps hidden.

        Example:
            >>> from taxpr import tag, trace
            >>> program = trace(lambda x: tag(tag(x, name="x") + 1, name="y"))(0.0)
            >>> [site.name for site in program.dissolve("x").tags()]
            ['y']
        """
        return dataclasses.replace(self, jaxpr=dissolve_sites(self.jaxpr, self.tags(where)))

    def inject(
        self,
        injector: Injector | Callable[..., Any] | Sequence[Any] | Mapping[Any, Any],
        ctx: PyTree = NOT_GIVEN,
        *,
        where: Selector = None,
        custom_rules: str = "keep",
        shards: Shards = None,
    ) -> Injected:
        """Run injectors at tags, with their contexts threaded through the program.

        Args:
            injector: An `Injector` such as ``scale(0.5)``; or a function
                ``(ctx, token, params) -> (token, ctx)``; or a list of these, which run one
                after the other at each tag; or a mapping from selectors to any of these, all
                run in one pass.
            ctx: The context of a function, a PyTree of arrays. An `Injector` has its own.
            where: A selector, see `find_tags`, or `each` of one, for some iterations; None means
                all tags. A value that has no tag gets one. Not with a mapping.
            custom_rules: ``"keep"`` or ``"drop"``, for `jax.custom_jvp` and `jax.custom_vjp`
                around a tag; see `taxpr.inject`.
            shards: How contexts of the devices in a `jax.shard_map` become one; see
                `taxpr.inject`.

        Returns:
            A program ``(ctx, *args) -> (out, ctx)``, whose ``ctx`` is the initial context. For a
            mapping it is a dict with one context for each key, for a list a tuple with one for
            each injector. The key is the text of the selector, as in ``"h"``; for a `Site` its
            address; for a predicate its qualified name and line, as in ``"<lambda>:12"``, and
            ``"<lambda>:12 #2"`` for a second one there. The injected tags are gone, the others
            stay. You may inject the result again; it then takes the newer context first,
            ``(newer, older, *args) -> ((out, older), newer)``.

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
            >>> in_turn = program.inject({"s": [add(1.0), scale(3.0)]})
            >>> in_turn(in_turn.ctx, 0.0)[0]
            Array(3., dtype=float32, weak_type=True)
            >>> first = program.inject(add(1.0), where="s")
            >>> again = first.inject(scale(10.0), where="y")
            >>> again(again.ctx, first.ctx, 0.0)[0][0]
            Array(10., dtype=float32, weak_type=True)
        """
        options = options_of(custom_rules, shards)
        keys = list(injector) if is_mapping(injector) else None
        program, at = tagged(self, where if keys is None else keys, keys=keys is not None)
        with telling(program, at):
            sites = sites_of(program.jaxpr, options)
            if is_mapping(injector):
                refuse_more(ctx, where)
                attached = attach_many(zip(at, injector.values(), strict=True), sites, options)
            else:
                attached = attached_at(sites, injector, ctx, at, options)
        # First, since it says which leaf of the context is no array.
        jaxpr = threaded(program.jaxpr, attached, options)
        first_ctx = jax.tree.map(strong_array, attached.ctx)
        if keys is not None:  # in the order in which they were given, and JAX has sorted them
            first_ctx = {key: first_ctx[key] for key in attached.ctx}
        args_tree, kwargs_tree = self.in_tree.children()
        names = tuple(name for name, _ in named_leaves("ctx", attached.ctx))
        args = jax.tree.unflatten(args_tree, range(args_tree.num_leaves))
        kwargs = jax.tree.unflatten(kwargs_tree, range(kwargs_tree.num_leaves))
        out = jax.tree.unflatten(self.out_tree, range(self.out_tree.num_leaves))

        def arranged(result: tuple[PyTree, PyTree]) -> PyTree:
            return self._in_order(result[0]), result[1]

        def once_more(other: Program) -> Injected:
            return other.inject(
                injector, ctx, where=where, custom_rules=custom_rules, shards=shards
            )

        return Injected(
            jaxpr=jaxpr,
            in_tree=jax.tree.structure(((attached.ctx, *args), kwargs)),
            out_tree=jax.tree.structure((out, attached.ctx)),
            in_names=names + self.in_names,
            shardings=self.shardings and (None,) * len(names) + self.shardings,
            out_names=self.out_names + names,
            name=self.name,
            first_ctx=first_ctx,
            report=report_of(self.name, attached, options),
            arguments=self.arguments and self.arguments.with_ctx(),
            used=(*self.used, *names_of(site for site, _ in attached.chosen)),
            skipped=merged(self.skipped, attached.skipped),
            before=self,
            once_more=once_more,
            parameters=attached.parameters,
            arranged=arranged,
            closed=self.closed,
            door=self.door and self.door.with_ctx(),
            after=self._after_first(),
        )

    def plant(
        self,
        values: Mapping[Any, Any],
        *,
        at: Any = None,
        custom_rules: str = "keep",
        shards: Shards = None,
    ) -> Program:
        """Replace tagged values by others; returns a new program.

        Args:
            values: A mapping from selectors of tags to values such as `collect` returns for the
                same names, also of variables, such as ``"h#0"``; or to `plant` of values, with
                ``at`` or ``mask`` of their own; or to any other injector.
            at: The iteration to change, as for `plant`; None means all.
            custom_rules: As for `inject`.
            shards: As for `inject`. A `plant` needs none: all devices have the same values, and
                its context stays as it is.

        Returns:
            A program with the arguments and results of this one, with the values as constants. To
            change them without compiling again, use ``program.inject({name: plant(values)})``, or
            make them arguments of a jitted function around this.

        Raises:
            InjectorError: If values do not fit the tags.
            SelectorError: If a selector matches nothing, or two match one tag.
            RefusedError: If a tag is in an equation that cannot be injected.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import tag, trace
            >>> program = trace(lambda x: tag(jnp.sin(x), name="s") + x)(0.0)
            >>> clean = program.collect("s")(0.0)[1]
            >>> program.plant(clean)(5.0)
            Array(5., dtype=float32, weak_type=True)
        """
        if not is_mapping(values):
            raise ArgumentError(
                f"plant: the values are {a_type(values)}. Give a mapping from selectors "
                "of tags to values, such as collect returns: plant({'h': values})."
            )
        planted = self.inject(
            {
                key: value if isinstance(value, Injector) else plant(value, at)
                for key, value in values.items()
            },
            custom_rules=custom_rules,
            shards=shards,
        )
        ctx, n_out = jax.tree.leaves(planted.ctx), self.out_tree.num_leaves

        def run(*flat: Array) -> list[Array]:
            return _compat.jaxpr_as_fun(planted.jaxpr)(*ctx, *flat)[:n_out]

        jaxpr = _compat.make_jaxpr(run)(*self.in_avals)
        return dataclasses.replace(
            self, jaxpr=jaxpr, used=planted.used, skipped=planted.skipped, named=None
        )

    def collect(
        self,
        where: Selector = None,
        *,
        max_steps: int | None = None,
        stack: bool = False,
        custom_rules: str = "keep",
    ) -> Program:
        """Make a program that also returns the values of tags.

        Args:
            where: A selector, as for `inject`; None means all tags.
            max_steps: The number of iterations of while loops to keep, from the first. None keeps
                only the last one.
            stack: Whether several tags may have one name. Their values are stacked on a new leading
                axis, in program order, if structures, shapes and dtypes are equal; otherwise they
                are a tuple. So are those of a variable that held several, in the order in which it
                held them.
            custom_rules: As for `inject`. A value collected in an equation with a kept rule has no
                derivative: reverse mode raises an error, and in forward mode, which computes all
                tangents, its tangent is NaN. The program's own results have derivatives. When the
                program is differentiated, the rule runs, and next to it the part of the function
                that the values need. Effects such as `jax.debug.print` do not happen twice, but an
                `io_callback` whose result a value needs does.

        Returns:
            A program ``(*args) -> (out, values)``, where ``values`` maps the name of each tag, or
            its address if it has no name, to its token, in the order of execution; `jax.jit` and
            the like sort any dict by its keys. Each scan around a tag adds a leading axis for its
            iterations, in the order of the xs, also for a reverse scan. In a
            `jax.shard_map` there is a leading axis for each mesh axis along which the values may
            differ. Under a branch of cond or switch the value is a `Masked`, under a while loop a
            `Last`, or with ``max_steps`` a `Steps`. `axes` names the axes.

            A `jax.vmap` inside the traced function is part of the program: both branches of a cond
            run, and while loops run until all batch elements have ended, so tags also see elements
            that have ended. To see each batch element by itself, trace the function of one element
            and map the program.

        Raises:
            SelectorError: If nothing is selected, or two tags have one name.
            RefusedError: If a tag is in an equation that cannot be injected.
            ArgumentError: If ``max_steps`` is no positive number.

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
        return self._collecting(*self._collection(where, max_steps, stack, custom_rules))

    def _collecting(self, found: Collection, skipped: tuple[Skipped, ...]) -> Program:
        names = tuple(name for name, _ in named_leaves("values", found.shapes[1]))

        def arranged(result: tuple[PyTree, PyTree]) -> PyTree:
            return self._in_order(result[0]), found.in_order(result[1])

        return dataclasses.replace(
            self,
            jaxpr=found.jaxpr,
            out_tree=jax.tree.structure(found.shapes),
            out_names=self.out_names + names,
            skipped=merged(self.skipped, skipped),
            named=None,  # its equations have other addresses
            arranged=arranged,
            after=self._after_first(),
        )

    def _after_first(self) -> Callable[[Any], States] | None:
        """The states of a result that comes first in a pair."""
        after = self.after
        return None if after is None else lambda result: after(result[0])

    def _collection(
        self, where: Selector, max_steps: int | None, stack: bool, custom_rules: str
    ) -> tuple[Collection, tuple[Skipped, ...]]:
        options = options_of(custom_rules)
        refuse_no_flag("collect", stack=stack)
        program, where = tagged(self, where, each=True, stack=stack)
        with telling(program, where):
            sites, skipped = pick_tags(sites_of(program.jaxpr, options), where, change=True)
        found = collection(program.jaxpr, self.out_tree, sites, max_steps, stack, options)
        return found, skipped

    def until(
        self,
        where: Selector = None,
        *,
        max_steps: int | None = None,
        stack: bool = False,
        custom_rules: str = "keep",
    ) -> Program:
        """Make a program that runs only as far as some tags, and returns their values.

        It leaves out the equations after the last of the tags, and those before it that JAX's dead
        code elimination removes, also inside jit, scan, while, cond and remat. Equations with
        effects, such as `jax.debug.print`, and tags made by `keep` stay if they are before the last
        tag or in the same equation.

        Args:
            where: A selector; None means all tags. This and the rest as for `collect`.
            max_steps: How many iterations of while loops are kept; None keeps the last one.
            stack: Whether tags may have one name.
            custom_rules: As for `collect`.

        Returns:
            A program ``(*args) -> values``, the second of the two results of `collect`.

        Raises:
            SelectorError: As for `collect`.
            RefusedError: As for `collect`.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import tag, trace
            >>> program = trace(lambda x: jnp.exp(tag(jnp.sin(x), name="s") * 2))(jnp.zeros(()))
            >>> early = program.until("s")
            >>> early(jnp.zeros(())), [eqn.primitive.name for eqn in early.eqns]
            ({'s': Array(0., dtype=float32)}, ['sin'])
        """
        found, skipped = self._collection(where, max_steps, stack, custom_rules)
        program = self._collecting(found, skipped)
        n_out = self.out_tree.num_leaves
        _, values = jax.tree.unflatten(program.out_tree, range(len(program.outvars)))
        return dataclasses.replace(
            program,
            jaxpr=pruned(program.jaxpr, range(n_out, len(program.outvars))),
            out_tree=jax.tree.structure(values),
            out_names=program.out_names[n_out:],
            arranged=found.in_order,
            after=None,
        )

    def axes(
        self,
        where: Selector = None,
        *,
        max_steps: int | None = None,
        stack: bool = False,
        custom_rules: str = "keep",
    ) -> dict[str, Any]:
        """Name the axes of the values that `collect` returns for the same arguments.

        Args:
            where: A selector; None means all tags. This and the rest as for `collect`.
            max_steps: How many iterations of while loops are kept; None keeps the last one.
            stack: Whether tags may have one name.
            custom_rules: As for `collect`.

        Returns:
            For each name a tuple of strings, or a tree of them for a token of several arrays:
            ``"stack"``; the address of a loop, such as ``"0:scan"``; ``"mesh x"`` for an axis of
            the mesh of a `jax.shard_map`, along which values may differ; ``"vmap 0"`` for a
            `jax.vmap` around the tag, 0 is the outermost; ``"token 0"`` for an axis that the
            tagged function sees. For a `Masked`, `Last` or `Steps` these are the axes of
            ``value``; ``mask`` has some of the leading ones.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr import tag, trace
            >>> def f(xs):
            ...     return jax.lax.map(jax.vmap(lambda x: tag(x * 2, name="h")), xs)
            >>> trace(f)(jnp.ones((5, 3, 2))).axes("h")
            {'h': ('0:scan', 'vmap 0', 'token 0')}
        """
        return axes_of(self._collection(where, max_steps, stack, custom_rules)[0], max_steps)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Injected(Program):
    """A program ``(ctx, *args) -> (out, ctx)``.

    Attributes:
        first_ctx: The leaves and structure of `ctx`.
        report: ``(ctx) -> dict``: makes a readable report of a final context. For a mapping of
            injectors it has the mapping's keys, and below them the addresses of the tags.
        before: The program that was injected.
        once_more: Injects another program in the same way.
        parameters: The parameters of the injectors, which `ctx_with` changes.

    Example:
        >>> from taxpr import count, tag, trace
        >>> counted = trace(lambda x: tag(x * 2, name="y"))(1.0).inject({"y": count()})
        >>> out, ctx = counted(counted.ctx, 3.0)
        >>> counted.report(ctx)
        {'y': {'t0': {'count': Array(1, dtype=int32)}}}
    """

    first_ctx: PyTree
    report: Callable[[PyTree], dict[str, Any]]
    before: Program
    once_more: Callable[[Program], Injected]
    parameters: tuple[Parameter, ...] = ()

    @property
    def ctx(self) -> PyTree:
        """The initial context: a new PyTree each time, so you may change it."""
        leaves, tree = jax.tree.flatten(self.first_ctx)
        return jax.tree.unflatten(tree, leaves)

    def ctx_with(self, key: str | None = None, /, **values: Any) -> PyTree:
        """The initial context with other values of the injectors' parameters.

        The program stays the same, so nothing is traced or compiled again. The values may be mapped
        by `jax.vmap` or differentiated by `jax.grad`.

        Args:
            key: For a mapping of injectors, the key of one of them. Needed if several have a
                parameter with this name.
            **values: The parameters, such as ``factor=0.5``, with the shape and dtype that they
                have; or a number for all elements.

        Raises:
            ArgumentError: If there is no such parameter, or more than one, or a value does not
                fit.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr import scale, tag, trace
            >>> program = trace(lambda x: tag(x, name="x") + 1)(1.0).inject({"x": scale(0.5)})
            >>> def scaled(factor):
            ...     return program(program.ctx_with(factor=factor), 1.0)[0]
            >>> jax.vmap(scaled)(jnp.arange(3.0)).tolist()
            [1.0, 2.0, 3.0]
        """
        return with_values(self.ctx, self.parameters, key, values)

    def _flat(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[list[Array], Taken]:
        check_ctx(self.name, args, self.first_ctx, "injected(injected.ctx, ...)")
        return super()._flat(args, kwargs)
