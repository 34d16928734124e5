"""`Finder`: search a program by a few words for addresses. `grammar.py` says what they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._search.grammar import (
    GRAMMAR,
    PATTERNS,
    Word,
    glob,
    is_glob,
    short_dtype,
    type_test,
    words_of,
)
from taxpr_jupyter._search.searched import Searched
from taxpr_jupyter._text.short import Where, file_and_line, visible


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
        where: Writes a source.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x: jnp.sin(x) * jnp.cos(x))(jnp.ones(3))
        >>> Finder(Index(program)).find("cos f32[*]")
        [Hit(address='1:cos', why=('primitive cos', 'type f32[3]'))]
    """

    def __init__(self, index: Index, where: Where = file_and_line) -> None:
        self._program = index.program
        self._searched = Searched(index, where)

    def find(self, text: str) -> list[Hit]:
        """The places that match all words, in program order; none if there are no words.

        Raises:
            PanelError: A word makes no sense.
        """
        words = words_of(text)
        with without_collection():
            return self._hits([self._found(word) for word in words])

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

    def _found(self, word: Word) -> _Found:
        kind, text = word
        if kind == "var" and not self._program.variables():
            raise PanelError(GRAMMAR["mistakes"]["variables"])
        if kind in GRAMMAR["texts"]:
            # A page knows no folders; so only a search with one looks at them.
            return self._text(
                "path" if kind == "source" and "/" in text else GRAMMAR["texts"][kind], text
            )
        by_kind: dict[str, Callable[[str], _Found]] = {
            "": self._plain,
            "dtype": self._dtype,
            "shape": self._shape,
            "tag": self._tag,
            "scope": self._scope,
            "line": self._line,
        }
        return by_kind[kind](text)

    def _plain(self, word: str) -> _Found:
        if letter := PATTERNS["letter"].fullmatch(word):
            return self._letter(letter[1])
        if taxpr.Address(word).kind or ("/" in word and is_glob(word)):
            found = self._address(word)
            if found:
                return found
        found: _Found = {}
        if PATTERNS["lineOfFile"].fullmatch(word):
            found = self._line(word)
        if "[" in word:
            found |= self._shape(word)
        columns = GRAMMAR["plain"]
        if PATTERNS["dtype"].fullmatch(short_dtype(word)):
            found |= self._dtype(word)
            columns = columns[:2]  # `f16` is no part of `bf16`
        for column in columns:
            found = self._text(column, word) | found
        return found

    # --- what a word can match --------------------------------------------------------------------

    def _text(self, column: str, word: str) -> _Found:
        """Texts of which the word is a part; of a glob, those that fit it."""
        texts = self._searched.columns[column]()
        fits = glob(word).fullmatch if is_glob(word) else glob(word).search
        return {k: f"{column} {text}" for k, text in enumerate(texts) if text and fits(text)}

    def _tag(self, pattern: str) -> _Found:
        sites = self._program.tags(taxpr.maybe(_no_sets(pattern)))
        return {self._searched.at[site.address]: f"tag {site.name}" for site in sites}

    def _scope(self, pattern: str) -> _Found:
        searched, selector = self._searched, taxpr.scope(_no_sets(pattern))
        fits = functools.cache(
            lambda scope: selector.fits(searched.rows[searched.scope_rows[scope]])
        )
        return {k: f"scope {scope}" for k, scope in enumerate(searched.scopes) if fits(scope)}

    def _line(self, at: str) -> _Found:
        selector = taxpr.line(int(at) if at.isdigit() else at)
        known: dict[Any, bool] = {}
        found = {}
        for k, source in enumerate(self._searched.sources):
            if source is None:
                continue
            if source not in known:
                known[source] = selector.fits(self._searched.rows[k])
            if known[source]:
                found[k] = f"line {source.line} of {visible(source.file)}"
        return found

    def _shape(self, pattern: str) -> _Found:
        fits = type_test(pattern)
        return self._types_where(functools.cache(fits)) if fits else {}

    def _dtype(self, name: str) -> _Found:
        name = short_dtype(name)

        @functools.cache
        def fits(type_: str) -> bool:
            own = PATTERNS["type"].fullmatch(type_)
            return own is not None and own[1].lower() == name

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
        letter = letter.lower()
        variables = {var for var, own in self._searched.letters.items() if own == letter}
        return {
            k: f"variable {letter}"
            for k, row in enumerate(self._searched.rows)
            if not variables.isdisjoint(row.made)
        }

    def _address(self, word: str) -> _Found:
        if is_glob(word):
            fits = glob(word).fullmatch
            return {k: "address" for k, row in enumerate(self._searched.rows) if fits(row.address)}
        k = self._searched.at.get(taxpr.Address(word).eqn)
        return {} if k is None else {k: "address"}


def _no_sets(pattern: str) -> str:
    """A glob for a selector in which brackets stand for themselves."""
    return pattern.replace("[", "[[]")
