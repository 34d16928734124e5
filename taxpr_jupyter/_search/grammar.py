r"""The grammar of searches, for `find.py` and for `search.js` of a saved page.

A search is a list of words, and all of them must match; case is ignored. A plain word matches
labels and names of primitives, tags, inputs, scopes and functions. Some words have a special form:

    ======================  ============================================================
    ``bf16`` ``float32``    a dtype
    ``[2,16]`` ``f32[*,64]``  a shape; ``*`` is any size and ``...`` any number of them
    ``model.py:12``         a line of the source; also ``line 12``
    ``cd:``                 the value with this letter, as `print(jaxpr)` shows it
    ``3:scan/body/*``       an address, or a glob of them
    ``"two words"``         a text with a space
    ======================  ============================================================

A prefix tells what to compare a word with: ``prim:dot``, ``fn:loss``, ``name:w1``,
``source:model.py`` (parts of texts, or globs), ``var:scores`` (variables of the source, if the
program was traced with names), ``dtype:``, ``shape:``; ``tag:``, ``scope:`` and ``line:`` mean the
same as the selectors of taxpr. Globs may contain ``*`` and ``?``. In the panel a search can also be
a selector in Python, see `typed`.

Patterns are regular expressions that mean the same in Python and in JavaScript. They ignore case.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.saved_page import Criterion, Grammar

_SIZE = r"\s*(?:[0-9]+|\*|\.\.\.)\s*"
_SIZES = rf"((?:{_SIZE}(?:,{_SIZE})*,?)?\s*)"
_DTYPE = r"[\w<>]+"

GRAMMAR: Grammar = {
    "criteria": {
        "prim": {"words": "a primitive", "example": "prim:dot"},
        "name": {"words": "an argument, a result, a module", "example": "name:params"},
        "tag": {"words": "a tag", "example": "tag:loss"},
        "dtype": {"words": "a dtype", "example": "dtype:bf16"},
        "shape": {
            "words": "a shape; * is any size, ... any number of them",
            "example": "shape:[2,*]",
        },
        "source": {
            "words": "a file, a line as model.py:12, or a function",
            "example": "source:model.py",
        },
        "line": {"words": "a line of the source", "example": "line:12"},
        "var": {"words": "a variable, after tracing with names", "example": "var:scores"},
        "fn": {"words": "a function of the source", "example": "fn:loss"},
        "scope": {"words": "a part of the name stack", "example": "scope:block_0"},
    },
    "texts": {
        "prim": "primitive",
        "fn": "function",
        "name": "name",
        "source": "source",
        "var": "variable",
    },
    "plain": ["tag", "name", "primitive", "scope", "function", "label", "variable"],
    "dtypes": {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"},
    "patterns": {
        "word": r'line\s+[0-9]+(?!\S)|(?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\S)+',
        "prefix": r"([a-z_]+):(.*)",
        "line": r"(?:(.+):)?([0-9]+)",
        "lineOfFile": r"\S+\.\w+:[0-9]+",
        "scope": r".*[^/].*",
        "letter": rf"([a-z]+):(?:{_DTYPE}\[.*)?",
        "longDtype": r"(bfloat|float|uint|int|complex)([0-9]\w*)",
        "dtype": r"(?:b?f|[iuc])[0-9]+(?:_\w+)?|bool|key(?:<\w+>)?",
        "shape": rf"(?:Ref\{{)?({_DTYPE}(?=[\[(]))?(?:\[{_SIZES}\]|\({_SIZES}\)|{_SIZES})\}}?",
        "type": rf"(?:Ref\{{)?({_DTYPE})\[([^\]]*)\]\}}?",
        "selector": r"\s*(?:(?:taxpr\.)?(?:var|scope|line|tag|prim|cotangent)\("
        r"|[{\[]\s*(?:[\"'{]|(?:taxpr\.)?[a-z_]\w*\()).*",
    },
    "mistakes": {
        "empty": "Nothing follows {kind}: in the search. An example: {example}",
        "unknown": "A search knows no {kind}: but {known}. In quotes, {quoted} is searched "
        "literally.",
        "shape": "{rest} is no shape. Examples: {example} shape:[...,64]",
        "line": "{rest} is no line. An example: {example}",
        "scope": "{rest} is no part of a name stack. An example: {example}",
        "selector": "This is a selector in Python, and a saved page has no Python. Type "
        "var:scores, line:12 or scope:block_0 here, or the selector in the panel of a notebook.",
        "variables": "The program knows no variables of the source: it was traced before, or "
        "beside a debugger, or its derivative would keep more for them. "
        "taxpr.trace(f, names=True) notes them even so.",
    },
}

CRITERIA: dict[str, Criterion] = GRAMMAR["criteria"]
PATTERNS = {
    name: re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for name, pattern in GRAMMAR["patterns"].items()
}


def examples() -> list[tuple[str, str]]:
    """An example of each prefix, and a description."""
    return [(one["example"], one["words"]) for one in CRITERIA.values()]


class Word(NamedTuple):
    """A word of a search.

    Attributes:
        kind: Its prefix, one of the criteria; "" for a plain word.
        text: The text to find.
    """

    kind: str
    text: str


def words_of(text: str) -> list[Word]:
    """The words of a search.

    Raises:
        PanelError: One of them has an unknown prefix, or a text that its prefix does not allow.
    """
    return [_word(match[0]) for match in PATTERNS["word"].finditer(text)]


def _word(word: str) -> Word:
    word = re.sub(r"^line\s+", "line:", word, flags=re.IGNORECASE)
    prefix = PATTERNS["prefix"].fullmatch(word)
    kind, rest = (prefix[1].lower(), _bare(prefix[2])) if prefix else ("", "")
    letter = PATTERNS["letter"].fullmatch(word)
    mistake = ""
    if kind not in CRITERIA:
        mistake = "" if not prefix or letter else "unknown"
    elif not rest:
        mistake = "empty"
    elif kind in GRAMMAR["mistakes"] and not PATTERNS[kind].fullmatch(rest):
        mistake = kind
    if mistake:
        raise PanelError(
            GRAMMAR["mistakes"][mistake].format(
                kind=kind,
                rest=rest,
                example=CRITERIA[kind]["example"] if kind in CRITERIA else "",
                known=" ".join(f"{one}:" for one in CRITERIA),
                quoted=f'"{word}"',
            )
        )
    return Word(kind, rest) if kind in CRITERIA else Word("", _bare(word))


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def short_dtype(name: str) -> str:
    """`f32` for `float32`."""
    return PATTERNS["longDtype"].sub(lambda m: GRAMMAR["dtypes"][m[1]] + m[2], name.lower())


def type_test(text: str) -> Callable[[str], bool] | None:
    """A test whether a type, such as `f32[2,16]`, fits a pattern, such as `f32[*,16]` or `2,*`.

    None if the text is no such pattern.
    """
    wanted = PATTERNS["shape"].fullmatch(text)
    if wanted is None:
        return None
    dtype = short_dtype(wanted[1] or "")
    sizes = sizes_of("".join(filter(None, wanted.groups()[1:])))
    any_ = {"*": "[^,]+,", "...": "(?:[^,]+,)*"}
    pattern = re.compile("".join(any_.get(size, f"{size},") for size in sizes))

    def fits(type_: str) -> bool:
        own = PATTERNS["type"].fullmatch(type_)
        if own is None or (dtype and own[1].lower() != dtype):
            return False
        return bool(pattern.fullmatch("".join(f"{size}," for size in sizes_of(own[2]))))

    return fits


def sizes_of(text: str) -> Sequence[str]:
    """The sizes in a shape: `["2", "16"]`; `8` for a sharded `8@x`."""
    return [size.strip().partition("@")[0] for size in text.split(",") if size.strip()]


def glob(text: str) -> re.Pattern[str]:
    """A glob, a text with ``*`` and ``?``, as a regular expression."""
    pattern = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def is_glob(text: str) -> bool:
    """Whether a text has ``*`` or ``?`` in it."""
    return bool(set("*?") & set(text))
