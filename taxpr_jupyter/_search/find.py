"""`Finder`: search a program by a few words for addresses.

All words must match, in capitals or not. A plain word matches anything that the picture shows:
names of primitives, tags, inputs, scopes and functions, labels; and what looks like it:

    ======================  ============================================================
    ``bf16`` ``float32``    a dtype
    ``[2,16]`` ``f32[*,64]``  a shape; ``*`` is any size and ``...`` any number of them
    ``model.py:12``         a line of the source; also ``line 12``
    ``cd:``                 the variable of this letter, as `print(jaxpr)` shows it
    ``3:scan/body/*``       an address, or a glob of them
    ``"two words"``         what has a space in it
    ======================  ============================================================

A prefix says what a word is about: ``prim:dot``, ``fn:loss``, ``name:w1``, ``source:model.py``
(parts of texts, or globs), ``dtype:``, ``shape:``, and ``tag:``, ``scope:``, ``line:``, which mean
what the selectors of taxpr mean.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._search.searched import Searched
from taxpr_jupyter._search.types import DTYPE, TYPE, fits_sizes, shape_of, sizes_of
from taxpr_jupyter._text import short

_WORD = re.compile(r'(?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\S)+')
_PREFIX = re.compile(r"(prim|fn|name|source|dtype|shape|tag|scope|line):(.*)", re.S)
_LINE = re.compile(r"\S+\.\w+:\d+")
_LETTER = re.compile(r"([a-z]+):")


class Hit(NamedTuple):
    """Something found.

    Attributes:
        address: Of an equation, input, constant or output.
        why: For each word what it matched, such as ``"type bf16[2,16]"``.
    """

    address: str
    why: tuple[str, ...]


_Found = dict[int, str]  # row and why


class Finder:
    """Searches one program. What a search needs to know is found when it is needed, and once.

    Args:
        index: The places of the program.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x: jnp.sin(x) * jnp.cos(x))(jnp.ones(3))
        >>> Finder(Index(program)).find("cos f32[*]")
        [Hit(address='1:cos', why=('primitive cos', 'type f32[3]'))]
    """

    def __init__(self, index: Index) -> None:
        self._program = index.program
        self._searched = Searched(index)

    def find(self, text: str) -> list[Hit]:
        """The places that match all words, in program order; none if there are no words.

        Raises:
            PanelError: A word with a prefix makes no sense.
        """
        with without_collection():
            return self._hits([self._word(word) for word in _words(text)])

    def _hits(self, reasons: Sequence[_Found]) -> list[Hit]:
        """The places that every word found."""
        if not reasons:
            return []
        fewest = min(reasons, key=len)
        rows = self._searched.rows
        return [
            Hit(rows[k].address, tuple(dict.fromkeys(reason[k] for reason in reasons)))
            for k in sorted(fewest)
            if all(k in reason for reason in reasons)
        ]

    def _word(self, word: str) -> _Found:
        prefix = _PREFIX.fullmatch(word)
        if prefix:
            kind, rest = prefix[1], _bare(prefix[2])
            by_kind: dict[str, Callable[[str], _Found]] = {
                "prim": lambda rest: self._text("primitive", rest),
                "fn": lambda rest: self._text("function", rest),
                "name": lambda rest: self._text("name", rest),
                "source": lambda rest: self._text("source", rest),
                "dtype": self._dtype,
                "shape": lambda rest: self._shape(shape_of(rest)),
                "tag": self._tag,
                "scope": self._scope,
                "line": self._line,
            }
            return by_kind[kind](rest) if rest else {}
        return self._plain(_bare(word))

    def _plain(self, word: str) -> _Found:
        if letter := _LETTER.fullmatch(word):
            return self._letter(letter[1])
        if taxpr.Address(word).kind or ("/" in word and set("*?") & set(word)):
            found = self._address(word)
            if found:
                return found
        found: _Found = {}
        if _LINE.fullmatch(word):
            found = self._line(word)
        if type_ := TYPE.fullmatch(word):
            found |= self._shape(type_)
        elif DTYPE.fullmatch(word):
            found |= self._dtype(word)
        columns = ["tag", "name", "primitive", "scope", "function", "label"]
        if DTYPE.fullmatch(word):
            columns = ["tag", "name"]  # `f16` is no part of `bf16`
        for column in columns:
            found = self._text(column, word) | found
        return found

    # --- what a word can match --------------------------------------------------------------------

    def _text(self, column: str, word: str) -> _Found:
        """Texts of which the word is a part; of a glob, those that fit it."""
        texts, word = self._searched.columns[column](), word.lower()
        if column != "label" and set("*?") & set(word):
            fits = re.compile(fnmatch.translate(word)).match
            return {k: f"{column} {text}" for k, text in enumerate(texts) if fits(text.lower())}
        return {k: f"{column} {text}" for k, text in enumerate(texts) if word in text.lower()}

    def _tag(self, pattern: str) -> _Found:
        sites = self._program.tags(taxpr.maybe(pattern))
        return {self._searched.at[site.address]: f"tag {site.name}" for site in sites}

    def _scope(self, pattern: str) -> _Found:
        searched, selector = self._searched, taxpr.scope(pattern)
        fits = functools.cache(
            lambda scope: selector.fits(searched.rows[searched.scope_rows[scope]])
        )
        return {k: f"scope {scope}" for k, scope in enumerate(searched.scopes) if fits(scope)}

    def _line(self, at: str) -> _Found:
        try:
            selector = taxpr.line(int(at) if at.isdigit() else at)
        except taxpr.SelectorError as error:
            raise PanelError(str(error)) from None
        known: dict[Any, bool] = {}
        found = {}
        for k, source in enumerate(self._searched.sources):
            if source is None:
                continue
            if source not in known:
                known[source] = selector.fits(self._searched.rows[k])
            if known[source]:
                found[k] = f"line {source.line} of {short.visible(source.file)}"
        return found

    def _shape(self, pattern: re.Match[str]) -> _Found:
        dtype, sizes = pattern[1], sizes_of(pattern[2])

        @functools.cache
        def fits(type_: str) -> bool:
            own = TYPE.fullmatch(type_)
            if own is None or (dtype and own[1].lower() != dtype.lower()):
                return False
            return fits_sizes(sizes_of(own[2]), sizes)

        return self._types_where(fits)

    def _dtype(self, word: str) -> _Found:
        word = word.lower()

        @functools.cache
        def fits(type_: str) -> bool:
            own = TYPE.fullmatch(type_)
            return own is not None and word in (
                own[1].lower(),
                self._searched.long_names.get(own[1]),
            )

        return self._types_where(fits)

    def _types_where(self, fits: Callable[[str], bool]) -> _Found:
        found = {}
        for k, types in enumerate(self._searched.types):
            for type_ in types:
                if fits(type_):
                    found[k] = f"type {type_}"
                    break
        return found

    def _letter(self, letter: str) -> _Found:
        variables = {var for var, own in self._searched.letters.items() if own == letter}
        return {
            k: f"variable {letter}"
            for k, row in enumerate(self._searched.rows)
            if not variables.isdisjoint(row.made)
        }

    def _address(self, word: str) -> _Found:
        if set("*?") & set(word):
            fits = re.compile(fnmatch.translate(word)).match
            return {k: "address" for k, row in enumerate(self._searched.rows) if fits(row.address)}
        k = self._searched.at.get(taxpr.Address(word).eqn)
        return {} if k is None else {k: "address"}


def _words(text: str) -> Iterable[str]:
    words = _WORD.findall(text)
    k = 0
    while k < len(words):
        if words[k].lower() == "line" and k + 1 < len(words) and words[k + 1].isdigit():
            yield f"line:{words[k + 1]}"
            k += 1
        else:
            yield words[k]
        k += 1


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word
