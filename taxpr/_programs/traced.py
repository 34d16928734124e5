"""`Traced`: the data of a program, its call, and its source."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._calls.door import Door
from taxpr._calls.model import Held, States, Taken
from taxpr._compat import Array, Atom, Aval, ClosedJaxpr, JaxprEqn, PyTree, TreeDef, Var
from taxpr._devices.fetched import refuse_closed_over
from taxpr._engine.donation import donates
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._given import refuse_no_text
from taxpr._programs.arguments import Arguments, misfit
from taxpr._programs.closed import Closed, identity
from taxpr._programs.divided import divisions
from taxpr._programs.inputs import as_input, input_struct, on_devices
from taxpr._programs.listing import Listing, listing
from taxpr._sites.made_by import PlacedEquation
from taxpr._sites.skipped import Skipped
from taxpr._sites.walk import find_sites
from taxpr._variables.select import Var as VarSelector
from taxpr._variables.select import meaning
from taxpr._variables.table import Variables
from taxpr._variables.variable import Variable

_SHOWN = 8  # types in a repr


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Traced:
    """The base of `Program`: a jaxpr with the trees and names of its arguments and results."""

    jaxpr: ClosedJaxpr
    in_tree: TreeDef
    out_tree: TreeDef
    in_names: tuple[str, ...]
    out_names: tuple[str, ...]
    name: str
    arguments: Arguments | None = dataclasses.field(default=None, kw_only=True)
    used: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    skipped: tuple[Skipped, ...] = dataclasses.field(default=(), kw_only=True)
    named: Variables | None = dataclasses.field(default=None, kw_only=True, repr=False)
    arranged: Callable[[Any], PyTree] | None = dataclasses.field(default=None, kw_only=True)
    closed: Closed = dataclasses.field(default_factory=dict[Any, Any], kw_only=True)
    door: Door | None = dataclasses.field(default=None, kw_only=True)
    after: Callable[[Any], States] | None = dataclasses.field(default=None, kw_only=True)
    shardings: tuple[Any, ...] = dataclasses.field(default=(), kw_only=True, repr=False)

    @property
    def eqns(self) -> Sequence[JaxprEqn]:
        """The equations of the outermost jaxpr."""
        return _compat.open_jaxpr(self.jaxpr).eqns

    @property
    def invars(self) -> Sequence[Var]:
        """The variables of the flat inputs."""
        return _compat.open_jaxpr(self.jaxpr).invars

    @property
    def outvars(self) -> Sequence[Atom]:
        """The variables or literals of the flat outputs."""
        return _compat.open_jaxpr(self.jaxpr).outvars

    @property
    def constvars(self) -> Sequence[Var]:
        """The variables of the values that the function closed over."""
        return _compat.open_jaxpr(self.jaxpr).constvars

    @property
    def consts(self) -> Sequence[Array]:
        """The values that the function closed over."""
        return _compat.consts_of(self.jaxpr)

    def const_name(self, value: object) -> str:
        """The variable outside of the function that is a constant, also of a nested jaxpr.

        Args:
            value: The constant.

        Returns:
            Its name, with the path if the variable holds an object, ``"env.sys.gravity"``; "" if
            none is known, or two variables hold the constant.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import trace
            >>> table = jnp.arange(3.0)
            >>> def f(x):
            ...     return x * table
            >>> program = trace(f)(1.0)
            >>> [program.const_name(one) for one in program.consts]
            ['table']
        """
        name, reference = self.closed.get(identity(value), ("", lambda: None))
        # Another array may have the place in memory of one that is gone.
        return name if reference() is not None else ""

    @property
    def in_avals(self) -> list[Aval]:
        """The avals of the flat inputs."""
        return [_compat.aval_of(var) for var in self.invars]

    @property
    def out_avals(self) -> list[Aval]:
        """The avals of the flat outputs."""
        return [_compat.aval_of(atom) for atom in self.outvars]

    def __repr__(self) -> str:
        tags = count_of(len(find_sites(self.jaxpr)), "tag")
        if n := sum(len(one.addresses) for one in self.skipped):
            tags += f", {n} skipped"
        takes, gives = (
            ", ".join([aval.str_short() for aval in avals[:_SHOWN]] + _more(len(avals)))
            for avals in (self.in_avals, self.out_avals)
        )
        return f"<{type(self).__name__} {self.name}({takes}) -> {gives}; {tags}>"

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the program, without static arguments if it was traced with any.

        Arguments may be given by position or by name, and missing ones take their defaults, as for
        the function itself.

        The equations run one by one, as in a plain function. If the arguments are on a mesh with
        explicit axes that `jax.set_mesh` has not set, the program is compiled, because only the
        arguments have the devices.

        Raises:
            ArgumentError: If structure, shapes or dtypes differ from the trace.
        """
        flat, taken = self._flat(args, kwargs)
        out = self.outputs(flat)
        if self.door is not None and self.after is not None:
            self.door.put(self.name, taken, self._after(out))
        return self.result(out)

    def outputs(self, flat: Sequence[Array]) -> list[Array]:
        """The flat outputs of a call, which changes no object.

        Args:
            flat: The flat inputs, see `flat`.
        """
        if not _compat.brings_mesh(flat):
            return _compat.jaxpr_as_fun(self.jaxpr)(*flat)
        refuse_closed_over(self.name, self.consts)
        return self._compiled(*flat)

    def result(self, flat: Sequence[Any]) -> PyTree:
        """The result of a call, of its flat outputs.

        Args:
            flat: The flat outputs.
        """
        return self._in_order(jax.tree.unflatten(self.out_tree, flat))

    def states_after(self, flat: Sequence[Any]) -> dict[str, PyTree]:
        """The arrays of objects among the arguments, and of other states, after a call.

        Args:
            flat: The flat outputs.

        Returns:
            The arrays that the call changed, by the names of the objects and their own, such as
            ``"model.norm.mean"``.
        """
        held = (Held(label, own) for label, own in self._after(flat).items())
        return {name: x for one in held for name, x in one.named().items()}

    def _after(self, flat: Sequence[Any]) -> States:
        return {} if self.after is None else self.after(jax.tree.unflatten(self.out_tree, flat))

    def _in_order(self, result: PyTree) -> PyTree:
        return result if self.arranged is None else self.arranged(result)

    @functools.cached_property
    def _compiled(self) -> Callable[..., list[Array]]:
        return _compat.compiled_for_mesh(self.jaxpr)

    def flat(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[Array]:
        """The flat inputs of a call with these arguments, checked and converted.

        Args:
            args: The positional arguments.
            kwargs: The keyword arguments.

        Raises:
            ArgumentError: If tree, shapes or dtypes differ from the trace.
        """
        return self._flat(args, kwargs)[0]

    def _take(self, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Taken:
        return Taken(args, kwargs) if self.door is None else self.door.take(args, kwargs)

    def _flat(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[list[Array], Taken]:
        """The flat inputs of a call, and its arguments as they were taken apart."""
        leaves, taken = self._leaves(args, kwargs)
        rows = zip(self.in_names, leaves, self.in_avals, strict=True)
        return [as_input(self.name, *row, self._donates) for row in rows], taken

    def _leaves(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[list[Any], Taken]:
        """The leaves of a call's arguments, and the arguments as they were taken apart."""
        taken = self._take(args, kwargs)
        leaves, tree = jax.tree.flatten((taken.args, dict(taken.kwargs)))
        if tree != self.in_tree and self.arguments is not None:
            taken = self._take(*self.arguments.arranged(self.name, args, kwargs))
            leaves, tree = jax.tree.flatten((taken.args, dict(taken.kwargs)))
            if tree != self.in_tree:
                own = self.door.given(taken) if self.door else taken.args
                given = self.arguments.paths(own, dict(taken.kwargs))
                raise ArgumentError(misfit(self.name, self.in_names, given))
        if self.door is not None:
            self.door.refuse_others(self.name, taken)
        if tree != self.in_tree:
            raise ArgumentError(
                f"{self.name} was traced with arguments of the structure {self.in_tree} and was "
                f"called with {tree}. Call it as it was traced, or trace it again."
            )
        return leaves, taken

    def structs(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[Any]:
        """The types of the flat inputs of a call, with the devices of arrays.

        Without arguments these are the types and the meshes of the trace.

        Args:
            args: The positional arguments; also `jax.ShapeDtypeStruct` in the place of arrays.
            kwargs: The keyword arguments.

        Returns:
            A `jax.ShapeDtypeStruct` for each; a Ref as it is.

        Raises:
            ArgumentError: If tree, shapes or dtypes differ from the trace.
        """
        if args or kwargs:
            leaves, _ = self._leaves(args, kwargs)
        else:
            shardings = self.shardings or [None] * len(self.in_avals)
            leaves = [*map(on_devices, self.in_avals, shardings)]
        rows = zip(self.in_names, leaves, self.in_avals, strict=True)
        return [input_struct(self.name, *row) for row in rows]

    @functools.cached_property
    def _donates(self) -> bool:
        return donates(self.jaxpr)

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of inputs and outputs by their names, unless the name is an address."""
        named = [(name, f"out{k}") for k, name in enumerate(self.out_names)]
        named += [(name, f"in{k}") for k, name in enumerate(self.in_names)]
        return {name: address for name, address in named if not Address(name).kind}

    def variables(self) -> list[Variable]:
        """The variables of the source and the values that they held, in order of execution.

        They are known if the program was traced with ``names=True``: all variables of the user's
        functions that ran, with each array that they held, alone or in a PyTree or an object. The
        list has no variables of installed libraries.

        Example:
            >>> import jax
            >>> from taxpr import trace
            >>> def f(xs):
            ...     def step(total, x):
            ...         total = total + x
            ...         return total, None
            ...     return jax.lax.scan(step, 0.0, xs)[0]
            >>> for one in trace(f, names=True)(jax.numpy.ones(3)).variables():
            ...     print(one, "in line", one.line, "is", one.address)
            f.xs 0 in line 1 is in0
            step.total 0 in line 2 is 0:scan/body/in0
            step.x 0 in line 2 is 0:scan/body/in1
            step.total 1 in line 3 is 0:scan/body/1:add.0
        """
        return list(self.named.table) if self.named else []

    def var_of(self, address: str) -> VarSelector | None:
        """The shortest `var` that selects the value at an address, and nothing else.

        Args:
            address: The address of a value, such as ``"3:sin.0"``.

        Returns:
            The selector; None if no variable is known that held the value.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import trace
            >>> def f(x):
            ...     for _ in range(2):
            ...         x = jnp.sin(x)
            ...     return x
            >>> trace(f, names=True)(1.0).var_of("1:sin.0")
            var('x', occurrence=2)
        """
        refuse_no_text("var_of", address, "the address of a value")
        return meaning(self.variables(), address)

    def source(self, notes: Callable[[list[PlacedEquation]], str] | None = None) -> str:
        """The source of the user's functions that the program went through, with notes.

        A line says the types of its variables, if the program was traced with ``names=True``, else
        the type of its last result if nothing is differentiated; how many equations it made, and in
        how many calls, if its function is jitted or a loop's body and was called several times;
        after ``∂`` how many more compute its derivative; and how often they run in loops. Equations
        of JAX's functions and of libraries count for the line that called them.

        Args:
            notes: Says more about a line, given its equations, each with ``eqn``, ``runs``, which
                is None where nobody knows how often it runs, and ``derivative``.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr import trace
            >>> def f(x):
            ...     y = jnp.sin(x) * 2
            ...     return y
            >>> for line in trace(f, names=True)(1.0).source().splitlines()[1:]:
            ...     print(line)
            1  def f(x):               # x: f32[]
            2      y = jnp.sin(x) * 2  # y: f32[] · 2 equations
            3      return y
        """
        if notes is not None:
            refuse_no_function("source: notes", notes)
        return self.listing().text(notes, divisions(self).typed)

    def listing(self) -> Listing:
        """The source of the user's functions that the program went through, as data.

        Example:
            >>> import jax
            >>> from taxpr import trace
            >>> def f(xs):
            ...     return jax.lax.map(lambda x: x * x, xs)
            >>> [part] = trace(f, names=True)(jax.numpy.ones(3)).listing().parts
            >>> for line in part.lines:
            ...     print(line.number, [str(one) for one in line.variables], line.runs)
            1 ['f.xs 0'] 1
            2 ['<lambda>.x 0'] 3
        """
        return listing(self, self.variables())


def _more(n: int) -> list[str]:
    return [f"… {n - _SHOWN} more"] if n > _SHOWN else []
