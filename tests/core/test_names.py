"""The names of taxpr: few in its list, and what its modules have is found in it, too."""

import subprocess
import sys

import pytest

import taxpr

MODULES = (
    taxpr.errors,
    taxpr.hops,
    taxpr.injectors,
    taxpr.introspect,
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


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="module 'taxpr' has no attribute 'wach'"):
        _ = taxpr.wach
    with pytest.raises(ImportError, match="cannot import name 'wach'"):
        exec("from taxpr import wach")


def test_a_star_brings_no_name_of_python():
    code = "from taxpr import *; print(1); f = tag; assert 'Any' not in globals()"
    subprocess.run([sys.executable, "-c", code], check=True)
