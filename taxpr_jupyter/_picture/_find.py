"""Searching a program: a few words in, addresses out.

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

A prefix says what a word is about: ``prim:dot``, ``fn:loss`` (parts of names, or globs),
``dtype:``, ``shape:``, and ``tag:``, ``scope:``, ``line:``, which mean what the selectors of taxpr
mean.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._picture import _labels, _text
from taxpr_jupyter._picture._types import DTYPE, TYPE, fits_sizes, shape_of, sizes_of

_WORD = re.compile(r'(?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\S)+')
_PREFIX = re.compile(r"(prim|fn|dtype|shape|tag|scope|line):(.*)", re.S)
_LINE = re.compile(r"\S+\.\w+:\d+")
_LETTER = re.compile(r"([a-z]+):")
_ADDRESS = re.compile(r"(.*/)?(\d+:[^.]+|t\d+|(?:in|out|const)\d+)(\.\d+)?")


class Hit(NamedTuple):
    """Something found.

    Attributes:
        address: Of an equation, input, constant or output.
        why: For each word what it matched, such as ``"type bf16[2,16]"``.
    """

    address: str
    why: tuple[str, ...]


class _Around(NamedTuple):
    eqn: Any


class _Row(NamedTuple):
    """A place; also what selectors of taxpr choose from."""

    address: str
    eqn: Any  # None for an input or a constant
    steps: Any  # tuple of `_Around`; a selector looks at the equations only
    vars: Sequence[Any]
    name: str  # of an input or output


_Found = dict[int, str]  # row and why


class Finder:
    """Searches one program. What a search needs to know is found when it is needed, and once.

    Args:
        program: The program.
    """

    def __init__(self, program: Any) -> None:
        self._program = program

    def find(self, text: str) -> list[Hit]:
        """What matches all words, in program order; nothing where there are no words.

        Raises:
            PanelError: A word with a prefix makes no sense.
        """
        found: _Found | None = None
        reasons: list[_Found] = []
        for word in _words(text):
            new = self._word(word)
            reasons.append(new)
            found = new if found is None else {k: why for k, why in found.items() if k in new}
        return [
            Hit(self._rows[k].address, tuple(dict.fromkeys(reason[k] for reason in reasons)))
            for k in sorted(found or ())
        ]

    def _word(self, word: str) -> _Found:
        prefix = _PREFIX.fullmatch(word)
        if prefix:
            kind, rest = prefix[1], _bare(prefix[2])
            by_kind: dict[str, Callable[[str], _Found]] = {
                "prim": lambda rest: self._text("primitive", rest),
                "fn": lambda rest: self._text("function", rest),
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
        if _ADDRESS.fullmatch(word) or ("/" in word and set("*?") & set(word)):
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
        texts, word = self._columns[column](), word.lower()
        if column != "label" and set("*?") & set(word):
            fits = re.compile(fnmatch.translate(word)).match
            return {k: f"{column} {text}" for k, text in enumerate(texts) if fits(text.lower())}
        return {k: f"{column} {text}" for k, text in enumerate(texts) if word in text.lower()}

    def _tag(self, pattern: str) -> _Found:
        sites = self._program.tags(taxpr.maybe(pattern))
        return {self._at[site.address]: f"tag {site.name}" for site in sites}

    def _scope(self, pattern: str) -> _Found:
        fits = functools.cache(lambda scope: selector.fits(self._rows[self._scope_rows[scope]]))
        selector = taxpr.scope(pattern)
        return {k: f"scope {scope}" for k, scope in enumerate(self._scopes) if fits(scope)}

    def _line(self, at: str) -> _Found:
        try:
            selector = taxpr.line(int(at) if at.isdigit() else at)
        except taxpr.SelectorError as error:
            raise PanelError(str(error)) from None
        known: dict[Any, bool] = {}
        found = {}
        for k, source in enumerate(self._sources):
            if source is None:
                continue
            if source not in known:
                known[source] = selector.fits(self._rows[k])
            if known[source]:
                found[k] = f"line {source.line} of {_text.visible(source.file)}"
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
            return own is not None and word in (own[1].lower(), self._long_names.get(own[1]))

        return self._types_where(fits)

    def _types_where(self, fits: Callable[[str], bool]) -> _Found:
        found = {}
        for k, types in enumerate(self._types):
            for type_ in types:
                if fits(type_):
                    found[k] = f"type {type_}"
                    break
        return found

    def _letter(self, letter: str) -> _Found:
        variables = {var for var, own in self._letters.items() if own == letter}
        return {
            k: f"variable {letter}"
            for k, row in enumerate(self._rows)
            if not variables.isdisjoint(row.vars)
        }

    def _address(self, word: str) -> _Found:
        if set("*?") & set(word):
            fits = re.compile(fnmatch.translate(word)).match
            return {k: "address" for k, row in enumerate(self._rows) if fits(row.address)}
        owner, dot, number = word.rpartition(".")
        k = self._at.get(owner if dot and number.isdigit() else word)
        return {} if k is None else {k: "address"}

    # --- what is known of the program, each found once --------------------------------------------

    @functools.cached_property
    def _rows(self) -> Sequence[_Row]:
        rows: list[_Row] = []

        def walk(prefix: str, jaxpr: Any, names: Sequence[str], steps: tuple[_Around, ...]) -> None:
            for k, var in enumerate(jaxpr.constvars):
                rows.append(_Row(f"{prefix}const{k}", None, steps, (var,), ""))
            for k, (var, name) in enumerate(zip(jaxpr.invars, names, strict=True)):
                # The roles in a nested jaxpr, such as "carry", are no names.
                rows.append(_Row(f"{prefix}in{k}", None, steps, (var,), "" if steps else name))
            for local, eqn in taxpr.numbered(jaxpr):
                address = f"{prefix}{local}"
                rows.append(_Row(address, eqn, steps, eqn.outvars, ""))
                for nested in taxpr.nested_jaxprs(eqn):
                    inside = (*steps, _Around(eqn))
                    walk(f"{address}/{nested.label}/", nested.jaxpr, nested.in_roles, inside)

        walk("", self._program, self._program.in_names, ())
        # What an output is, the equation that makes it says.
        rows += [_Row(f"out{k}", None, (), (), n) for k, n in enumerate(self._program.out_names)]
        return rows

    @functools.cached_property
    def _at(self) -> dict[str, int]:
        return {row.address: k for k, row in enumerate(self._rows)}

    @functools.cached_property
    def _letters(self) -> dict[Any, str]:
        return taxpr.var_names(self._program.jaxpr)

    @functools.cached_property
    def _long_names(self) -> dict[str, str]:
        """`float32` for `f32`, of the dtypes of this program."""
        names = {}
        for aval, text in self._avals.values():
            own = TYPE.fullmatch(text)
            if own and own[1] not in names:
                names[own[1]] = str(getattr(aval, "dtype", ""))
        return names

    @functools.cached_property
    def _avals(self) -> dict[int, tuple[Any, str]]:
        """Avals with their texts, by id: their hash takes long, and many are one object."""
        avals = {id(var.aval): var.aval for row in self._rows for var in row.vars}
        texts: dict[Any, str] = {}
        for aval in avals.values():
            if aval not in texts:
                texts[aval] = _text.aval_text(aval)
        return {number: (aval, texts[aval]) for number, aval in avals.items()}

    @functools.cached_property
    def _types(self) -> Sequence[Sequence[str]]:
        known = self._avals
        return [[known[id(var.aval)][1] for var in row.vars] for row in self._rows]

    @functools.cached_property
    def _scopes(self) -> Sequence[str]:
        """The whole scope of each equation; that of its name stack is relative to those around."""
        around: dict[int, str] = {}

        def scope(row: _Row) -> str:
            if row.eqn is None:
                return ""
            if id(row.steps) not in around:
                around[id(row.steps)] = "/".join(_scope_of(step.eqn) for step in row.steps)
            return "/".join(filter(None, (around[id(row.steps)], _scope_of(row.eqn))))

        return [scope(row) for row in self._rows]

    @functools.cached_property
    def _scope_rows(self) -> dict[str, int]:
        """For each scope a row in it, which is an equation where there is one."""
        return {scope: k for k, scope in enumerate(self._scopes)}

    @functools.cached_property
    def _sources(self) -> Sequence[taxpr.Source | None]:
        return [taxpr.source_of(row.eqn) if row.eqn else None for row in self._rows]

    @functools.cached_property
    def _columns(self) -> dict[str, Callable[[], Sequence[str]]]:
        """The texts of each row by what they are, "" where there is none."""

        def of_eqns(text: Callable[[Any], str]) -> Callable[[], Sequence[str]]:
            return functools.cache(
                lambda: [_text.visible(text(row.eqn)) if row.eqn else "" for row in self._rows]
            )

        return {
            "primitive": of_eqns(lambda eqn: "" if taxpr.is_tag(eqn) else eqn.primitive.name),
            "tag": of_eqns(lambda eqn: _tag_text(eqn) if taxpr.is_tag(eqn) else ""),
            "label": of_eqns(_label),
            "scope": lambda: self._scopes,
            "function": functools.cache(
                lambda: [
                    _text.visible(_text.function_name(source)) if source else ""
                    for source in self._sources
                ]
            ),
            "name": functools.cache(lambda: [_text.visible(row.name) for row in self._rows]),
        }


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


def _scope_of(eqn: Any) -> str:
    return _text.visible(taxpr.scope_of(eqn))


def _tag_text(eqn: Any) -> str:
    params = taxpr.tag_params(eqn)
    name = params.pop("name", None)
    more = [f"{key}={_text.param_text(value)}" for key, value in params.items()]
    return " ".join([*([str(name)] if name is not None else []), *more])


def _label(eqn: Any) -> str:
    if taxpr.is_hop(eqn):
        return _labels.hop_title(eqn)
    # What type it is, is found in another way.
    return " ".join(_labels.tag_lines(eqn) if taxpr.is_tag(eqn) else _labels.operation_lines(eqn))


def find(program: Any, text: str) -> list[Hit]:
    """Searches a program once; see `Finder.find`.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x: jnp.sin(x) * jnp.cos(x))(jnp.ones(3))
        >>> find(program, "cos f32[*]")
        [Hit(address='1:cos', why=('primitive cos', 'type f32[3]'))]
    """
    return Finder(program).find(text)
