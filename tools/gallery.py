"""Draws every kind of program and writes a page of all the pictures, to be looked at.

python tools/gallery.py [PART OF A NAME ...]      into build/gallery/index.html; see `make gallery`

Needs the environment `clients` of tools/envs.py for the real programs, and `sciences` for those of
the libraries; without one of these libraries it says so and goes on. The page needs nothing else
but the files beside it, which are each picture as an interactive page and as SVG.
"""

from __future__ import annotations

import html
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "gallery"
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402

jax.config.update("jax_num_cpu_devices", 8)

import documented_programs  # noqa: E402
import library_programs  # noqa: E402
import real_programs  # noqa: E402
from drawn_hops import HOPS  # noqa: E402
from drawn_programs import PROGRAMS  # noqa: E402
from line_ends import misread  # noqa: E402
from picture_quality import Quality, quality_of  # noqa: E402

import taxpr  # noqa: E402
from taxpr import _compat  # noqa: E402
from taxpr._errors import name_of  # noqa: E402
from taxpr._hops.table import registered  # noqa: E402
from taxpr_jupyter import draw  # noqa: E402
from taxpr_jupyter._output.drawing import Drawing  # noqa: E402

LIBRARIES = "Programs of libraries"
STATIC = ROOT / "taxpr_jupyter" / "_view" / "static"


@dataclass(frozen=True)
class Drawn:
    """One picture with what is to be said of it."""

    part: str
    name: str
    drawing: Drawing
    svg: str
    seconds: tuple[float, float, float]  # to trace, to build, to lay out
    engine: str
    quality: Quality
    misread: list[str]  # texts of edges

    @property
    def caption(self) -> str:
        picture, quality = self.drawing.picture, self.quality
        folded = sum(picture.counts.folded.values())
        trace, build, layout = self.seconds
        words = [
            f"{picture.counts.total:,} equations",
            f"{picture.counts.drawn:,} shown, {folded:,} folded",
            f"{len(picture.nodes)} nodes",
            f"traced in {trace:.2f} s, built in {build:.2f} s",
            f"laid out in {layout:.2f} s by {self.engine}",
            f"{len(self.svg.encode()) / 1000:.0f} kB",
            f"{quality.width:.0f} × {quality.height:.0f}",
            f"{'wide' if quality.is_wide else 'tall'} {quality.aspect:.1f} : 1",
            f"{100 * quality.filled:.0f} % covered",
        ]
        if quality.overlaps:
            words.append(f"{len(quality.overlaps)} texts overlap")
        if quality.crossed:
            words.append(f"{len(quality.crossed)} texts are crossed")
        if self.misread:
            words.append(f"{len(self.misread)} texts of edges are misread")
        return " · ".join(words)


def programs() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Part of the page, name, and what makes the program."""
    for name, make in real_programs.PROGRAMS.items():
        yield "Real programs", name, lambda make=make: traced(*make())
    for name, make in library_programs.PROGRAMS.items():
        yield LIBRARIES, name, lambda make=make: of_library(make())
    for name, make in documented_programs.PROGRAMS.items():
        yield "What JAX's document on jaxprs explains", name, lambda make=make: traced(*make())
    for name, make in HOPS.items():
        yield "Higher-order primitives", name, make
    for name, make in PROGRAMS.items():
        yield "Programs of the tests", name, make


def of_library(made: library_programs.Made) -> taxpr.Program:
    """As `draw` traces it: a program may change objects of its library."""
    return draw(made.fun, *made.args).program


def traced(fn: Callable[..., Any], args: tuple[Any, ...]) -> taxpr.Program:
    return taxpr.trace(fn)(*args)


def drawn(part: str, name: str, make: Callable[[], Any]) -> Drawn:
    start = time.perf_counter()
    program = make()
    trace = time.perf_counter() - start
    drawing = draw(program)
    start = time.perf_counter()
    drawing.dot  # noqa: B018 - computes it
    build = time.perf_counter() - start
    svg = drawing.svg()
    laid_out = drawing.layouts.last
    assert laid_out is not None
    seconds = (trace, build, laid_out.seconds)
    wrong = misread(drawing.picture, svg)
    return Drawn(part, name, drawing, svg, seconds, laid_out.engine, quality_of(svg), wrong)


def primitives(program: taxpr.Program) -> set[str]:
    """The names of the higher-order primitives in a program."""
    kinds = {_compat.kind_of(eqn) for _, eqn in taxpr.iter_eqns(program.jaxpr)}
    return {name_of(kind) for kind in kinds & registered().keys()}


def main(*parts_of_names: str) -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    warnings.simplefilter("ignore")
    done: list[Drawn] = []
    missing: list[str] = []
    seen: set[str] = set()
    for part, name, make in programs():
        if parts_of_names and not any(text in name for text in parts_of_names):
            continue
        try:
            one = drawn(part, name, make)
        except ImportError as error:
            missing.append(f"{name}: {error}")
            continue
        except Exception:
            traceback.print_exc()
            missing.append(f"{name}: {traceback.format_exc(limit=0)}")
            continue
        seen |= primitives(one.drawing.program)
        one.drawing.save(OUT / f"{name}.html")
        (OUT / f"{name}.svg").write_text(one.svg, encoding="utf-8")
        done.append(one)
        print(f"{name:40} {one.caption}")
    if not parts_of_names:
        missing += [
            f"no program has {name}" for name in map(name_of, registered()) if name not in seen
        ]
    (OUT / "index.html").write_text(page(done, missing), encoding="utf-8")
    print(*missing, f"{len(done)} pictures in {OUT / 'index.html'}", sep="\n")


# --- the page -------------------------------------------------------------------------------------

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Pictures of programs</title>
<style>
{css}
html {{ color-scheme: light; }}
html:has(#dark:checked) {{ color-scheme: dark; }}
html:has(#dark:checked) .taxpr-panel {{ color-scheme: dark; }}
.taxpr-panel {{ color-scheme: light; }}
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; max-width: none;
  background: light-dark(#fff, #1c1e21); color: light-dark(#1f2328, #e3e5e8); }}
label {{ position: fixed; top: 1rem; right: 2rem; }}
a {{ color: light-dark(#0b57a4, #86bdf2); }}
figure {{ margin: 2rem 0; border-top: 1px solid #8885; padding-top: 1rem; }}
figcaption {{ margin-bottom: 0.5rem; }}
figure .taxpr-panel {{ overflow: auto; max-height: 90vh; }}
.ugly {{ color: light-dark(#b3261e, #ff9a91); }}
</style>
<label><input type="checkbox" id="dark"> dark</label>
<h1>Pictures of programs</h1>
<p>In each part, those that leave the most room empty come first. Drawn with jax {jax}.</p>
{missing}{body}
</html>
"""


def page(done: list[Drawn], missing: list[str]) -> str:
    body = []
    for part in dict.fromkeys(one.part for one in done):
        body.append(f"<h2>{html.escape(part)}</h2>")
        ones = sorted((d for d in done if d.part == part), key=lambda one: one.quality.filled)
        body += map(figure, ones)
    items = "".join(f"<li>{html.escape(text)}</li>" for text in missing)
    return PAGE.format(
        css=(STATIC / "panel.css").read_text(encoding="utf-8"),
        jax=jax.__version__,
        missing=f"<h2>Not drawn</h2><ul>{items}</ul>" if items else "",
        body="\n".join(body),
    )


def figure(one: Drawn) -> str:
    ugly = one.quality.aspect > 3 or one.quality.overlaps or one.misread
    name = html.escape(one.name)
    return (
        f'<figure id="{name}"><figcaption><b>{name}</b> '
        f'<a href="{name}.html">walk around in it</a> <a href="{name}.svg">SVG</a><br>'
        f"<span{' class=ugly' if ugly else ''}>{html.escape(one.caption)}</span></figcaption>"
        f'<div class="taxpr-panel">{one.svg}</div></figure>'
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
