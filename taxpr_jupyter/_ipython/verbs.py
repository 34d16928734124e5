"""Words of ``%taxpr``, such as ``tag h``: methods of the session that a cell opened last."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._errors import PanelError, nearest
from taxpr_jupyter._session.cells import CELLS
from taxpr_jupyter._session.session import Session

_PIECE = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"']|["'])+""")
# A line of a notebook is called as in `cell 3:2`.
_EDIT = re.compile(r"(cell \d+:\d+|[^\s=]+)\s*(?:=(?!=))?\s*(.*)", re.DOTALL)
_VERB = re.compile(r"(\w+)(?=\s|;?\s*$)")
_QUOTED = re.compile(r"""(["'])(.*)\1""")
_PARAM = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class VerbCall:
    """The words after a verb, with the session that it acts on.

    Attributes:
        session: The session.
        text: The rest of the line after the verb and its options, as written.
        space: The names of the notebook.
        device: Where to run; None for the session's own device.
    """

    session: Session
    text: str
    space: Mapping[str, Any]
    device: str | None = None

    @property
    def words(self) -> list[str]:
        """The words of the text; brackets and quotes hold theirs together."""
        return words_of(self.text)


@dataclasses.dataclass(frozen=True)
class Verb:
    """A word that stands in the place of a call.

    Attributes:
        usage: The words after it, in capitals; in brackets if they may be left out.
        help: Its effect, in one sentence.
        example: A whole line.
        least: The least number of words that follow.
        most: The greatest number; None for any.
        do: Does it.
        options: The kind of completions of each word after it, see `_known`.
        runs: Whether it takes ``--device``.
    """

    usage: str
    help: str
    example: str
    least: int
    most: int | None
    do: Callable[[VerbCall], Any]
    options: Sequence[str] = ()
    runs: bool = False


def _tag(call: VerbCall) -> Any:
    where, *name = call.words
    return call.session.tag(_place(where, call.space), *map(_bare, name))


def _inject(call: VerbCall) -> Any:
    where, injector, *given = call.words
    texts: dict[str, str] = {}
    for word in given:
        if pair := _PARAM.fullmatch(word):
            texts[pair[1]] = pair[2]
        elif texts:  # a value with spaces
            texts[list(texts)[-1]] += f" {word}"
        else:
            raise PanelError(f"{word!r} is no parameter: write name=value, such as factor=0.5")
    values = {name: _python(text, call.space) for name, text in texts.items()}
    return call.session.attach(_place(where, call.space), _bare(injector), **values)


def _edit(call: VerbCall) -> Any:
    parts = _EDIT.fullmatch(call.text)
    if parts is None:  # it begins with the sign
        raise PanelError(_needs("edit"))
    return call.session.edit(parts[1], parts[2])


def _watch(call: VerbCall) -> Any:
    words = call.words
    recording = call.session.watch(call.device)
    return recording[_place(words[0], call.space)] if words else recording


def _run(call: VerbCall) -> Any:
    return call.session.run(call.device)


def _find_nan(call: VerbCall) -> Any:
    return call.session.find_nan(call.device)


VERBS: Mapping[str, Verb] = {
    "tag": Verb(
        "WHERE [NAME]",
        "tag a value",
        "%taxpr tag h",
        least=1,
        most=2,
        do=_tag,
        options=("places",),
    ),
    "inject": Verb(
        "WHERE INJECTOR [PARAM=VALUE ...]",
        "attach an injector to a value",
        "%taxpr inject h scale factor=0.5",
        least=2,
        most=None,
        do=_inject,
        options=("places", "injectors"),
    ),
    "edit": Verb(
        "WHERE = EXPRESSION",
        "give a line of the source another right-hand side",
        "%taxpr edit h = jnp.sin(x)",
        least=2,
        most=None,
        do=_edit,
        options=("lines",),
    ),
    "watch": Verb(
        "[VARIABLE]",
        "run, and keep the values of variables",
        "%taxpr watch h",
        least=0,
        most=1,
        do=_watch,
        options=("variables",),
        runs=True,
    ),
    "run": Verb(
        "",
        "run with the injectors, beside the untouched program",
        "%taxpr run",
        least=0,
        most=0,
        do=_run,
        runs=True,
    ),
    "find_nan": Verb(
        "",
        "find the first value that is not finite",
        "%taxpr find_nan",
        least=0,
        most=0,
        do=_find_nan,
        runs=True,
    ),
}
WHERE = (
    "WHERE is a variable (h, loss.h, or h#1 for its second value), the name of a tag, an address "
    "of the picture (3:sin), or a selector in Python (taxpr.var('h', line=3)) without spaces "
    "outside of brackets; a list in Python, such as ['h'], means all values of its items."
)


def verb_of(text: str) -> str | None:
    """The verb that the text begins with; None for a call, also of a function of that name."""
    found = _VERB.match(text)
    if found is None or found[1] not in VERBS:
        return None
    return None if text[found.end() :].lstrip().startswith("(") else found[1]


def refuse_other_words(text: str, space: Mapping[str, Any]) -> None:
    """Raise if the line of ``%taxpr`` begins with a word that is no verb, nor Python.

    Raises:
        PanelError: Names the verbs.
    """
    found = _VERB.match(text)
    if found is None or found[1] in space or keyword.iskeyword(found[1]):
        return
    if text[found.end() :].strip(" ;"):
        with contextlib.suppress(SyntaxError):
            ast.parse(text)
            return
    words = nearest(found[1], [*VERBS, "why"])
    raise PanelError(
        f"%taxpr knows no word {found[1]!r}. It takes a call, as in `%taxpr f(x)`, or one of its "
        f"words: {words}. `%taxpr?` tells more"
    )


def help_of(name: str) -> str:
    """How a verb is used."""
    verb = VERBS[name]
    options = "[--name NAME]" + " [--device DEVICE]" * verb.runs
    lines = [
        f"usage: %taxpr {name} {options} {verb.usage}".strip(),
        "",
        f"{verb.help[0].upper()}{verb.help[1:]}: `{verb.example}`. It is done in the session that "
        "a cell opened last, or in the one that is called NAME.",
    ]
    return "\n".join([*lines, *([WHERE] if "WHERE" in verb.usage else [])])


def session_of(name: str | None, space: Mapping[str, Any]) -> Session:
    """The session of that name, or the one that a cell opened last.

    Raises:
        PanelError: There is none.
    """
    if name is None:
        if CELLS.last is None:
            raise PanelError(
                "There is no session yet, or it is gone: open one by %%taxpr in a cell that ends "
                "with a call, or by panel(f)(x)"
            )
        return CELLS.last
    found = space.get(name)
    if not isinstance(found, Session):
        known = [key for key, one in space.items() if isinstance(one, Session) and key[0] != "_"]
        raise PanelError(
            f"There is no session {name!r}. Sessions: {nearest(name, known) or 'none'}"
        )
    return found


def do(name: str, call: VerbCall) -> Any:
    """Does what a verb says.

    Raises:
        PanelError: Words are missing, or too many; or the session cannot do it.
    """
    verb, given = VERBS[name], len(call.words)
    if given < verb.least:
        raise PanelError(_needs(name))
    if verb.most is not None and given > verb.most:
        takes = f"takes {verb.usage} and nothing more" if verb.usage else "takes nothing more"
        raise PanelError(
            f"%taxpr {name} {takes}: {' '.join(call.words[verb.most :])!r} is too much"
        )
    return verb.do(call)


def _needs(name: str) -> str:
    return f"%taxpr {name} needs {VERBS[name].usage}, as in `{VERBS[name].example}`"


def first_words(text: str) -> tuple[str, list[str]]:
    """The text, and the verbs that it may become."""
    return text, [one for one in (*VERBS, "why") if one.startswith(text)]


def next_words(name: str, text: str, session: Session) -> tuple[str, list[str]]:
    """The last word after a verb, and its completions."""
    before = words_of(text)
    word = "" if not before or text[-1].isspace() else before.pop()
    return word, [one for one in _known(name, before, session) if one.startswith(word)]


def words_of(text: str) -> list[str]:
    """The words of a text; brackets and quotes hold theirs together.

    Example:
        >>> words_of("h scale factor=f(1, 'a b') k=[1, 2]")
        ['h', 'scale', "factor=f(1, 'a b')", 'k=[1, 2]']
    """
    words: list[str] = []
    depth = end = 0
    for piece in _PIECE.finditer(text):
        if depth > 0:
            words[-1] += text[end : piece.start()] + piece[0]
        else:
            words.append(piece[0])
        bare = re.sub(r"""("[^"]*"|'[^']*')""", "", words[-1])
        depth = sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        end = piece.end()
    return words


def _known(name: str, before: Sequence[str], session: Session) -> list[str]:
    """The words that may follow the ones before."""
    kinds = VERBS[name].options
    if len(before) >= len(kinds):
        choice = session.choices().get(before[1]) if name == "inject" else None
        taken = {pair[1] for word in before[2:] if (pair := _PARAM.fullmatch(word))}
        return [f"{one}=" for one in choice.params if one not in taken] if choice else []
    kind = kinds[len(before)]
    if kind == "injectors":
        return list(session.choices())
    if kind == "lines":
        return session.editable()
    tags = [site.name for site in session.sites() if site.name]
    return list(dict.fromkeys([*_variables(session), *(tags if kind == "places" else [])]))


def _variables(session: Session) -> Iterator[str]:
    """The names of variables, in program order; those of two functions after their functions.

    A variable is left out if two functions of one name have it, such as two lambdas.
    """
    found = session.edited.variables()
    every = [(one.text, f"{one.function.replace('.<locals>', '')}.{one.text}") for one in found]
    owners: dict[str, set[tuple[str, int, str]]] = {}
    values: dict[str, dict[int, None]] = {}
    for one, names in zip(found, every, strict=True):
        for name in names:
            owners.setdefault(name, set()).add(one.owner)
            values.setdefault(name, {})[one.occurrence] = None
    for names in every:
        name = next((name for name in names if len(owners[name]) == 1), None)
        if name and name in values:
            numbers = values.pop(name)
            yield from (f"{name}#{k}" for k in numbers) if len(numbers) > 1 else [name]


def _place(word: str, space: Mapping[str, Any]) -> Any:
    """The word itself, as methods of the session take it; the value of a selector in Python."""
    return _python(word, space) if word.endswith(")") or word[0] == "[" else _bare(word)


def _bare(word: str) -> str:
    """A name without the quotes around it."""
    found = _QUOTED.fullmatch(word)
    return found[2] if found else word


def _python(text: str, space: Mapping[str, Any]) -> Any:
    """The value of an expression; names of taxpr are known if the notebook has none such.

    Raises:
        PanelError: If it cannot be evaluated.
    """
    try:
        return eval(text, {**vars(taxpr), **space})
    except Exception as error:
        raise PanelError(f"{text!r} cannot be evaluated: {type(error).__name__}: {error}") from None
