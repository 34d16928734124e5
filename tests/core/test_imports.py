"""Imports point one way."""

import ast
import graphlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def imports(file, name, modules):
    """The modules of the project that a module imports when it is loaded."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("package", ["taxpr", "taxpr_jupyter"])
def test_no_module_imports_itself_by_a_detour(package):
    modules = {}
    for file in (ROOT / package).rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    assert len(modules) > 50
    graph = {
        name: {one for one in imports(file, name, modules) if one in modules and one != package}
        for name, file in modules.items()
    }
    assert sum(map(len, graph.values())) > 100
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError
