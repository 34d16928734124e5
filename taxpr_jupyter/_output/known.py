"""The search index of a page: texts for each place of a program, drawn or not.

Most texts occur in many equations, so they are written once, and each place has their numbers.
"""

import json
from collections.abc import Collection
from typing import Any

from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._messages.saved_page import SearchTexts
from taxpr_jupyter._search.searched import Searched
from taxpr_jupyter._text.short import Where

_COLUMNS = ("source", "scope", "name", "label", "variable")  # after the types


def known_places(index: Index, where: Where, room: int, shown: Collection[str] = ()) -> SearchTexts:
    """The texts of shown places, and of as many others as there is room for, in order."""
    searched = Searched(index, where)
    columns = {name: searched.columns[name]() for name in (*_COLUMNS, "tag", "primitive")}
    rows, letters = searched.rows, searched.letters
    numbers = {"": 0}
    places: dict[str, list[Any]] = {}
    size = 0
    for k in sorted(range(len(rows)), key=lambda k: rows[k].address not in shown):
        row, text = rows[k], {name: column[k] for name, column in columns.items()}
        text["name"] = text["tag"] or text["name"]
        if text["label"] == text["primitive"]:
            text["label"] = ""
        texts = ["\n".join(searched.types[k]), *(text[name] for name in _COLUMNS)]
        while texts and not texts[-1]:
            texts.pop()
        new = [text for text in dict.fromkeys(texts) if text not in numbers]
        leaf, own = row.address.local, " ".join(letters.get(var, "") for var in row.made)
        place = [leaf, own, *(numbers.setdefault(text, len(numbers)) for text in texts)]
        prefix = row.address.removesuffix(leaf)
        head = [] if prefix in places else [prefix, []]
        size += len(json.dumps([*new, place, *head], separators=(",", ":")))
        if size > room and row.address not in shown:
            break
        places.setdefault(prefix, []).append(place)
    total = sum(row.eqn is not None for row in rows)
    return {"texts": list(numbers), "places": list(places.items()), "total": total}
