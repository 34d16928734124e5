"""Writes what the pages of docs/reference say of each name where they are read as files.

.envs/newest/bin/python tools/reference.py      with the newest JAX

A page names objects in comments such as `<!-- ::: taxpr.scale -->`, one for each, which `make docs`
replaces by their docstrings. People write the comments; it says which are missing. What stands
below a comment is written here: the call, the first sentence of the docstring, and a link
to the module; below a class its methods.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import taxpr
import taxpr_jupyter

MODULES = (
    taxpr,
    taxpr_jupyter,
    taxpr.errors,
    taxpr.hops,
    taxpr.injectors,
    taxpr.introspect,
    taxpr.libraries,
    taxpr.program,
    taxpr.questions,
)
ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"^<!-- ::: (\S+)([^>]*?)-->\n(?:\* .*\n(?:    \* .*\n)*)?", re.MULTILINE)


def written(page: str) -> str:
    """The page, with what is said below each comment."""
    return NAMED.sub(lambda m: f"<!-- ::: {m[1]}{m[2]}-->\n{_line(m[1])}\n", page)


def for_site(page: str) -> str:
    """The page with directives for docstrings in the place of the comments and their lines."""
    return NAMED.sub(lambda m: f"::: {m[1]}{m[2].rstrip()}\n", page)


def _line(path: str) -> str:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    ours = found.__module__.startswith("taxpr")  # not so is a name for a type
    first = _first(found) if ours else f"`{found}`."
    home = sys.modules[found.__module__ if ours else module]
    file = Path(inspect.getfile(home)).resolve().relative_to(ROOT)
    line = f"* [`{name}{_parameters(found)}`](../../{file.as_posix()}): {first}"
    return "\n".join([line, *(f"    * {one}" for one in _methods(found))])


def _first(found: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.cleandoc(found.__doc__ or "")
    return " ".join(re.split(r"(?<=\.)\s|\n\n", text, maxsplit=1)[0].split())


def _methods(found: Any) -> list[str]:
    """The methods of a class of ours, in the order of the source, with their first sentences."""
    every = (
        vars(found).items() if inspect.isclass(found) and found.__module__[:5] == "taxpr" else ()
    )
    return [
        f"`{name}{_parameters(one, 1)}`: {_first(one)}"
        for name, one in every
        if inspect.isfunction(one) and one.__doc__ and name[0] != "_"
    ]


def _parameters(found: Any, skipped: int = 0) -> str:
    """How it is called, as far as one sees that, without the first parameters."""
    kind = isinstance(found, taxpr.injectors.InjectorKind)
    if not (kind or inspect.isfunction(found)):
        return ""
    signature = found.__signature__ if kind else inspect.signature(found)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in list(signature.parameters.values())[skipped:]
    ]
    return re.sub(r"<class '(.*?)'>|<function (\S+) at .*?>", r"\1\2", str(inspect.Signature(bare)))


PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))


def named() -> list[str]:
    """The names for which pages have comments."""
    return [m[1] for page in PAGES for m in NAMED.finditer(page.read_text(encoding="utf-8"))]


def missing() -> list[str]:
    """The public names for which no page has a comment, not even under another module."""
    shown = {name.rpartition(".")[2] for name in named()}
    return [f"{m.__name__}.{name}" for m in MODULES for name in m.__all__ if name not in shown]


def main() -> None:
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name in missing():
        print(f"No page has {name}: write `<!-- ::: {name} -->` into one, and run this again.")


if __name__ == "__main__":
    main()
