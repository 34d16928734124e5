"""Count the turns of phrase that make documents hard to read, and say where they are.

    .envs/newest/bin/python tools/words.py [--where NAME]

Reads README and pages, the docstrings of both packages, the text cells of notebooks, and the
messages in strings of Python and of the browser's modules. Code is left out. Prints a table: a row
for each phrase, a column for each kind of text. With `--where what` it prints each place of the
phrase `what`. `tests/docs/test_words.py` has the most that there may be of each.
"""

import argparse
import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PHRASES = {
    # "What is rounding is no row": the subject is a riddle until the sentence ends.
    "what-subject": r"(?:^|[.:;] )What (?!to\b|if\b|JAX\b)[^?]*?\.(?=\s|$)",
    "what": r"\b(?:of|for|in|by|as|is|are|with|from|to|and|or|than|on|at|but) what\b",
    # "where" for "if".
    "where": r"(?:^|[.;,] )[Ww]here (?:it|they|there|that|this|a|an|all|none|one|two|no|not)\b",
    "that-of": r"\b(?:that|those) of\b",
    "is-none": r"\b(?:is|are) (?:none|one)\b",
    "stands": r"\bstands?\b",
    "preposition-which": r"\b(?:of|in|by|from|with|to|at|for|on) (?:which|whose)\b",
    "of-first": r"(?:^|[.:] )Of [a-z]",
    # Words that the field has others for: fix, batch element, iteration, remove tags.
    "own-words": r"\b(?:cures?|mend(?:s|ed)?|lanes?|turns? of the|number of Python)\b",
}
KINDS = "documents", "docstrings", "notebooks", "messages"


def texts(kind: str) -> Iterator[tuple[str, int, str]]:
    """Paragraphs of prose: the file, the line where each begins, the text on one line."""
    if kind == "documents":
        for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
            # Tables of the reference are made of docstrings, which are counted there.
            if file.parent.name != "reference":
                yield from _paragraphs(file, file.read_text(encoding="utf-8"), 1)
    elif kind == "docstrings":
        for package in ("taxpr", "taxpr_jupyter"):
            for file in sorted((ROOT / package).rglob("*.py")):
                yield from _docstrings(file)
    elif kind == "messages":
        for package in ("taxpr", "taxpr_jupyter"):
            for file in sorted((ROOT / package).rglob("*.py")):
                yield from _messages(file)
            for file in sorted((ROOT / package).rglob("*.js")):
                yield from _quoted(file)
    else:
        for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
            cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
            for number, cell in enumerate(cells):
                if cell["cell_type"] == "markdown":
                    yield from _paragraphs(file, "".join(cell["source"]), number)


@functools.cache
def _read(kind: str, root: Path) -> list[tuple[str, int, str]]:
    """`texts`, read once for all phrases."""
    del root  # which `texts` takes from the module
    return list(texts(kind))


def _docstrings(file: Path) -> Iterator[tuple[str, int, str]]:
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, holders) and (text := ast.get_docstring(node)):
            yield from _paragraphs(file, text, node.body[0].lineno)


def _messages(file: Path) -> Iterator[tuple[str, int, str]]:
    """Strings that read as sentences and are no docstring, with `x` for each value in them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    passed = {id(node.value) for node in statements}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed.update(map(id, node.values))
            parts = [getattr(one, "value", "") for one in node.values]
            text = "".join(one if isinstance(one, str) else "`x`" for one in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in passed and text.count(" ") > 2:
            yield _placed(file, node.lineno, text.split("\n"))


def _quoted(file: Path) -> Iterator[tuple[str, int, str]]:
    """Quoted strings of a module of the browser that read as sentences."""
    for number, row in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not row.lstrip().startswith(("//", "*", "/*")):
            for text in re.findall(r"\"([^\"]+)\"|`([^`]+)`", row):
                if "".join(text).count(" ") > 2:
                    yield _placed(file, number, ["".join(text)])


def _paragraphs(file: Path, text: str, line: int) -> Iterator[tuple[str, int, str]]:
    fenced, held, begin = False, [], line
    for number, row in enumerate([*text.split("\n"), ""], line):
        fence = row.lstrip().startswith("```")
        prose = row.strip() and not fenced and not fence and not row.startswith((" " * 8, ">>>"))
        if prose and not re.match(r"\s*(?:[-*|#]|\d+\.|[a-z_]+:) ", row):
            begin = begin if held else number
            held.append(row.strip())
            continue
        if held:
            yield _placed(file, begin, held)
        fenced ^= fence
        begin, held = number, [re.sub(r"^\s*[-*#|] ?", "", row).strip()] if prose else []


def _placed(file: Path, line: int, rows: list[str]) -> tuple[str, int, str]:
    text = re.sub(r"`[^`]*`", "`x`", " ".join(rows))
    return str(file.relative_to(ROOT)), line, text


def places(kind: str, phrase: str) -> list[tuple[str, int, str]]:
    """Each place of a phrase in a kind of text: the file, the line, the words around it."""
    return [
        (file, line, text[max(0, match.start() - 50) : match.end() + 50])
        for file, line, text in _read(kind, ROOT)
        for match in re.finditer(PHRASES[phrase], text)
    ]


def counts() -> dict[str, dict[str, int]]:
    """How often each phrase occurs in each kind of text."""
    return {name: {kind: len(places(kind, name)) for kind in KINDS} for name in PHRASES}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--where", choices=PHRASES, help="print each place of this phrase")
    parser.add_argument("--kind", choices=KINDS, help="only in these texts")
    given = parser.parse_args()
    if given.where:
        for kind in [given.kind] if given.kind else KINDS:
            for file, line, words in places(kind, given.where):
                print(f"{file}:{line}: … {words} …")
        return
    print(f"{'':20}" + "".join(f"{kind:>12}" for kind in KINDS))
    for name, row in counts().items():
        print(f"{name:20}" + "".join(f"{row[kind]:12}" for kind in KINDS))


if __name__ == "__main__":
    main()
