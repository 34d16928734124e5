"""`var_names`: the letters that ``print(jaxpr)`` gives to variables."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._compat._jaxprs import is_jaxpr, open_jaxpr
from taxpr._compat._private import private
from taxpr._compat._types import DropVar, Jaxpr, JaxprEqn, Primitive, Var, is_sequence, is_tuple
from taxpr._errors import refuse_function

_core = private("core")
_pp = private("pretty_printer")
_source_info_util = private("source_info_util")

# Replaces equations in the jaxpr that JAX's printer gets, see `_Sketch`.
_sketched_p = Primitive("sketched")
# From 0.12 a primitive with jaxprs in an object registers here which ones the printer shows.
_HIDING: Any = getattr(_core, "pp_subjaxprs_rules", {})


def var_names(jaxpr: Any) -> dict[Var, str]:
    """The letters that ``print(jaxpr)`` gives to the variables of a program or jaxpr.

    In a few nested jaxprs, as in `custom_linear_solve`, ``print`` begins again with ``a``. Here
    these variables have letters of their own.

    Args:
        jaxpr: A `Program`, or an open or closed jaxpr.

    Example:
        >>> from taxpr import trace, var_names
        >>> program = trace(lambda x: x + 1)(1.0)
        >>> [var_names(program)[var] for var in (*program.invars, *program.outvars)]
        ['a', 'b']
    """
    refuse_function("var_names", jaxpr)
    inner = open_jaxpr(getattr(jaxpr, "jaxpr", jaxpr))
    _core.pp_eqn_rules[_sketched_p] = _print_nothing
    sketch = _Sketch()
    # Run the printer itself: the letters depend on the order in which it lists nested jaxprs, which
    # differs between versions. Printing types would take half of the time.
    _core.pp_toplevel_jaxpr(sketch.whole(inner), print_shapes=False)
    names = sketch.contexts[0].var_names
    known: dict[int, Any] = {}  # keeps the jaxprs alive, so that their ids stay unique
    for eqn in sketch.hops:
        for nested in _core.jaxprs_in_params(eqn.params):
            _give_names(nested, names, known)
    return {var: str(name) for var, name in names.items()}


def _give_names(jaxpr: Any, names: Any, known: dict[int, Any]) -> None:
    """Let the printer's context assign letters to all variables of a jaxpr, in program order."""
    if id(jaxpr) in known:
        return
    known[id(jaxpr)] = jaxpr
    for eqn in (None, *jaxpr.eqns):
        for var in eqn.outvars if eqn else (*jaxpr.constvars, *jaxpr.invars):
            if not isinstance(var, DropVar):
                names[var]
        for inner in _core.jaxprs_in_params(eqn.params) if eqn else ():
            _give_names(inner, names, known)


class _Sketch:
    """Simplifies a jaxpr so that JAX's printer assigns the same letters in a fifth of the time.

    For an equation without nested jaxprs only the order of its variables matters, so a placeholder
    replaces it, which prints nothing. In the outermost jaxpr one placeholder replaces all in a row.
    Invariant: the sketch of a nested jaxpr has as many equations as the jaxpr, and identical jaxprs
    have identical sketches, because the printer counts both.

    Attributes:
        contexts: The contexts of the printer, once it has run. The first one has the letters.
        hops: The equations that hold jaxprs.
    """

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.hops: list[JaxprEqn] = []
        self._done: dict[int, Any] = {}

    def whole(self, jaxpr: Any) -> Any:
        """The sketch of the outermost jaxpr."""
        eqns: list[Any] = []
        for plain, found in itertools.groupby(jaxpr.eqns, _prints_plainly):
            row = list(found)
            eqns += _in_a_row(row) if plain else map(self._eqn, row)
        if any(eqn.primitive in _HIDING for eqn in self.hops):
            eqns = jaxpr.eqns  # a hidden jaxpr cannot be replaced, and may occur elsewhere, too
        return jaxpr.replace(eqns=[_placeholder(self.contexts.append), *eqns])

    def _jaxpr(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._done:
            self._done[id(jaxpr)] = jaxpr.replace(eqns=list(map(self._eqn, jaxpr.eqns)))
        return self._done[id(jaxpr)]

    def _eqn(self, eqn: JaxprEqn) -> JaxprEqn:
        if _prints_plainly(eqn):
            work = functools.partial(_name, [eqn])
            return _placeholder(work, invars=eqn.invars, outvars=eqn.outvars)
        self.hops.append(eqn)
        return eqn.replace(params={name: self._param(value) for name, value in eqn.params.items()})

    def _param(self, value: Any) -> Any:
        """The param, with sketches for the jaxprs that the printer finds in it."""
        if is_tuple(value) and any(map(is_jaxpr, value)):
            items = [self._param(item) if is_jaxpr(item) else item for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if not is_jaxpr(value):
            return value
        stored: Any = value
        new = self._jaxpr(open_jaxpr(stored))
        return new if isinstance(stored, Jaxpr) else stored.replace(jaxpr=new)


def _prints_plainly(eqn: JaxprEqn) -> bool:
    """Whether JAX prints only results, name, params without jaxprs, and operands."""
    rule = _core.pp_eqn_rules.get(eqn.primitive)
    # The printing rules of `jax.lax` (0.7 to 0.12) only omit params.
    if rule is not None and rule.__module__ != "jax._src.lax.lax":
        return False
    return not any(
        is_jaxpr(value) or (is_sequence(value) and any(map(is_jaxpr, value)))
        for value in eqn.params.values()
    )


def _placeholder(
    work: Callable[[Any], None], invars: Sequence[Any] = (), outvars: Sequence[Any] = ()
) -> Any:
    """An equation that makes the printer call ``work`` with its context, and print nothing."""
    params = {"work": work}
    return _core.JaxprEqn([*invars], [*outvars], _sketched_p, params, set(), _nowhere(), None)


@functools.cache
def _nowhere() -> Any:
    return _source_info_util.new_source_info()


def _in_a_row(eqns: Sequence[JaxprEqn]) -> list[Any]:
    """Placeholders for equations in a row, which the printer takes for users of all operands."""
    atoms = [atom for eqn in eqns for atom in eqn.invars]
    variables = [var for eqn in eqns for var in eqn.outvars]
    work = functools.partial(_name, eqns)
    # What is used within the row is used after it is made, so these are two.
    return [_placeholder(work, outvars=variables), _placeholder(_nothing, invars=atoms)]


def _name(eqns: Sequence[JaxprEqn], context: Any) -> None:
    """Let the printer's context assign letters to the variables of equations."""
    names = context.var_names
    for eqn in eqns:
        for atom in (*eqn.outvars, *eqn.invars):
            if type(atom) is Var:  # neither a literal nor a DropVar
                names[atom]


def _nothing(context: Any) -> None:
    """Do nothing."""


def _print_nothing(eqn: JaxprEqn, context: Any, settings: Any) -> Any:
    """The printing rule of the placeholders."""
    eqn.params["work"](context)
    return _pp.nil()
