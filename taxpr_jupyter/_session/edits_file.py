"""Write the edits of a session to a file, and make them in another session of the same call."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.carried import line_text
from taxpr_jupyter._edits.python_line import is_typed
from taxpr_jupyter._edits.steps import EditStep, Steps
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._output.view import View
from taxpr_jupyter._runs.outputs.distances import is_key
from taxpr_jupyter._session.editor import Editor
from taxpr_jupyter._session.ordering import Ordering
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._session.rewriter import Rewriter
from taxpr_jupyter._store.following import Following
from taxpr_jupyter._store.states import States
from taxpr_jupyter._store.store import Store

_FORMAT = "taxpr session 1"


class _Part(dict[str, Any]):
    """A part of a file of edits."""

    def __missing__(self, key: str) -> Any:
        raise PanelError(f"The file of edits was changed: it lacks {key!r}")


class EditsFile:
    """Saves and loads the edits of a session."""

    def __init__(
        self,
        store: Store,
        renderer: Renderer,
        editor: Editor,
        ordering: Ordering,
        rewriter: Rewriter,
        states: States,
        following: Following,
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._editor = editor
        self._ordering = ordering
        self._rewriter = rewriter
        self._states = states
        self._following = following

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture, the text (.txt), the code (.py) or the edits (.json) to a file.

        The edits are tags, injectors with their numbers, lines that were typed over, watched
        states and expressions, initial values that were set, kept views, and whether you chose that
        runs follow new values (`live`); `load` makes them again. Functions are saved by their
        names.

        Args:
            path: The file. For the picture it ends as for `Drawing.save`: .svg, .png, .pdf,
                .html, .dot or .gv.

        Raises:
            PanelError: If the name ends otherwise, nothing here can write it, or an edit cannot be
                saved.
            OSError: If the file cannot be written.
        """
        self._renderer.save(path, {".json": self._text})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Makes the edits that `save` wrote to a .json file, in place of the present ones.

        It is one step to undo. Functions of the notebook are found by their names. If something
        does not fit the program, nothing is changed.

        A file has lines of Python, which run when the program is traced. Load only files that you
        trust.

        Args:
            path: The file.

        Raises:
            PanelError: If it is no such file, a function is missing, or a value that was tagged is
                made by another line now.
            OSError: If the file cannot be read.

        Example:
            >>> import pathlib, tempfile, jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> f = lambda x: jnp.sin(x) + 1
            >>> session = Session(f, (0.5,))
            >>> attached = session.attach("0:sin", "scale", factor=0.5)
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "edits.json"
            >>> session.save(file)
            >>> again = Session(f, (0.5,))
            >>> again.load(file)
            >>> again.injectors["0:sin.0"].values
            {'factor': 0.5}
        """
        file = pathlib.Path(path)
        with self._store.mistakes():
            data = _read(file)
        before, steps = self._store.edited, self._store.steps
        empty = EditStep(self._store.untouched, type(before.edits)(), "")
        self._store.steps = Steps()  # all of it is one step
        try:
            with self._store.change("tags", step=None):
                self._store.go(empty)
            self._make(data)
        except BaseException:
            self._store.steps = steps
            with self._store.change("tags", step=None):
                self._store.go(EditStep(before.base, before.edits, ""))
            raise
        self._store.steps = steps
        steps.note(before, self._store.edited, text=f"{file.name} loaded")
        self._store.tell("tags")

    # ---- within ------------------------------------------------------------------

    def _text(self) -> str:
        with self._store.lock:
            edited, views = self._store.edited, self._renderer.views
        edits = edited.edits
        names = {site.key: site.name or site.key for site in edited.sites}
        watched = {key for pairs in edits.watched.values() for _, key in pairs}
        data = {
            "format": _FORMAT,
            "call": self._store.call,
            "lines": [{"at": one.place.place, "text": one.text} for one in edits.written],
            "injectors": [_saved(one, names[key]) for key, one in edits.attached.items()],
            "tags": [
                {"at": key, "params": dict(params)}
                for key, params in edits.tags.items()
                if key not in watched
            ],
            # What makes the value, so that another program is noticed.
            "made_by": {site.key: line_text(edited.index, site.key) for site in edited.sites},
            "states": dict(self._initial()),
            "watched": list(edits.watched),
            "live": self._following.choice,
            "expressions": list(edits.expressions),
            "views": {
                name: {
                    "unfolded": None if view.unfolded is None else sorted(view.unfolded),
                    "selected": view.selected,
                    "place": dict(view.place),
                }
                for name, view in views.items()
            },
        }
        try:
            return json.dumps(data, indent=1) + "\n"
        except TypeError as error:
            raise PanelError(f"A param of a tag cannot be saved: {error}") from None

    def _initial(self) -> Iterator[tuple[str, Any]]:
        """The arrays of the initial values that were set, as lists of numbers, by their names.

        Raises:
            PanelError: One cannot be saved.
        """
        given = self._store.edits.states
        for row in self._states.states():
            for leaf, array in zip(row.leaves, jax.tree.leaves(given.get(row.name)), strict=False):
                if is_key(array) or np.iscomplexobj(array):
                    raise PanelError(
                        f"The initial value of {leaf.name} cannot be saved: a file has no "
                        f"{leaf.aval}. Reset it, and set it again after loading"
                    )
                yield leaf.name, np.asarray(array).tolist()

    def _make(self, data: dict[str, Any]) -> None:
        self._refuse_missing(data["injectors"])
        for line in data["lines"]:
            self._rewriter.edit(line["at"], line["text"])
        edits = [one for one in data["injectors"] if one["edits"]]
        for one in edits:  # first, since they change addresses
            self._attach(taxpr.var(**one["variable"]), one)
        for tag in data["tags"]:
            self._same_value(data, tag["at"])
            site = self._store.edited.site(tag["at"])
            if site is None:
                params = {name: _hashable(value) for name, value in tag["params"].items()}
                self._editor.tag(tag["at"], **params)
            elif site.added:
                self._editor.rename(tag["at"], tag["params"]["name"])
        for one in data["injectors"]:
            if not one["edits"]:
                self._same_value(data, one["at"])
                self._attach(one["at"], one)
        for name, value in data["states"].items():
            self._states.set_state(name, value)
        for name in data["watched"]:
            self._states.watch_state(name)
        self._following.live = data.get("live")  # older files lack it
        with self._store.change("expressions", step=None):  # older files lack them
            self._store.put(expressions=tuple(data.get("expressions", ())))
        with self._store.change("views"):
            self._renderer.views = {name: View(**one) for name, one in data["views"].items()}

    def _refuse_missing(self, injectors: list[dict[str, Any]]) -> None:
        """Raises if injectors are not known here, and names all of them."""
        known = taxpr.ready_injectors(), self._editor.choices()
        every = [part for one in injectors for part in (one, *one.get("then", ()))]
        missing = [
            one
            for one in every
            if one["injector"] not in known[not one["ready"]]
            and (one["ready"] or not is_typed(one["injector"]))
        ]
        if of_taxpr := [repr(one["injector"]) for one in missing if one["ready"]]:
            raise PanelError(f"This taxpr has no injector {', '.join(dict.fromkeys(of_taxpr))}")
        places: dict[str, list[str]] = {}
        for one in missing:
            places.setdefault(one["injector"], []).append(one["tag"])
        if places:
            named = [f"{name!r}, injected at {' and '.join(at)}" for name, at in places.items()]
            raise PanelError(
                f"The notebook lacks {count_of(len(named), 'function')}: {'; '.join(named)}. Run "
                "the cells with their definitions, and load the file again"
            )

    def _attach(self, where: Any, one: dict[str, Any]) -> None:
        attached = self._attach_one(self._editor.attach, where, one)
        for more in one.get("then", ()):
            attached = self._attach_one(self._ordering.append, attached.key, more)
        if one.get("then"):
            self._ordering.label(attached.key, one.get("labels", ()))  # older files lack them
            for k, part in enumerate([{"off": one["first_off"]}, *one["then"]]):
                if part["off"]:
                    self._ordering.switch(attached.key, on=False, part=k)
        if one.get("off"):  # files of before switches lack it
            self._editor.switch(attached.key, on=False)

    def _attach_one(self, attach: Any, where: Any, one: dict[str, Any]) -> Attached:
        name, ready = one["injector"], taxpr.ready_injectors()
        injector = ready[name] if one["ready"] else name
        ctx = () if one["ctx"] is None else one["ctx"]
        return attach(where, injector, ctx=ctx, **one["values"])

    def _same_value(self, data: dict[str, Any], key: str) -> None:
        index = self._store.edited.index
        now, then = line_text(index, key), data["made_by"][key]
        if now != then:
            raise PanelError(
                f"The program is another one: {key} is made by {now or 'nothing'!r}, and was made "
                f"by {then!r} when the file was saved"
            )


def _saved(one: Attached, tag: str) -> dict[str, Any]:
    """An injector, as the file has it.

    Raises:
        PanelError: It cannot be saved.
    """
    if one.parts:
        every = [_saved(dataclasses.replace(part, key=one.key), tag) for part in one.each]
        rest = {"edits": one.edits, "off": one.off, "variable": _variable(one)}
        labels = [label for label, _ in one.parts]
        more = {"then": every[1:], "first_off": every[0]["off"], "labels": labels}
        return {**every[0], **rest, **more}
    ready = one.is_ready and not one.injector.options
    whole = one.values.keys() == one.injector.values.keys() if ready else bool(one.bound)
    if not whole:
        raise PanelError(
            f"{one} at {tag} cannot be saved: it has no name in the notebook by which it could be "
            "found again, or values that are no numbers"
        )
    ctx = one.ctx
    if jax.tree.leaves(ctx) and not isinstance(ctx, bool | int | float):
        raise PanelError(f"{one} at {tag} cannot be saved: its ctx is no number")
    return {
        "at": one.key,
        "tag": tag,
        "injector": one.name if ready else one.bound,
        "ready": ready,
        "values": dict(one.values),
        "ctx": ctx if jax.tree.leaves(ctx) else None,
        "edits": one.edits,
        "off": one.off,
        "variable": _variable(one),
    }


def _variable(one: Attached) -> dict[str, Any] | None:
    where = one.variable
    return where and {"text": where.text, "line": where.line, "occurrence": where.occurrence}


def _hashable(value: Any) -> Any:
    """A param of a tag, which was a tuple if it is a list now."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _read(file: pathlib.Path) -> dict[str, Any]:
    """The data of a file.

    Raises:
        PanelError: If `EditsFile.save` did not write it.
    """
    try:
        data = json.loads(file.read_text("utf-8"), object_hook=_Part)
    except ValueError as error:
        raise PanelError(f"{file} is no file of edits: {error}") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise PanelError(f"{file} is no file of edits that this taxpr can read")
    return data
