"""Compile a call as its user makes it, with a number in each equation."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import J, JaxprEqn, PyTree, StoredJaxpr, Var
from taxpr._compiled.hlo import HloModule, Instruction, hlo_module
from taxpr._compiled.stamped import stamped
from taxpr._primitives.tag import is_tag
from taxpr._programs.functions import trace
from taxpr._programs.program import Program

_jax: Any = jax  # which declares no types for what is read of it here

_INPUT = re.compile(r"flat\[(\d+)\]")  # JAX names a parameter after that of `called`


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledCall:
    """A call, compiled so that each instruction names its equations.

    Attributes:
        program: The program that was traced, with the names of its variables.
        addresses: The addresses of its equations by their numbers, see `stamped`.
        executable: What JAX compiled.
        donated: The positions of the flat inputs that a jitted function donates.
    """

    program: Program
    addresses: list[Address]
    executable: Any = dataclasses.field(repr=False)
    donated: tuple[int, ...] = ()

    @functools.cached_property
    def text(self) -> str:
        """The optimized HLO."""
        return self.executable.as_text() or ""

    @functools.cached_property
    def hlo(self) -> HloModule:
        """The instructions of the optimized program."""
        return hlo_module(self.text)

    @functools.cached_property
    def inputs(self) -> dict[str, int]:
        """The position of the flat input that each parameter is: JAX drops those nobody reads."""
        found = ((one.name, _INPUT.match(one.op_name)) for one in self.hlo.entry.parameters)
        return {name: int(match[1]) for name, match in found if match}

    def equations(self, instruction: Instruction) -> tuple[Address, ...]:
        """The addresses of the equations that an instruction computes, in order of execution.

        A fusion has those of all its instructions; a loop its own alone. What XLA has added has
        none.
        """
        stamps = (self.hlo.stamp(one) for one in self.hlo.computed(instruction))
        return tuple(self.addresses[k] for k in sorted({k for k in stamps if k is not None}))


def program_of(fun: Any, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> Program:
    """The program of a call, with the names of variables; a `Program` is its own."""
    return fun if isinstance(fun, Program) else trace(fun, names=True)(*args, **kwargs)


def compile_call(
    fun: Callable[..., Any],
    args: tuple[PyTree, ...],
    kwargs: Mapping[str, PyTree],
    options: Mapping[str, Any] | None = None,
) -> CompiledCall:
    """Compile a call for the devices of its arguments, as `jax.jit` does. Nothing is run.

    Args:
        fun: A function as its user calls it, also a jitted one or a method of a model; or a
            `Program`.
        args: Its positional arguments; arrays may be `jax.ShapeDtypeStruct`.
        kwargs: Its keyword arguments.
        options: Options of XLA, beside those that a jitted function has.

    Example:
        >>> import jax.numpy as jnp
        >>> call = compile_call(lambda x: jnp.sin(x) * 2, (jnp.ones(3),), {})
        >>> call.equations(call.hlo.entry.root)
        ('0:sin', '1:mul')
    """
    program = program_of(fun, args, kwargs)
    structs = program.structs(args, dict(kwargs))
    jaxpr, addresses = stamped(program.jaxpr)
    jaxpr = _with_all_results(jaxpr)
    run = _compat.jaxpr_as_fun(jaxpr)
    of_jit, donated = jit_options(program)

    def called(*flat: Any) -> Any:
        return run(*flat)

    called.__name__ = program.name
    with jax.disable_jit(False), _compat.compiled_by_names():
        executable = _jax.jit(called, **of_jit).lower(*structs).compile(dict(options or {}) or None)
    return CompiledCall(program, addresses, executable, donated)


def _with_all_results(jaxpr: J) -> J:
    """A jaxpr with all results of its jitted function, if it is the call of one.

    `jax.jit` compiles those that the caller drops, too, such as the marker of `eqx.filter_jit`.
    """
    eqn = _jitted(jaxpr)
    if eqn is None:
        return jaxpr
    new: Any = eqn
    inner = _compat.open_jaxpr(jaxpr)
    outvars = [x if not _compat.is_dropped(x) else _fresh(x) for x in eqn.outvars]
    eqns = [new.replace(outvars=outvars) if one is eqn else one for one in inner.eqns]
    more = [x for x in outvars if x not in inner.outvars]
    return _compat.rebuilt(jaxpr, eqns=eqns, outvars=[*inner.outvars, *more])


def _fresh(var: Any) -> Var:
    return _compat.fresh_var(_compat.aval_of(var))


def _jitted(jaxpr: StoredJaxpr) -> JaxprEqn | None:
    """The equation of a jitted function, if it is the only one."""
    eqns = [eqn for eqn in _compat.open_jaxpr(jaxpr).eqns if not is_tag(eqn)]
    return eqns[0] if len(eqns) == 1 and eqns[0].primitive is _compat.jit_p else None


def jit_options(program: Program) -> tuple[dict[str, Any], tuple[int, ...]]:
    """What a jitted function was told that matters to XLA: options, and what is donated."""
    eqn = _jitted(program.jaxpr)
    if eqn is None:
        return {}, ()
    params, inputs = eqn.params, {id(var): k for k, var in enumerate(program.invars)}
    pairs = zip(eqn.invars, params["donated_invars"], strict=True)
    donated = tuple(sorted({inputs[id(x)] for x, is_so in pairs if is_so and id(x) in inputs}))
    options: dict[str, Any] = {"donate_argnums": donated, "keep_unused": params["keep_unused"]}
    given: Any = params.get("compiler_options_kvs")
    if given:
        options["compiler_options"] = dict(given)
    return options, donated
