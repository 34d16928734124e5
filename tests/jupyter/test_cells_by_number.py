"""Lines of a notebook's cells are told by the numbers of the cells, in all texts."""

import os

import pytest
from ipykernel.compiler import XCachingCompiler

import taxpr

CELL = """def f(x):
    y = jnp.log(taxpr.tag(x, name="h"))
    return y * 2
"""


@pytest.fixture(params=["terminal", "kernel"])
def cells(notebook, request):
    """Cells as IPython names them; those of a kernel are files of a temporary folder."""
    if request.param == "kernel":
        notebook.shell.compile = XCachingCompiler()
    notebook.good(CELL)
    code = notebook.names["f"].__code__
    assert (os.sep in code.co_filename) == (request.param == "kernel")
    return notebook


def lines_of(answer):
    return {row.line for row in answer.rows}


def test_answers_tell_the_cell(cells):
    number = cells.shell.execution_count - 1
    f, x = cells.names["f"], cells.names["x"]
    at = f"cell {number}:2"
    found = taxpr.find_nan(f)(x)
    assert (found.rows[0].line, f"`{found.rows[0].code}`" in str(found)) == (at, True)
    assert f"in {at}" in str(found)
    assert at in lines_of(taxpr.watch(f)(x).table())
    assert at in lines_of(taxpr.first_difference(f)(x, x + 1))
    assert at in lines_of(taxpr.flow(lambda x: f(x).sum())(x))
    assert lines_of(taxpr.check(f, ignore=["weak-type"])(1.0)) <= {at, f"cell {number}:1"}
    assert f"# cell {number}\n" in taxpr.trace(f, names=True)(x).source()


def test_a_cell_is_selected_by_what_is_told(cells):
    number = cells.shell.execution_count - 1
    f, x = cells.names["f"], cells.names["x"]
    program = taxpr.trace(f, names=True)(x)
    assert [site.name for site in program.tags(taxpr.line(f"cell {number}:2"))] == ["h"]
    with pytest.raises(taxpr.SelectorError, match=f"Nearest: cell {number}:2"):
        program.tags(taxpr.line(f"cell {number}:7"))
    [y] = taxpr.watch(f)(x).at_line(f"cell {number}:2")
    assert y.name == "y"


def test_errors_tell_the_cell(cells):
    number = cells.shell.execution_count - 1
    f, x = cells.names["f"], cells.names["x"]
    [site] = taxpr.trace(f)(x).tags()
    assert str(site.source) == site.source.short == f"cell {number}, line 2 in f"
    bad = taxpr.inject(f, taxpr.from_function(lambda ctx, token, params: (token, ctx + 1), ()))
    with pytest.raises(TypeError) as raised:
        bad(bad.init(x), x)
    assert f"tag 'h' (cell {number}:2 in f" in " ".join(
        [str(raised.value), *raised.value.__notes__]
    )


def test_a_cell_that_ran_twice_has_its_last_number(cells):
    first = cells.shell.execution_count - 1
    cells.good("1")
    cells.good(CELL)
    found = taxpr.find_nan(cells.names["f"])(cells.names["x"])
    assert found.rows[0].line == f"cell {first + 2}:2"
    assert taxpr.file_text("/tmp/ipykernel_1/12.py") == "cell"  # of another kernel
