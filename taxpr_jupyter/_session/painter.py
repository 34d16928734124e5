"""The part of a session that chooses the colours of nodes."""

import json
import math
import os
import pathlib
from typing import Any

import taxpr
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._heat.given import Given, node_data, numbers_in
from taxpr_jupyter._heat.measured import asked_for
from taxpr_jupyter._model.kinds import (
    HEAT_KINDS,
    MEASURED_KINDS,
    HeatKind,
    MeasuredKind,
    checked_heat,
)
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._store.store import Store

_TOLD = 3  # mistakes in the numbers


class Painter:
    """Colours the nodes of pictures, and the lines of the source."""

    def __init__(self, store: Store, renderer: Renderer) -> None:
        self._store = store
        self._renderer = renderer

    def colour(self, kind: HeatKind | None) -> None:
        """Colours nodes by this.

        Raises:
            PanelError: Nodes cannot be coloured by it, or it was not measured yet.
        """
        with self._store.change("folding"):
            kind = checked_heat(kind, HEAT_KINDS)
            measured: MeasuredKind | None = next(
                (one for one in MEASURED_KINDS if one == kind), None
            )
            if measured is not None and self._renderer.measured(measured) is None:
                raise PanelError(
                    f"{kind!r} was not measured of this program: ask({asked_for(measured)!r}) first"
                )
            if kind == "numbers" and self._renderer.measured("numbers") is None:
                raise PanelError(
                    "There are no numbers of this program: give them by "
                    "session.color({'h': 1.2}), or session.color(session.watch(), by='std')"
                )
            self._renderer.heat = kind

    def color(self, numbers: Any, *, by: str = "norm", title: str = "") -> None:
        """Colours nodes by numbers of your own, from the least one to the greatest one.

        A node with several values gets the colour of the greatest number; its tooltip has them all.
        Lines of the source get the same colours. `heat` goes back to other colours.

        Args:
            numbers: A dict of numbers by variables, tags or addresses; a recording such as
                ``session.watch()``; an answer whose rows have addresses, such as
                ``session.flow()``; or the name of a file of node data of Model Explorer.
            by: The statistic of a recording, such as ``"std"``, or the column of an answer, such as
                ``"grads"``. The greatest number of several iterations counts.
            title: The title of the legend; by default ``by``, or the name in the file.

        Raises:
            PanelError: There are no such numbers, as where the recording has no statistic ``by``;
                or some are of nothing in the program.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) * 2, (jnp.ones(3),))
            >>> session.color({"0:sin": 1.0, "1:mul": 3.0, "x": 2.0}, title="importance")
            >>> [(node.address, node.heat) for node in session.picture().nodes][:3]
            [('in0', 0.5), ('0:sin', 0.0), ('1:mul', 1.0)]
        """
        known, found = numbers_in(numbers, by)
        with self._store.change("folding"):
            edited = self._store.edited
            values, names, wrong = dict[str, float](), dict[str, str](), list[str]()
            for key, number in found.items():
                try:
                    places = _values(edited, key)
                except taxpr.TaxprError as error:
                    wrong.append(one_line(error))
                    continue
                for address in places:
                    before = values.get(address, math.nan)
                    if math.isnan(before) or number > before:
                        values[address], names[address] = number, key
            if wrong or not values:
                raise PanelError(" ".join(wrong[:_TOLD]) or "There are no numbers")
            given = Given(self._store.program, title or known, values, names)
            self._renderer.note(given)
            self._renderer.heat = "numbers"

    def save_node_data(self, path: str | os.PathLike[str]) -> None:
        """Writes the numbers of `color` to a file of node data, which Model Explorer reads.

        Args:
            path: The file, such as ``"norms.json"``; `color` reads it again.

        Raises:
            PanelError: There are no numbers.
        """
        given = self._renderer.measured("numbers")
        if not isinstance(given, Given):
            raise PanelError("There are no numbers to write: call session.color first")
        pathlib.Path(path).write_text(json.dumps(node_data(given), indent=1), "utf-8")


def _values(edited: Edited, key: str) -> list[str]:
    """The addresses of the values of a variable, of a tag, or at an address.

    Raises:
        taxpr.TaxprError: It means nothing, or variables of several functions.
    """
    if found := edited.index.values(key):
        return [address for address, _ in found]
    return [str(one.address) for one in taxpr.find_values(edited.program, edited.meant(key))]
