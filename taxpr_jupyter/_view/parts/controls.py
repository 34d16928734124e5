"""The controls of the selected value's injector and its parameters, for `static/controls.js`."""

import dataclasses
import numbers
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from taxpr_jupyter._edits.attached import Attached, Unread
from taxpr_jupyter._edits.inspect import Inspection
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.selected import Controls
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.parts.params import CtxField, ParamField


class InjectorControls:
    """Attaches an injector to the selected value and sets its parameters.

    Args:
        session: Where the injectors are.
        show: Takes a new value of the trait ``controls``.
    """

    def __init__(self, session: Session, show: Callable[[Any], None]) -> None:
        self._session = session
        self._show = show
        self._places: list[tuple[str, str]] = []  # text and address
        self._address = ""  # the chosen one of them
        self._all: list[
            str
        ] = []  # several selected values with such an injector; of one it is empty
        self._shown: tuple[Any, ...] = ()  # of what injector the fields are
        self._fields: dict[str, ParamField] = {}
        self._ctx: CtxField | None = None  # of a function that needs one

    def show(self, node: Inspection | None, several: Iterable[str] = ()) -> None:
        """Shows the controls for this node; none where no injector can go.

        Args:
            node: The selected node; None without one, and for several.
            several: The keys of the tags among several selected values. If all injectors there are
                of one kind, their controls change all of them.
        """
        self._all = self._alike(several)
        self._places = _places(node) if node else [(one, one) for one in self._all[:1]]
        addresses = [address for _, address in self._places]
        if self._address not in addresses:
            self._address = addresses[0] if addresses else ""
        self.refresh()

    def refresh(self) -> None:
        """Takes over from the session which injector there is, and its values."""
        attached = self._attached()
        shown = (
            (attached.key, attached.name, id(attached.source), *attached.values) if attached else ()
        )
        if shown != self._shown:
            self._shown = shown
            self._fields = _fields(attached) if attached else {}
            self._ctx = None
        if attached and attached.asks_ctx:
            self._ctx = self._ctx or CtxField(attached.ctx)
            if not attached.unread:
                self._ctx.show(attached.ctx)
        if attached and self._all != self._alike(self._all):
            attached = None  # they are not of one kind any more
            self._all, self._places, self._address = [], [], ""
        for name, field in self._fields.items():
            field.show(attached.values[name] if attached else None)
        self._show(self._state(attached) if self._address else {})

    def handle(self, message: Message) -> bool:
        """Does what the browser asks for, at the address of a value or tag, if it is for this."""
        match message:
            case {"do": "place", "address": address}:
                self._choose(address)
            case {"do": "switch", "address": address, "on": on}:
                self._session.switch(self._meant(address), on, message.get("part"))
            case {"do": "arrange", "address": address, "order": order}:
                self._session.arrange(address, order)
            case {"do": "append", "address": address, "injector": injector}:
                self._attach(address, injector, self._session.append)
            case {"do": "attach", "address": address, "injector": injector}:
                self._attach(address, injector, self._session.attach)
            case {"do": "value", "address": address, "param": param, "text": text}:
                self._set_value(address, param, text, object())
            case {
                "do": "value",
                "address": address,
                "param": param,
                "position": position,
                "drag": drag,
            }:
                self._set_value(address, param, position, drag)
            case _:
                return False
        return True

    def _state(self, attached: Attached | None) -> Controls:
        choices = self._session.choices()
        names = list(choices)
        if attached and attached.name not in choices:  # an injector that was made in Python
            names.append(attached.name)
        choice = choices.get(attached.name) if attached else None
        return {
            "address": self._address,
            "places": self._places,
            "injectors": names,
            "injector": attached.name if attached else "",
            "line": attached.name if attached and attached.kind == "typed" else "",
            "off": attached.off if attached else False,
            "several": [
                {"text": str(dataclasses.replace(one, off=False)), "on": not one.off}
                for one in (attached.each if attached and attached.parts else ())
            ],
            "doc": choice.doc if choice else "",
            "note": attached.note if attached else "",
            "failure": (attached.error or "") if attached else "",
            "fields": [field.state() for field in (self._ctx, *self._fields.values()) if field],
        }

    def _attached(self) -> Attached | None:
        return self._session.injectors.get(self._address) if self._address else None

    def _meant(self, address: str) -> Any:
        """The place of a message; all of several selected values for the one that is shown."""
        return self._all if self._all and address == self._address else address

    def _alike(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys with an injector, if they are several with one kind of injector."""
        injectors = self._session.injectors
        found = {key: injectors[key] for key in keys if key in injectors}
        kinds = {(one.name, id(one.source), *one.values) for one in found.values()}
        plain = len(kinds) == 1 and not any(one.parts for one in found.values())
        return list(found) if plain and len(found) > 1 else []

    def _choose(self, address: str) -> None:
        if address in [place for _, place in self._places]:
            self._address = address
        self.refresh()

    def _attach(self, address: str, injector: str, attach: Callable[..., Any]) -> None:
        try:
            if injector:
                choice = self._session.choices().get(injector)
                attach(self._meant(address), injector, **(choice.seeds if choice else {}))
            else:
                self._session.detach(self._meant(address))
        finally:
            self.refresh()  # also after a mistake: then it shows what is there still

    def _set_value(self, address: str, name: str, to: str | int, step: Hashable) -> None:
        """Sets a parameter to the typed text, or to the slider's position, in this step to undo."""
        attached = self._session.injectors.get(address)
        if attached is None:
            return  # it was taken away meanwhile
        # What is selected can have changed before what was typed came here.
        shown = address == self._address
        fields = self._fields if shown else _fields(attached)
        if name in fields:
            field = fields[name]
            value = field.typed(to) if isinstance(to, str) else field.moved(to)
            if value is not None:
                meant = self._meant(address)
                _put(field, lambda: self._session.set_value(meant, name, value, step=step))
        elif name == "ctx" and attached.asks_ctx:
            field = (self._ctx if shown else None) or CtxField(attached.ctx)
            where = f"{attached.name} at {address}, ctx"
            read = field.typed(str(to), dict(self._session.namespace), where)
            for place in self._all if self._meant(address) is self._all else [address]:
                _put(field, lambda place=place: self._session.set_ctx(place, Unread(read)))
        else:
            return
        self.refresh()
        if field.mistake and not shown:
            raise PanelError(f"{attached.name} at {address}, {name}: {field.mistake}")


def _put(field: ParamField | CtxField, put: Callable[[], None]) -> None:
    """Hands a value to the session; the field says what is wrong with it."""
    try:
        put()
    except PanelError as error:
        if not field.mistake:
            field.refuse(str(error))


def _fields(attached: Attached) -> dict[str, ParamField]:
    return {
        name: ParamField(name, attached.params.get(name), value)
        for name, value in attached.values.items()
        if isinstance(value, numbers.Real)
    }


def _places(node: Inspection) -> list[tuple[str, str]]:
    """The possible places of an injector: the node's tag, or each value that can have one."""
    if node.site:
        return [] if node.site.refused else [(node.site.name or node.site.key, node.site.key)]
    return [
        (row.text, row.tag.key if row.tag else row.address)
        for row in node.values
        if not (row.refused or (row.tag and row.tag.refused))
    ]
