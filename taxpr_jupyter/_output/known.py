"""The search index of a page: texts for each place of a program, drawn or not.

Most texts occur in many equations, so they are written once, and each place has their numbers.
"""

from __future__ import annotations

import json
from typing import Any

import taxpr
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._search.searched import Searched
from taxpr_jupyter._text.short import Where, visible


def known(program: taxpr.Program, where: Where, room: int) -> dict[str, Any]:
    """The texts of as many places as there is room for, in program order.

    Args:
        program: The program.
        where: Writes a source.
        room: About how many bytes of JSON there may be.

    Returns:
        ``texts``; ``places``, pairs of the address of a jaxpr with its slash, and for each place
        in it the last part of the address and the numbers of its types, source, scope and name
        among the texts, without zeros at the end; and ``total``, the number of all equations.
    """
    searched = Searched(Index(program))
    rows, scopes, sources = searched.rows, searched.scopes, searched.sources
    names, types, tags = searched.columns["name"](), searched.types, searched.columns["tag"]()
    numbers = {"": 0}
    places: dict[str, list[list[Any]]] = {}
    size = 0
    for k, row in enumerate(rows):
        leaf = row.address.local
        source = sources[k]
        name = taxpr.tag_params(row.eqn).get("name", "") if tags[k] else names[k]
        texts = [
            " ".join(types[k]),
            visible(where(source)) if source else "",
            scopes[k],
            visible(str(name)),
        ]
        while texts and not texts[-1]:
            texts.pop()
        new = [text for text in dict.fromkeys(texts) if text not in numbers]
        place = [leaf, *(numbers.setdefault(text, len(numbers)) for text in texts)]
        prefix = row.address.removesuffix(leaf)
        head = [] if prefix in places else [prefix, []]
        size += len(json.dumps([*new, place, *head], separators=(",", ":")))
        if size > room:
            break
        places.setdefault(prefix, []).append(place)
    total = sum(row.eqn is not None for row in rows)
    return {"texts": list(numbers), "places": list(places.items()), "total": total}
