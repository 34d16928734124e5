"""`Inspector`: look up everything about one address of a program, for the inspector panel."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.index import Home
from taxpr_jupyter._analysis.stateful import state_leaves
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._edits.tagged import Tagged
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text.short import literal_text, shortened, type_of, visible
from taxpr_jupyter._tracing.sources import source_line, source_text

_LONGEST = 200  # characters of one param
_KINDS = {"in": "input", "const": "const", "out": "output"}


@dataclasses.dataclass(frozen=True)
class ValueRow:
    """One value.

    Attributes:
        address: Its address, which `Session.tag` takes.
        text: Its letter and type, such as ``h:f32[3]``, behind the variable that held it, if known:
            ``scores · h:f32[3]``.
        tag: The tag that marks it, or None.
        refused: Why it cannot be tagged; None if it can.
    """

    address: str
    text: str
    tag: SiteRow | None
    refused: str | None


@dataclasses.dataclass(frozen=True)
class Inspection:
    """One place of a program, for the inspector.

    Attributes:
        address: The requested address; for the key of a tag without a value of its own, the
            present address of the tag.
        kind: ``"eqn"``, ``"tag"``, ``"input"``, ``"output"``, ``"const"``, ``"literal"``,
            ``"jaxpr"``, ``"group"``, ``"state"`` or ``"unknown"``.
        title: A heading.
        primitive: The name of the primitive, or None.
        params: The params of the equation, as name and text.
        inputs: The operands, such as ``a:f32[3]``.
        outputs: The results.
        source: The user's source line that made it; may be empty. For a tag that was added
            interactively, the line of the value.
        source_line: The text of that line; may be empty.
        value_source: For a tag in the source, the line that made the value, if it is another one.
        value_line: The text of that line.
        added_by: For a tag that was added interactively, the call that adds it.
        scope: The name stack, such as ``block_0/attention``.
        tag_params: The user's params of a tag, or None.
        site: The tag, if the place is a tag.
        values: The values that can be tagged here.
        foldable: Whether it can be folded or unfolded.
        unfolded: Whether it is open now.
        refused: Why no injector can be attached here; None if one can.
        cost: The cost in lines: operations, bytes moved, and remarks.
    """

    address: str
    kind: str
    title: str
    primitive: str | None = None
    params: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    source: str = ""
    source_line: str = ""
    value_source: str = ""
    value_line: str = ""
    added_by: str = ""
    scope: str = ""
    tag_params: Mapping[str, Any] | None = None
    site: SiteRow | None = None
    values: tuple[ValueRow, ...] = ()
    foldable: bool = False
    unfolded: bool = False
    refused: str | None = None
    cost: tuple[str, ...] = ()


class Inspector:
    """Looks at the places of one program.

    Attributes:
        divided: How its values are divided among devices.
    """

    def __init__(
        self, tagged: Tagged, sites: tuple[SiteRow, ...], divided: introspect.Divisions
    ) -> None:
        self.divided = divided
        self._tagged = tagged
        self._program = tagged.program
        self._index = tagged.index
        self._held = tagged.held
        self._states = state_leaves(tagged.program)
        self._by_address = {site.address: site for site in sites}
        self._by_key = {site.key: site for site in sites}

    def address_of(self, address: str) -> str:
        """The address of a tag, given its key; any other address stays as it is."""
        site = self._by_key.get(address) if address.startswith("tag:") else None
        return site.address if site else address

    def look(self, address: str) -> Inspection | None:
        """The inspection of an address; None if the program has no such place."""
        index = self._index
        if (place := index.eqn(address)) is not None:
            return self._equation(address, place.eqn, place.home)
        if address in index.homes:
            return self._jaxpr(index.homes[address])
        home = index.home_of(address)
        if home is None:
            return None
        value = taxpr.Address(address)
        kind = _KINDS.get(value.kind)
        if kind == "output":
            return self._output(value, home)
        variable = index.variable(address)
        if variable is None:
            return None
        return Inspection(
            address=address,
            kind="state" if address in self._states else kind or "eqn",
            title=self._input_title(value, home) if kind else self._held.name(address) or address,
            params=(*self._variables(address), *self._devices(variable)),
            outputs=(self._text(variable),),
            values=self._values(address, home),
            refused=home.refused,
        )

    def _equation(self, address: str, eqn: introspect.JaxprEqn, home: Home) -> Inspection:
        source = introspect.source_of(eqn)
        site = self._by_address.get(address)
        made = self._maker_source(site) if site and not site.added else None
        made = None if made == source else made
        return Inspection(
            address=address,
            kind="tag" if site else "eqn",
            title=f"tag {visible(site.name or '')}".strip() if site else self._title(address, eqn),
            primitive=eqn.primitive.name,
            params=() if site else self._params(address, eqn),
            inputs=tuple(self._text(atom) for atom in eqn.invars),
            outputs=tuple(self._text(var) for var in eqn.outvars),
            source=source_text(source),
            source_line=source_line(source),
            value_source=source_text(made),
            value_line=source_line(made),
            added_by=_call_of(site) if site and site.added else "",
            scope=introspect.scope_of(eqn),
            tag_params=site.params if site else None,
            site=site,
            values=() if site else self._values(address, home),
            refused=home.refused,
            cost=() if site else self._tagged.costs.of_eqn(eqn).lines(eqn),
        )

    @functools.cached_property
    def _names(self) -> dict[Any, str]:
        """The variable of the source for each value that one held."""
        held = self._held
        return {self._index.variable(address): held.name(address) for address in held.addresses}

    def _title(self, address: str, eqn: introspect.JaxprEqn) -> str:
        name = self._names.get(eqn.outvars[0]) if len(eqn.outvars) == 1 else None
        return f"{name} = {eqn.primitive.name}" if name else eqn.primitive.name

    def _params(self, address: str, eqn: introspect.JaxprEqn) -> tuple[tuple[str, str], ...]:
        params = tuple((key, _param(value)) for key, value in eqn.params.items())
        held = self._variables(taxpr.Address(address).value(0))
        return (*held, *self._devices(*eqn.outvars), *params)

    def _devices(self, *variables: introspect.Var) -> tuple[tuple[str, str], ...]:
        """The parts of values that each device has."""
        words = dict.fromkeys(one.words for var in variables if (one := self.divided.of(var)))
        return (("devices", "; ".join(words)),) if words else ()

    def _variables(self, address: str) -> tuple[tuple[str, str], ...]:
        """All variables that held a value, each with its line."""
        texts = dict.fromkeys(f"{one.short} ({one.place})" for one in self._held.at(address))
        return (("variable", visible(", ".join(texts))),) if texts else ()

    def _maker_source(self, site: SiteRow) -> introspect.Source | None:
        """The source line of the value that a tag marks."""
        maker = self._index.eqn(taxpr.Address(site.key).eqn)
        return (
            introspect.source_of(maker.eqn) if maker and not introspect.is_tag(maker.eqn) else None
        )

    def _jaxpr(self, home: Home) -> Inspection:
        facts = home.nested.facts if home.nested else {}
        return Inspection(
            address=home.address,
            kind="jaxpr",
            title=home.title or self._program.name,
            params=tuple((key, _param(value)) for key, value in facts.items()),
            inputs=tuple(self._text(var) for var in home.jaxpr.invars),
            outputs=tuple(self._text(atom) for atom in home.jaxpr.outvars),
            values=self._values(home.address, home),
            refused=home.refused,
            cost=self._tagged.costs.of_jaxpr(home.jaxpr).lines(),
        )

    def _output(self, address: taxpr.Address, home: Home) -> Inspection | None:
        atoms, number = home.jaxpr.outvars, address.number
        if number >= len(atoms):
            return None
        roles = home.nested.out_roles if home.nested else self._program.out_names
        title = f"output {visible(roles[number])}"
        if address in self._states:
            title = f"last value of {visible(self._states[address])}"
        return Inspection(address, "output", title, inputs=(self._text(atoms[number]),))

    def _input_title(self, address: taxpr.Address, home: Home) -> str:
        if address.kind == "const":
            return "closed-over value"
        if address in self._states:
            return f"state {visible(self._states[address])}"
        if home.nested is None:
            return f"input {visible(self._program.in_names[address.number])}"
        # The picture may name it after what enters, and the body has another name for it.
        return f"input {visible(self._held.name(address)) or home.nested.in_roles[address.number]}"

    def _values(self, address: str, home: Home) -> tuple[ValueRow, ...]:
        return tuple(
            ValueRow(value, self._text(variable), self._by_key.get(value), _untaggable(variable))
            for value, variable in self._index.values(address)
        )

    def _text(self, atom: introspect.Atom) -> str:
        """``a:f32[3]``, ``2.0``."""
        if introspect.is_literal(atom):
            return literal_text(atom)
        letter = "_" if introspect.is_dropped(atom) else self._tagged.letters.get(atom, "_")
        divided = self.divided.of(atom)
        text = f"{letter}:{divided.type if divided else type_of(atom)}"
        return f"{name} · {text}" if (name := self._names.get(atom)) else text


def _call_of(site: SiteRow) -> str:
    """The Python call that adds a tag that was added by a click."""
    params = "".join(f", {key}={value!r}" for key, value in site.params.items())
    return f"session.tag({site.key!r}{params})"


def _untaggable(variable: Any) -> str | None:
    aval = variable.aval
    is_array = hasattr(aval, "dtype") and not introspect.is_ref(aval)
    return None if is_array else f"{type(aval).__name__} is no array"


def _param(value: Any) -> str:
    """A param in one line; a jaxpr by its size."""
    if introspect.is_jaxpr(value):
        return f"jaxpr of {count_of(len(value.eqns), 'equation')}"
    if isinstance(value, tuple) and value and all(map(introspect.is_jaxpr, value)):
        return f"({', '.join(_param(item) for item in value)})"
    return shortened(visible(" ".join(str(value).split())), _LONGEST)
