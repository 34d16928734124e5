"""Links between files of the repository lead somewhere, and versions and names agree."""

import re
import tomllib
from pathlib import Path

import pytest

import taxpr

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def prose(path):
    """A Markdown file without its code."""
    return re.sub(r"^(```+).*?^\1$|`[^`\n]+`", "", path.read_text("utf-8"), flags=re.M | re.S)


def anchors(path):
    """What GitHub calls the headings of a file."""
    text = re.sub(r"^(```+).*?^\1$", "", path.read_text("utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), target
        assert found.is_relative_to(ROOT), target
        if anchor and found.suffix == ".md" and "docs/reference" not in str(found):
            assert anchor in anchors(found), target


def test_links_to_notebooks_on_colab_name_files_that_are_there():
    for path in [*FILES, *sorted(ROOT.glob("notebooks/*.ipynb"))]:
        for file in re.findall(r"/blob/main/([\w/.-]+)", path.read_text("utf-8")):
            assert (ROOT / file).exists(), f"{path.name}: {file}"


def test_the_version_is_the_same_everywhere():
    [changes] = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[:1]
    [cited] = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert changes == cited == taxpr.__version__


def test_the_repository_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project["urls"]["Repository"]
    assert f"repository-code: {repository}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"repository: {repository}\n" in (ROOT / "mkdocs.yml").read_text("utf-8")
    name = repository.removeprefix("https://github.com/")
    on_colab = re.compile(r"colab\.research\.google\.com/github/(\w+/[\w-]+)")
    for path in [*FILES, *sorted(ROOT.glob("notebooks/*.ipynb"))]:
        assert set(on_colab.findall(path.read_text("utf-8"))) <= {name}
