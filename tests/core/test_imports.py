"""Imports point one way: between modules, and between the rooms that they live in."""

import ast
import collections
import graphlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# From the ground up. A room imports from those before it only; a module that is not in a room
# counts as one.
ROOMS = {
    "taxpr": """
        _untyped _errors errors _given _recent _by_identity _answers _address _places _compat
        _source _jaxprs _calls _primitives _hops hops _costs _sites _devices _watching _variables
        _where _engine _injectors injectors _editing _programs _transforms _check _compilations
        _recordings _keeping _questions _compiled _compile_time _kernels _estimates _buffers
        _memory _profile _summary _derivatives _sweep _differences _training _states _drop_in
        _libraries libraries program questions introspect""",
    "taxpr_jupyter": """
        _errors _stoppable _text _messages _model _analysis _closed _tree _lines _heat _diff
        _drawing _layout _svg _search _states _tracing _output _edits _runs _code _store _session
        _draw _view _panel _ipython _cli __main__""",
}
MOST = 16  # modules in one folder

# What is imported inside of functions, and how often: only what is heavy or optional.
LATE = {
    "taxpr": {},
    "taxpr_jupyter": {
        "cairosvg": 1,
        "graphviz": 1,
        "taxpr_jupyter._ipython": 2,
        "taxpr_jupyter._view.widget": 1,
        "wasmtime": 4,
    },
}


def imports(file, modules):
    """The modules of the project that a module imports, also within its functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def graph_of(package):
    """For each module of a package the modules of it that it imports."""
    modules = {}
    for file in (ROOT / package).rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return {
        name: {one for one in imports(file, modules) if one in modules and one != package}
        for name, file in modules.items()
    }


@pytest.mark.parametrize("package", ROOMS)
def test_no_module_imports_itself_by_a_detour(package):
    graph = graph_of(package)
    assert len(graph) > 50
    assert sum(map(len, graph.values())) > 100
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_from_rooms_below(package):
    level = {room: number for number, room in enumerate(ROOMS[package].split())}
    wrong = [
        f"{name} imports {one}"
        for name, found in graph_of(package).items()
        for one in found
        if name != package and level[name.split(".")[1]] < level[one.split(".")[1]]
    ]
    assert not wrong


def late_imports(file):
    """The modules that are imported inside of functions, each with its line."""
    text = file.read_text(encoding="utf-8")
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    for node in {node for function in functions for node in ast.walk(function)}:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            line = text.splitlines()[node.lineno - 1]
            yield from ((getattr(node, "module", name), line) for name in names)


@pytest.mark.parametrize("package", ROOMS)
def test_only_what_is_heavy_or_optional_is_imported_late(package):
    found = [one for file in (ROOT / package).rglob("*.py") for one in late_imports(file)]
    assert [line for _, line in found if not re.search(r"# (heavy|optional): \S", line)] == []
    assert collections.Counter(name for name, _ in found) == LATE[package]


@pytest.mark.parametrize("package", ROOMS)
def test_each_room_says_what_it_is_for_and_is_not_crowded(package):
    for folder in {file.parent for file in (ROOT / package).rglob("*.py")}:
        modules = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
        words = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
        assert words, folder
        assert len(modules) <= MOST, (
            f"{folder.relative_to(ROOT)} has {len(modules)} modules, more than {MOST}: put those "
            "that belong together into a room of their own, a folder with an __init__.py"
        )
