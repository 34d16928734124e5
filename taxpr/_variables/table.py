"""The variables of a program: which of its values each one held."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, Token
from taxpr._hops.places import numbered
from taxpr._hops.table import in_loop, nested_jaxprs
from taxpr._primitives.cotangent import marked_p, tangent_p, token_of
from taxpr._primitives.tag_equation import AtVariable, is_tag, tag_p
from taxpr._variables.calls import BindingCall, call_of
from taxpr._variables.unmarked import Unmarked
from taxpr._variables.variable import Variable
from taxpr._variables.without_names import places_without
from taxpr._watching.mark import Binding, Untraced, mark_p

# JAX returns the same jaxpr when it traces a known function, and what is made of one is cached by
# its identity.
_without_marks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_untraced: weakref.WeakKeyDictionary[Any, Untraced] = weakref.WeakKeyDictionary()


class Variables:
    """The variables of a program, which are read when somebody asks for them.

    Attributes:
        jaxpr: The program's jaxpr, without marks.
        cotangents: Whether it was traced so that cotangents can be found.
        untraced: The variables that held numbers or known arrays.
    """

    def __init__(
        self, marked: Any, cotangents: bool = False, untraced: Untraced | None = None
    ) -> None:
        self._clean = Unmarked({})
        self._marked = marked
        self._places: Mapping[Address, Address] | None = None  # in a program without names
        known = _without_marks.get(marked)
        self.jaxpr: Any = self._clean.of(marked) if known is None else known[0]
        self._reads_unused: bool = self._clean.reads_unused if known is None else known[1]
        if self.jaxpr is not marked:  # which would keep itself
            _without_marks[marked] = self.jaxpr, self._reads_unused
        self.cotangents = cotangents
        if untraced:
            _untraced[marked] = untraced
        self.untraced: Untraced = _untraced.get(marked, {})

    @functools.cached_property
    def _found(self) -> tuple[_MarkReader, tuple[Variable, ...]]:
        found = _MarkReader(self._clean)
        variables = tuple(found.variables(self._marked))
        return found, variables if self._places is None else tuple(found.moved(self._places))

    @property
    def table(self) -> tuple[Variable, ...]:
        """All of them, in order of execution."""
        return self._found[1]

    @property
    def marks(self) -> list[Mark]:
        """All with a mark for a cotangent: variables, and leaves of the program's own tags."""
        return self._found[0].marks

    def cotangents_of(self, token: Token) -> list[Address]:
        """The addresses of the cotangents of the values with this token."""
        return self._found[0].cotangents.get(token, [])

    def with_tags(self, chosen: Mapping[Token, AtVariable]) -> Any:
        """The program's jaxpr with tags at cotangents."""
        return Unmarked(chosen).of(self._marked)

    def call_of(self, variable: Variable) -> BindingCall | None:
        """The call that bound a variable; None where it is not known."""
        mark = self._found[0].made_by.get(variable)
        return call_of(mark, mark.params["binding"]) if mark else None

    def number_of(self, variable: Variable) -> int:
        """The number of the `Binding` that a variable has come from."""
        return self._found[0].made_by[variable].params["binding"].number

    @functools.cached_property
    def differentiated(self) -> frozenset[Address]:
        """The addresses of differentiated values."""
        return frozenset(one.address for one in self.table if one.differentiated)

    def may_add(self) -> bool:
        """Whether there may be equations that plain tracing does not leave.

        They come from derivatives: JAX drops unused equations there, unless a mark reads them.
        """
        if _hands_unused(self.jaxpr):
            return True
        if not (self._reads_unused and _is_differentiated(self.jaxpr)):
            return False
        kept = Unmarked({}).of(_compat.without_dead(self._marked))
        return size(kept) != size(_compat.without_dead(self.jaxpr))

    def of_plain(self, plain: Any) -> Variables | None:
        """The variables in the same program traced without names.

        Args:
            plain: Its jaxpr, which has no equation that this program lacks.

        Returns:
            Those whose values it has; None where the two cannot be lined up.
        """
        places = places_without(self.jaxpr, plain)
        if places is None:
            return None
        new = Variables(self._marked)
        new.jaxpr, new._places, new.untraced = plain, places, self.untraced
        return new


def size(jaxpr: Any) -> int:
    """The number of equations, and of the inputs and results of all jaxprs."""
    inner = _compat.open_jaxpr(jaxpr)
    nested = (one.jaxpr for eqn in inner.eqns for one in nested_jaxprs(eqn))
    return len(inner.eqns) + len(inner.invars) + len(inner.outvars) + sum(map(size, nested))


def _hands_unused(jaxpr: Any) -> bool:
    """Whether a backward pass hands values to a jaxpr that does not use them."""
    return any(
        _has_unused(one.jaxpr) if _compat.is_transposed(eqn) else _hands_unused(one.jaxpr)
        for eqn in _compat.open_jaxpr(jaxpr).eqns
        for one in nested_jaxprs(eqn)
    )


def _has_unused(jaxpr: Any) -> bool:
    inner = _compat.open_jaxpr(jaxpr)
    used = {id(atom) for eqn in inner.eqns for atom in eqn.invars}
    return not used.union(map(id, inner.outvars)).issuperset(map(id, inner.invars))


def _is_differentiated(jaxpr: Any) -> bool:
    return any(
        "jvp" in _compat.transformations_of(eqn)
        or any(_is_differentiated(one.jaxpr) for one in nested_jaxprs(eqn))
        for eqn in _compat.open_jaxpr(jaxpr).eqns
    )


class Mark(NamedTuple):
    """One variable or leaf of a tag with a mark for its cotangent.

    Attributes:
        token: The token; without one, True if the value may have been used before it was bound, and
            False if it has no cotangent.
        address: The address of the value.
        variable: The variable that held it.
        recomputed: Whether it is computed once more for a backward pass.
        name: The name of the tag, if it is a tag's value.
        path: The path in that value.
    """

    token: Token | bool
    address: Address
    variable: Variable | None
    recomputed: bool
    name: Any = None
    path: str = ""


_PROGRAM = Address()
# These make no values, but mark some or hand them on.
_READERS = {mark_p, tag_p, marked_p, tangent_p}
_OF_EACH = "mapped", "differentiated", "cotangents"


class _MarkReader:
    """Reads the marks of a jaxpr, in program order, which is the order of execution.

    Attributes:
        marks: Those of cotangents.
        cotangents: The addresses of the cotangents, by the tokens of the marks.
        made_by: The marks of the variables.
    """

    def __init__(self, clean: Unmarked) -> None:
        self._clean = clean
        self._counts: dict[Any, int] = defaultdict(int)
        self.marks: list[Mark] = []
        self.made_by: dict[Variable, JaxprEqn] = {}
        self.cotangents: dict[Token, list[Address]] = {}

    def variables(
        self,
        jaxpr: Any,
        home: Address = _PROGRAM,
        loops: tuple[Address, ...] = (),
        recomputed: bool = False,
    ) -> Iterator[Variable]:
        """The variables of a jaxpr with marks, with the addresses that it has without."""
        inner = _compat.open_jaxpr(jaxpr)
        at: dict[Any, Address] = {}
        # Of a long program no more addresses than these.
        read = {id(var) for eqn in inner.eqns if eqn.primitive in _READERS for var in eqn.invars}
        for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
            at.update((var, home / f"{kind}{k}") for k, var in enumerate(variables))
        local = iter(numbered(self._clean.of(jaxpr)))
        for eqn in inner.eqns:
            if eqn.primitive is mark_p:
                yield from self._bound(eqn, at, loops, recomputed)
                continue
            if (token := token_of(eqn)) is not None:
                [old], [new] = eqn.invars, eqn.outvars
                if not _compat.is_literal(old) and old in at:
                    at[new] = at[old]
                elif is_tag(eqn):
                    at[new] = (home / next(local)[0]).value(0)
                if is_tag(eqn):
                    self.cotangents.setdefault(token, []).append(at[new])
                continue
            address = home / next(local)[0]
            for nested in nested_jaxprs(eqn):
                if self._clean.marked(nested.stored):
                    yield from self.variables(
                        nested.stored,
                        address / nested.label,
                        (*loops, address) if in_loop(eqn, nested) else loops,
                        recomputed or nested.recomputed,
                    )
            if is_tag(eqn):  # what it returns is no other value
                pairs = zip(eqn.invars, eqn.outvars, strict=True)
                at.update((new, at[old]) for old, new in pairs if not _compat.is_literal(old))
            else:
                at.update(
                    (var, address.value(k)) for k, var in enumerate(eqn.outvars) if id(var) in read
                )

    def moved(self, places: Mapping[Address, Address]) -> Iterator[Variable]:
        """The variables at their addresses in another program, those that it has."""
        for one, mark in list(self.made_by.items()):
            if one.address in places:
                loops = tuple(places[loop] for loop in one.loops)
                new = dataclasses.replace(one, address=places[one.address], loops=loops)
                self.made_by[new] = mark
                yield new

    def _bound(
        self, eqn: Any, at: dict[Any, Address], loops: tuple[Address, ...], recomputed: bool
    ) -> Iterator[Variable]:
        binding: Binding = eqn.params["binding"]
        none = (False,) * len(eqn.invars)
        of_each = [eqn.params.get(name, none) for name in _OF_EACH]
        rows = zip(binding.names, eqn.invars, *of_each, strict=True)
        for (name, path), var, mapped, differentiated, token in rows:
            if binding.is_tag:
                if var in at:
                    self.marks.append(Mark(token, at[var], None, recomputed, name, path))
                continue
            key = binding.file, binding.first, binding.function, name, path, recomputed
            occurrence = self._counts[key]
            self._counts[key] += 1
            if _compat.is_literal(var) or var not in at:
                continue
            one = Variable(
                name,
                path,
                binding.function,
                binding.file,
                binding.first,
                binding.line,
                occurrence,
                at[var],
                var.aval,
                loops,
                mapped,
                recomputed,
                differentiated,
                "; ".join(filter(None, map(binding.edited.get, ("", name)))),
            )
            self.marks.append(Mark(token, one.address, one, recomputed))
            self.made_by[one] = eqn
            yield one
