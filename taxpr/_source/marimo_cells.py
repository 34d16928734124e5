"""The cells of a file of marimo, as ``marimo run`` and ``python file.py`` compile them.

The file has a cell as a function, and marimo runs its body as a module: with the lines of the file,
and without the indentation.
"""

import ast
import tokenize
from collections.abc import Iterator, Sequence


def marimo_cells(tree: ast.Module, lines: Sequence[str]) -> Iterator[str]:
    """The text of each cell, at the lines where the file has it; of other files nothing.

    marimo compiles ``with app.setup:`` as the file has it.

    Args:
        tree: The file's syntax tree.
        lines: The file's text.

    Example:
        >>> text = '''@app.cell
        ... def _(x):
        ...     y = x + 1
        ...     return (y,)'''
        >>> [cell] = marimo_cells(ast.parse(text), text.splitlines())
        >>> cell.splitlines()
        ['', '', 'y = x + 1']
    """
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        decorator = _decorator(node)
        if decorator == "cell":
            last = node.body[-1]
            end = last.lineno - 1 if isinstance(last, ast.Return) else last.end_lineno
            indent = node.body[0].col_offset
            begin = _signature_end(node.lineno, lines)
            body = (_dedented(line, indent) for line in lines[begin:end])
            yield "\n" * begin + "\n".join(body)
        elif decorator in ("function", "class_definition"):  # which are cells without it
            below = node.decorator_list[0].end_lineno or node.lineno
            yield "\n" * below + "\n".join(lines[below : node.end_lineno])


def _signature_end(first: int, lines: Sequence[str]) -> int:
    """The last line of ``def _(x):``, which begins in the first; many parameters take several.

    The syntax tree does not tell it: below it may be comments, which are in the cell.
    """
    rows = (f"{line}\n" for line in lines[first - 1 :])
    tokens = tokenize.generate_tokens(lambda: next(rows))
    # Within parentheses the end of a line is `NL`.
    return first - 1 + next(one.end[0] for one in tokens if one.type == tokenize.NEWLINE)


def _dedented(line: str, indent: int) -> str:
    """Without the indentation, but for a line that begins further left, which is in a string."""
    return line if line[:indent].strip() else line[indent:]


def _decorator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """The method of ``app`` that the first decorator is, or calls."""
    first = node.decorator_list[0] if node.decorator_list else None
    inner = first.func if isinstance(first, ast.Call) else first
    return inner.attr if isinstance(inner, ast.Attribute) else ""
