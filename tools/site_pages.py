"""What MkDocs takes from outside of docs/: the README, the changelog, the notebooks, the links.

MkDocs calls the functions below; see `hooks` in mkdocs.yml.
"""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File, Files
from reference import for_site

ROOT = Path(__file__).resolve().parent.parent
# Files that are pages of the site, though they are not in docs/.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
BADGE = re.compile(r"\[!\[([^]]*)\]\(https?://[^)]*\)\]\(")  # an image from elsewhere, as a link
PICTURE = re.compile(r"^(!\[[^]]*\]\((?!data:)([^)]*)\))$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
TABLE = re.compile("<!-- (table of .*?) -->.*?<!-- end of table -->", re.DOTALL)


def notebooks():
    """The notebooks, by the page that shows them, in the order of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(r"\(notebooks/(\w+)\.ipynb\)", readme))
    return {f"tutorials/{name}.md": ROOT / "notebooks" / f"{name}.ipynb" for name in names}


def on_config(config):
    for entry in config.nav:
        if "Tutorials" in entry:
            entry["Tutorials"] = list(notebooks())
    return config


def on_files(files: Files, config) -> Files:
    repository = config.extra["repository"]

    def add(page: str, source: str, text: str) -> None:
        content = linked(text, source, repository)
        files.append(File.generated(config, page, content=content))

    for source, page in PAGES.items():
        add(page, source, (ROOT / source).read_text(encoding="utf-8"))
    for page, path in notebooks().items():
        text, pictures = converted(path)
        add(page, f"notebooks/{path.name}", text)
        for name, content in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Tables that a page takes from another one, docstrings, and links to the repository."""
    if page.file.generated_by is not None:
        return markdown
    tables = (ROOT / "docs" / "primitives.md").read_text(encoding="utf-8")
    for table in TABLE.finditer(tables) if page.file.src_uri != "primitives.md" else ():
        markdown = markdown.replace(f"<!-- {table[1]} -->", table[0])
    if page.file.src_uri.startswith("reference/"):
        markdown = for_site(markdown)
    return linked(markdown, f"docs/{page.file.src_uri}", config.extra["repository"])


def linked(text: str, source: str, repository: str) -> str:
    """Markdown of a file of the repository, with links as the site needs them."""
    here = posixpath.dirname(_page_of(source) or source)

    def link(match: re.Match) -> str:
        head, target, tail = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page = _page_of(file)
        if page is not None:
            return f"{head}{posixpath.relpath(page, here or '.')}{tail}"
        # What is not there is left alone, and MkDocs says so.
        known = (ROOT / file).exists()
        return f"{head}{repository}/blob/main/{file}{tail}" if known else match[0]

    def outside_of_code(part: str) -> str:
        part = PICTURE.sub(r"[\1](\2)", part)  # a click shows it in full size
        return LINK.sub(link, BADGE.sub(r"[\1](", part))

    done, out = 0, []
    for code in CODE.finditer(text):
        out += [outside_of_code(text[done : code.start()]), code[0]]
        done = code.end()
    return "".join([*out, outside_of_code(text[done:])])


def _page_of(file: str) -> str | None:
    """The page that a file of the repository is in the site, or None."""
    if file in PAGES:
        return PAGES[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    path = Path(file)
    return f"tutorials/{path.stem}.md" if path.match("notebooks/*.ipynb") else None


def converted(notebook: Path) -> tuple[str, dict[str, str]]:
    """A notebook as Markdown with the outputs that it was saved with, and their pictures."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    pictures: dict[str, str] = {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            parts.append(source)
            continue
        parts.append(_fenced(source, "python"))
        for output in cell["outputs"]:
            shown = output.get("data", {})
            if "image/svg+xml" in shown:
                name = f"{notebook.stem}/{len(pictures)}.svg"
                pictures[name] = "".join(shown["image/svg+xml"])
                parts.append(f"![The picture that this cell shows]({name})")
            elif "image/png" in shown:
                parts.append(
                    f"![The picture that this cell shows](data:image/png;base64,"
                    f"{''.join(shown['image/png']).strip()})"
                )
            elif "taxpr-image" in "".join(shown.get("text/html", "")):
                continue  # what stands for the picture before where no SVG is shown
            elif text := output.get("text") or shown.get("text/plain"):
                parts.append(_fenced("".join(text), "text"))
            elif output["output_type"] == "error":
                parts.append(_fenced(f"{output['ename']}: {output['evalue']}", "text"))
    return "\n\n".join(parts), pictures


def _fenced(text: str, language: str) -> str:
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
