"""`Finder`: find the addresses that match the words of a search. `grammar` says what they mean."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import taxpr
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._errors import PanelError, one_line
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
from taxpr_jupyter._search.typed import is_selector, selector_of
from taxpr_jupyter._text.short import Where, file_and_line, visible

_Fact = TypeVar("_Fact")


class Hit(NamedTuple):
    """A place that a search found.

    Attributes:
        address: The address of an equation, input, constant or output.
        why: The match of the words, such as ``"type bf16[2,16]"``.
    """

    address: str
    why: tuple[str, ...]


_Found = dict[int, str]  # from the number of a row to what matched


class Finder:
    """Searches one program. The texts to search are made on demand, and once.

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

        A selector in Python, such as ``var("h")``, finds the values that it means.

        Raises:
            PanelError: A word has an unknown prefix, or a text that its prefix does not allow; or
                the selector means nothing.
        """
        if is_selector(text):
            return self._meant(text)
        words = words_of(text)
        with without_collection():
            return self._hits([self._found(word) for word in words])

    def _meant(self, text: str) -> list[Hit]:
        """The values that a selector means; of an equation with one result the equation."""
        try:
            found = taxpr.find_values(self._program, selector_of(text))
        except taxpr.TaxprError as error:
            raise PanelError(one_line(error)) from None
        rows, at = self._searched.rows, self._searched.at
        addresses = [
            one.address.eqn if len(rows[at[one.address.eqn]].made) == 1 else one.address
            for one in found
        ]
        return [Hit(str(address), (text.strip(),)) for address in addresses]

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
            # A saved page has no folders, so search them only if the text has one.
            of_path = kind == "source" and "/" in text
            return self._text("path" if of_path else GRAMMAR["texts"][kind], text)
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
        name, _, number = word.rpartition("#")
        if name and number.isdecimal() and self._program.variables():
            return self._occurrence(name, int(number))
        may_be_address = taxpr.Address(word).kind or ("/" in word and is_glob(word))
        if may_be_address and (found := self._address(word)):
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

    # --- the rows that a word matches -------------------------------------------------------------

    def _text(self, column: str, word: str) -> _Found:
        """Rows whose text contains the word, or fits it if it is a glob."""
        texts = self._searched.columns[column]()
        fits = glob(word).fullmatch if is_glob(word) else glob(word).search
        return {k: f"{column} {text}" for k, text in enumerate(texts) if text and fits(text)}

    def _tag(self, pattern: str) -> _Found:
        sites = self._program.tags(taxpr.maybe(_no_sets(pattern)))
        return {self._searched.at[site.address]: f"tag {site.name}" for site in sites}

    def _scope(self, pattern: str) -> _Found:
        found = self._selected(taxpr.scope(_no_sets(pattern)), self._searched.scopes)
        return {k: f"scope {scope}" for k, scope in found}

    def _line(self, at: str) -> _Found:
        selector = taxpr.line(int(at) if at.isdigit() else at)
        found = self._selected(selector, self._searched.sources)
        return {k: f"line {source.line} of {visible(source.file)}" for k, source in found if source}

    def _selected(self, selector: Any, facts: Sequence[_Fact]) -> Iterator[tuple[int, _Fact]]:
        """The rows that a selector fits, with their facts: rows of equal facts are tried once."""
        last = {fact: k for k, fact in enumerate(facts)}
        fitting = {fact for fact, k in last.items() if selector.fits(self._searched.rows[k])}
        return ((k, fact) for k, fact in enumerate(facts) if fact in fitting)

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
        firsts = (next(filter(fits, types), None) for types in self._searched.types)
        return {k: f"type {type_}" for k, type_ in enumerate(firsts) if type_ is not None}

    def _occurrence(self, name: str, number: int) -> _Found:
        return {
            self._searched.at[one.address.eqn]: f"value {number} of {one.short}"
            for one in self._program.variables()
            if one.occurrence == number and name in (one.text, one.short)
        }

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
    """A glob for a selector, with brackets as plain characters."""
    return pattern.replace("[", "[[]")
