"""A program spread over two processes gives both what one process gets."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from checks import assert_close
from devices import two_processes

import taxpr

SECONDS = 150  # from start to end of both, with all that is compiled
TESTS = Path(two_processes.__file__).parents[1]


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def run_both(folder):
    """The exit statuses of both processes, and what they said."""
    address, path = free_address(), [str(TESTS), str(Path(taxpr.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu"}
    processes, said = [], []
    try:
        for number in range(2):
            said.append(folder / f"{number}.txt")
            command = [sys.executable, two_processes.__file__, address, str(number)]
            with said[-1].open("w") as out:
                processes.append(
                    subprocess.Popen(
                        [*command, folder / f"{number}.npz"],
                        env=env,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                    )
                )
        end = time.monotonic() + SECONDS
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    statuses = [process.returncode for process in processes]
    return statuses, "\n".join(file.read_text() for file in said)


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path):
    for _ in range(3):
        statuses, said = run_both(tmp_path)
        # Between the choice of a port and its use another process may have taken it.
        if "ddress already in use" not in said:
            break
    assert statuses == [0, 0], said
    expected = two_processes.results(jax.devices()[:4])
    for number in range(2):
        with np.load(tmp_path / f"{number}.npz") as file:
            assert_close([file[name] for name in file.files], expected)
