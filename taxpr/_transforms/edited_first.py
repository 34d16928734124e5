"""`inject` at variables that are differentiated: by `edit`, so that the derivative changes, too.

An injection into the traced program comes after the `jax.grad` in it. Where the line of the source
asks the same question, the function is traced once more with that line changed.
"""

import dataclasses
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._address import Address
from taxpr._compat import PyTree
from taxpr._editing.alteration import Alteration, Bound, alteration
from taxpr._editing.edited import edit
from taxpr._editing.old_values import OLD, is_old, reads_old
from taxpr._errors import ArgumentError, RefusedError, once_each, warnings_to
from taxpr._injectors.edits import scale
from taxpr._injectors.injector import Injector
from taxpr._jaxprs.trees import named_leaves, to_array
from taxpr._primitives.tag import keep
from taxpr._programs.program import Injected, Program
from taxpr._programs.trace import trace
from taxpr._sites.criteria import is_list
from taxpr._sites.site import Site
from taxpr._sites.skipped import Skipped
from taxpr._variables.select import Var
from taxpr._variables.variable import Variable
from taxpr._watching.held import is_tracer
from taxpr._where.meaning import is_mapping, said, variables_of

_READY = scale.__module__  # of those that change a value without a memory, but for noise


@dataclasses.dataclass(frozen=True)
class EditedFirst:
    """A function with edits, and with the other injectors; used as an `Injected`.

    Attributes:
        plain: The program with all of them injected, which has the contexts of the edits.
        inner: The program with the edits; if there are others, with these injected.
        edited: The keys of the injectors that are edits; None for a single injector.
    """

    plain: Injected
    inner: Program
    edited: frozenset[str] | None

    @property
    def ctx(self) -> PyTree:
        """The initial context."""
        if not isinstance(self.inner, Injected) or self.edited is None:
            return self.plain.ctx
        both = {True: self.plain.ctx, False: self.inner.ctx}
        return {key: both[key in self.edited][key] for key in self.plain.ctx}

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The places that selectors skipped."""
        return self.plain.skipped

    def report(self, final: PyTree) -> dict[str, Any]:
        """A readable report of a final context."""
        if not isinstance(self.inner, Injected) or self.edited is None:
            return self.plain.report(final)
        both = {True: self.plain.report(self.plain.ctx), False: self.inner.report(self._own(final))}
        return {key: both[key in self.edited][key] for key in self.plain.ctx}

    def __call__(self, now: PyTree, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The result and the final context."""
        if not isinstance(self.inner, Injected):
            return self.inner(*args, **kwargs), now
        out, after = self.inner(self._own(now), *args, **kwargs)
        return out, {key: after.get(key, one) for key, one in now.items()}

    def _own(self, ctx: Mapping[str, PyTree]) -> dict[str, PyTree]:
        edited = self.edited or frozenset()
        return {key: one for key, one in ctx.items() if key not in edited}


def edited_first(
    fun: Callable[..., Any],
    program: Program,
    injector: Any,
    more: Mapping[str, Any],
    now: PyTree,
    call: tuple[tuple[PyTree, ...], dict[str, PyTree]],
) -> EditedFirst | None:
    """Make ready injectors edits, if the program differentiates their variables.

    None where all are injections: if nothing is differentiated there, or an edit would ask another
    question, or cannot be made.

    Args:
        fun: The function.
        program: Its program.
        injector: The argument of `inject`.
        more: The other arguments of `inject`.
        now: The context of a call; None for the initial one.
        call: The arguments of the call.

    Raises:
        ArgumentError: If a value in the context of an edit has another shape or dtype.
    """
    several = is_mapping(injector)
    given = list(injector.items()) if several else [(more["where"], injector)]
    found = [_editable(program, where, one) for where, one in given]
    if more["custom_rules"] != "keep" or not any(found):
        return None
    pairs = zip(found, given, strict=True)
    if not all(one or _is_named(program, where) for one, (where, _) in pairs):
        return None
    # It would leave derivatives as they were, and is not used where it says so.
    with once_each(set()), warnings_to(lambda _: None):
        plain = program.inject(injector, **more)
    keys = list(plain.first_ctx) if several else [""]  # as they were given
    first = plain.ctx if several else {"": plain.ctx}
    of_call = (now if several else {"": now}) if now is not None else first
    where = dict[Var, Alteration]()
    for key, variables, (_, one) in zip(keys, found, given, strict=True):
        # A context of another structure is refused later.
        fits = is_mapping(of_call) and key in of_call
        fits = fits and jax.tree.structure(of_call[key]) == jax.tree.structure(first[key])
        if fits and variables:
            _refuse_other_types(
                program.name, f"ctx{[key] if several else ''}", of_call[key], first[key]
            )
        values: Any = (of_call if fits else first)[key]["values"] if variables else {}
        for each in variables:
            where[each] = _leaving_the_old(dataclasses.replace(one, values=values))
    rest = {at: one for variables, (at, one) in zip(found, given, strict=True) if not variables}
    args, kwargs = call
    try:
        inner = trace(edit(fun, where), names=bool(rest))(*args, **kwargs)
        is_another = reads_old(inner.jaxpr)
        if any(is_old(site.eqn) for site in inner.tags()):
            inner = inner.dissolve({"name": OLD})
    except Exception:  # it cannot be made: the injection warns, and says the edit, which says why
        return None
    if is_another or (inner.out_tree, _types(inner)) != (program.out_tree, _types(program)):
        return None
    if rest:
        inner = inner.inject(rest, custom_rules=more["custom_rules"], shards=more["shards"])
    edited = frozenset(key for key, one in zip(keys, found, strict=True) if one)
    return EditedFirst(plain, inner, edited if several else None)


def _refuse_other_types(name: str, said: str, given: PyTree, first: PyTree) -> None:
    """Raise what a call of the injected program raises; the edit computes with any type.

    Raises:
        ArgumentError: If a leaf has another shape or dtype than in the initial context.
    """
    leaves = named_leaves(said, given)
    for (place, leaf), expected in zip(leaves, jax.tree.leaves(first), strict=True):
        found, aval = jax.typeof(to_array(leaf)), jax.typeof(to_array(expected))
        if (found.shape, found.dtype) != (aval.shape, aval.dtype):
            raise ArgumentError(
                f"{name} was traced with {place}: {aval.str_short()} and was called with "
                f"{found.str_short()}. Convert it, or trace again."
            )


def _types(program: Program) -> list[Any]:
    return [(aval.shape, aval.dtype) for aval in program.out_avals]


def _is_named(program: Program, where: Any) -> bool:
    """Whether a selector means the same in the function with an edit, which has more equations."""
    meant = said(program, where, Site)
    return where is None or isinstance(meant, Var) or getattr(meant, "by", "") == "tag"


def _editable(program: Program, where: Any, injector: Any) -> list[Var]:
    """The variables that a selector means, if an edit means the same; else an empty list."""
    if program.named is None or type(injector) is not Injector:
        return []
    if inspect.unwrap(injector.fire).__module__ != _READY or injector.keys:
        return []
    meant = said(program, where, Site)
    every: list[Any] = list(meant) if is_list(meant) else [meant]
    if not every or not all(isinstance(one, Var) and one.inside is None for one in every):
        return []
    of_each = [variables_of(program, each, False) for each in every]
    held = [one for some in of_each for one in some]
    stale = program.named.differentiated.intersection(one.address for one in held)
    # A value within a vmap has the shape of one example where the source binds it.
    mapped = any(one.mapped for one in held)
    numbers = all(jnp.ndim(leaf) == 0 for leaf in jax.tree.leaves(injector.values))
    if not stale or (mapped and not numbers) or any(_is_given(program, one) for one in held):
        return []
    if len({one.address for one in held}) < len(held):  # an edit would change it once more
        return []
    return [_with_function(each, some) for each, some in zip(every, of_each, strict=True)]


def _with_function(where: Var, held: Sequence[Variable]) -> Var:
    """A variable with its function, if others that it is handed to have one of its name."""
    name = held[0].name
    if not where.text.startswith(name) or where.text[len(name) :][:1] not in ("", "[", "."):
        return where
    function = held[0].function.replace(".<locals>", "")
    return dataclasses.replace(where, text=f"{function}.{where.text}")


def _is_given(program: Program, one: Variable) -> bool:
    """Whether a variable holds an array that is known, or does so where it is bound once more."""
    untraced = program.named.untraced if program.named else {}
    return Address(one.address).kind == "const" or (one.function, one.name) in untraced


def _leaving_the_old(injector: Injector) -> Alteration:
    """The change of a variable by an injector; it leaves a tag on the old value."""
    found, made = alteration(injector), dict[int, weakref.ref[Any]]()

    def make(bound: Bound) -> Any:
        if (last := made.get(id(bound.value))) is not None and last() is bound.value:
            raise RefusedError(f"{bound.text} is bound to itself: an injection changes it once.")
        new = found.make(dataclasses.replace(bound, value=keep(bound.value, name=OLD)))
        if is_tracer(new):
            made[id(new)] = weakref.ref(new)
        return new

    return dataclasses.replace(found, make=make)
