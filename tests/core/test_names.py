"""The names of taxpr: few in its list, and what its modules have is found in it, too."""

import ast
import collections
import importlib
import pathlib
import subprocess
import sys

import pytest

import taxpr
import taxpr_jupyter

MODULES = (
    taxpr.errors,
    taxpr.hops,
    taxpr.injectors,
    taxpr.introspect,
    taxpr.libraries,
    taxpr.program,
    taxpr.questions,
)


def test_one_types_at_most_sixty_names():
    assert len(taxpr.__all__) <= 60
    modules = {module.__name__.removeprefix("taxpr.") for module in MODULES}
    assert {*dir(taxpr)} == {*taxpr.__all__, *modules, "__version__"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_a_module_has_is_found_in_taxpr_too(module):
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(taxpr, name) is getattr(module, name)


def test_each_name_is_where_a_type_checker_looks_for_it():
    tree = ast.parse(pathlib.Path(taxpr.__file__).read_text("utf-8"))
    [guarded] = [node for node in tree.body if isinstance(node, ast.If)]
    for node in guarded.body:
        module = importlib.import_module(node.module)
        for alias in node.names:
            assert getattr(taxpr, alias.name) is getattr(module, alias.name)
    named = {alias.name for node in guarded.body for alias in node.names}
    assert named >= {*taxpr.__all__}


def test_importing_taxpr_imports_only_what_is_used():
    code = """if True:
        import sys, taxpr
        assert [name for name in sys.modules if name.startswith("taxpr.")] == []
        taxpr.tag
        assert "taxpr._primitives.tag" in sys.modules and "taxpr._questions" not in sys.modules
        taxpr.find_nan
        assert "taxpr._questions" in sys.modules
        """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="module 'taxpr' has no attribute 'wach'"):
        _ = taxpr.wach
    with pytest.raises(ImportError, match="cannot import name 'wach'"):
        exec("from taxpr import wach")


def test_a_star_brings_no_name_of_python():
    code = "from taxpr import *; print(1); f = tag; assert 'Any' not in globals()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", [taxpr, taxpr_jupyter])
def test_no_two_classes_of_a_package_share_a_name(package):
    found = collections.Counter(
        node.name
        for file in pathlib.Path(package.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert len(found) > 200
    assert [name for name, times in found.items() if times > 1] == []
