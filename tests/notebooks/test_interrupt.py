"""The kernel's interrupt, in a real kernel: of a cell, and of what a panel does."""

import time

import pytest
from jupyter_client.manager import start_new_kernel

from taxpr_jupyter._runs.run import LEFT

# Of jupyter_client 7, which Colab has.
pytestmark = pytest.mark.filterwarnings("ignore:There is no current event loop")
SECONDS = 60  # long after which something hangs
CELL = """
import threading, time
import jax, jax.numpy as jnp, taxpr
from taxpr_jupyter import panel
from taxpr_jupyter._view.widget import view_for

def slow(ctx, token, params):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.01)
    return token, ctx

def loop(x):  # ends: what goes on without end would take a processor from all tests beside it
    return jax.lax.fori_loop(0, 10**9, lambda i, x: jnp.sin(x) * 0 + x + 1e-3, x)

def do(what, address="", **more):
    view.graph._handle_custom_msg({"do": what, "address": address, **more}, [])

session = panel(lambda x: loop(taxpr.tag(x, name="h")))(0.0)
view = view_for(session)
running = threading.Event()
view.graph.observe(
    lambda change: running.set() if "· run" in change.new.get("label", "") else None, "progress"
)
"""


class Kernel:
    """A real kernel, whose cells are run and interrupted."""

    def __init__(self):
        self.manager, self.client = start_new_kernel()

    def run(self, code, error=""):
        """What a cell prints; ``error`` is the name of the one that it is to end with."""
        printed = []

        def take(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, output_hook=take, timeout=2 * SECONDS)
        assert reply["content"]["status"] != "aborted"
        assert reply["content"].get("ename", "") == error, reply["content"]
        return "".join(printed).strip(), reply["content"].get("evalue", "")

    def interrupted(self, code, ready):
        """What a cell says that is interrupted as soon as it has printed ``ready``."""

        def take(message):
            if ready in message["content"].get("text", ""):
                time.sleep(1)  # until the program runs, on a busy machine, too
                self.manager.interrupt_kernel()

        # Else ipykernel 6 may leave out the next cell, too.
        reply = self.client.execute_interactive(
            code, output_hook=take, timeout=2 * SECONDS, stop_on_error=False
        )
        return reply["content"].get("ename"), reply["content"].get("evalue")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run(CELL)
    yield kernel
    kernel.close()


def test_the_kernels_interrupt_stops_what_a_panel_traces(kernel):
    kernel.run("do('attach', 'h', injector='slow')")
    assert kernel.run("print(view.graph.progress['label'])") == ("tracing slow at h", "")
    kernel.manager.interrupt_kernel()
    said = kernel.run("print(view.wait(60), view.graph.message['text'], session.injectors)")
    assert said == ("True Cancelled. {}", "")


def test_the_kernels_interrupt_ends_a_panels_wait_for_the_device(kernel):
    kernel.run("do('run', device='cpu:0')\nassert running.wait(60)")
    kernel.manager.interrupt_kernel()
    said, _ = kernel.run("print(view.wait(60), session.last)")
    assert said == f"True Run 1 on cpu:0 was cancelled. {LEFT['run']}"


def test_an_interrupt_of_a_cell_is_for_the_cell(kernel):
    run = "session.run(on_phase=lambda phase: print(phase.name, flush=True))"
    assert kernel.interrupted(run, "run") == ("KeyboardInterrupt", LEFT["run"])
    attach = "print('now', flush=True)\nsession.attach('h', slow)"
    assert kernel.interrupted(attach, "now") == ("KeyboardInterrupt", "")
    assert kernel.run("print(session.injectors, session.running)") == ("{} False", "")


@pytest.mark.slow
def test_unloading_leaves_interrupts_to_the_kernel(kernel):
    kernel.run("%load_ext taxpr_jupyter\n%unload_ext taxpr_jupyter")
    kernel.run("import signal")
    assert kernel.run("print(int(get_ipython().kernel.saved_sigint_handler))") == ("1", "")
