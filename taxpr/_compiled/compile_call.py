"""Compile a call as its user makes it, with a number in each equation."""

import contextlib
import dataclasses
import functools
import pathlib
import re
import tempfile
import uuid
from collections.abc import Callable, Generator, Mapping
from typing import Any

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import J, JaxprEqn, PyTree, StoredJaxpr, Var
from taxpr._compiled.exhausted import saying_what_is_exhausted
from taxpr._compiled.hlo import HloModule, Instruction, hlo_module
from taxpr._compiled.stamped import stamped
from taxpr._devices.devices_of import told_apart
from taxpr._devices.fetched import refuse_closed_over
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._programs.trace import trace
from taxpr._untyped import jax as _jax

_INPUT = re.compile(r"flat\[(\d+)\]")  # JAX names a parameter after that of `called`


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledCall:
    """A call, compiled so that each instruction names its equations.

    Attributes:
        program: The program that was traced, with the names of its variables.
        addresses: The addresses of its equations by their numbers, see `stamped`.
        executable: What JAX compiled.
        donated: The positions of the flat inputs that a jitted function donates.
        plan: XLA's plan of its memory, a serialized ``HloProto``; empty if it was not asked for.
        whole: The HLO with whole arrays and the sharding of each, before XLA divides them among
            devices; empty of one device, and if it was not asked for.
    """

    program: Program
    addresses: list[Address]
    executable: Any = dataclasses.field(repr=False)
    donated: tuple[int, ...] = ()
    plan: bytes = dataclasses.field(default=b"", repr=False)
    whole: str = dataclasses.field(default="", repr=False)

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

        A fusion has the equations of all its instructions; a loop only its own. Instructions that
        XLA has added have no equation.
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
    *,
    planned: bool = False,
    sharded: bool = False,
) -> CompiledCall:
    """Compile a call for the devices of its arguments, as `jax.jit` does. Nothing is run.

    Args:
        fun: A function as its user calls it, also a jitted one or a method of a model; or a
            `Program`.
        args: Its positional arguments; arrays may be `jax.ShapeDtypeStruct`.
        kwargs: Its keyword arguments.
        options: Options of XLA, beside those that a jitted function has.
        planned: Whether to keep XLA's plan of its memory, if the executable does not tell it.
        sharded: Whether to keep how XLA divides arrays among several devices, instead of the plan.

    Example:
        >>> import jax.numpy as jnp
        >>> call = compile_call(lambda x: jnp.sin(x) * 2, (jnp.ones(3),), {})
        >>> call.equations(call.hlo.entry.root)
        ('0:sin', '1:mul')
    """
    program = program_of(fun, args, kwargs)
    refuse_closed_over(program.name, program.consts)
    structs = program.structs(args, dict(kwargs))
    jaxpr, addresses = stamped(program.jaxpr)
    jaxpr = _with_all_results(jaxpr)
    run = _compat.jaxpr_as_fun(jaxpr)
    of_jit, donated = jit_options(program)

    def called(*flat: Any) -> Any:
        return run(*flat)

    # The executables of CPUs tell their plan themselves.
    planned = planned and jax.default_backend() != "cpu"
    # A program from JAX's cache on disk comes without what XLA writes into files while it compiles,
    # so its name is a new one.
    on_disk = bool(_jax.config.jax_compilation_cache_dir)
    writes = planned or (sharded and on_disk and jax.device_count() > 1)
    called.__name__ = f"{program.name}_{uuid.uuid4().hex}" if writes else program.name
    once = _compat.compiled_for_once() if writes else contextlib.nullcontext()
    with jax.disable_jit(False), _compat.compiled_by_names(), once:
        with told_apart(program.name, program.in_names, structs):
            lowered = _jax.jit(called, **of_jit).lower(*structs)
        with saying_what_is_exhausted(program.name, "compiling"):
            if sharded and _partitions(lowered) > 1:
                executable, whole = _compiled_with_shardings(lowered, dict(options or {}))
                return CompiledCall(program, addresses, executable, donated, whole=whole)
            compiled = _compiled_with_plan if planned else _compiled
            executable, plan = compiled(lowered, dict(options or {}))
    return CompiledCall(program, addresses, executable, donated, plan)


def _partitions(lowered: Any) -> int:
    """The number of devices that share a program."""
    attributes = lowered.compiler_ir().operation.attributes
    name = "mhlo.num_partitions"
    return attributes[name].value if name in attributes else 1


def _compiled(lowered: Any, options: dict[str, Any]) -> tuple[Any, bytes]:
    return lowered.compile(options or None), b""


def _compiled_with_plan(lowered: Any, options: dict[str, Any]) -> tuple[Any, bytes]:
    """The executable, and the plan that XLA writes into a file while it compiles."""
    with _writing(lowered, options, "xla_dump_hlo_as_proto", True) as (executable, folder):
        files = list(folder.glob("*after_optimizations.hlo.pb"))
        # Beside the program there may be small ones, such as those that XLA tunes.
        largest = max(files, key=lambda file: file.stat().st_size, default=None)
        return executable, b"" if largest is None else largest.read_bytes()


def _compiled_with_shardings(lowered: Any, options: dict[str, Any]) -> tuple[Any, str]:
    """The executable, and the program that XLA writes into a file before it is divided."""
    with _writing(lowered, options, "xla_dump_hlo_pass_re", "spmd-partitioning") as written:
        executable, folder = written
        files = sorted(folder.glob("*.before_spmd-partitioning*.txt"))
        return executable, files[0].read_text(encoding="utf-8") if files else ""


@contextlib.contextmanager
def _writing(
    lowered: Any, options: dict[str, Any], name: str, value: str | bool
) -> Generator[tuple[Any, pathlib.Path]]:
    """The executable, and the folder into which XLA has written while it compiled.

    The folder is empty if the compiler of the platform does not take the options of XLA for that.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            executable = lowered.compile(options | {"xla_dump_to": folder, name: value})
        except jax.errors.JaxRuntimeError as error:
            if "xla_dump" not in str(error):
                raise
            executable = lowered.compile(options or None)
        yield executable, pathlib.Path(folder)


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
    """The settings of a jitted function that matter to XLA: options and donations."""
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
