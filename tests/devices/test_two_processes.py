"""A program spread over two processes gives both what one process gets, and so do questions."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from checks import assert_close
from devices import asked, two_processes

import taxpr

# The first test of both waits for all that both compile, up to three times.
pytestmark = pytest.mark.timeout(2000)
SECONDS = 1500  # from start to end of both, with all that is compiled
TESTS = Path(two_processes.__file__).parents[1]


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def run_both(script, folder, *last):
    """The exit statuses of both processes, and what they said."""
    address, path = free_address(), [str(TESTS), str(Path(taxpr.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu"}
    processes, said = [], []
    try:
        for number in range(2):
            said.append(folder / f"{number}.txt")
            command = [sys.executable, script.__file__, address, str(number)]
            with said[-1].open("w") as out:
                processes.append(
                    subprocess.Popen(
                        [*command, *(one.format(number=number) for one in last)],
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


def both_done(script, folder, *last):
    """Run both to their ends."""
    for _ in range(3):
        statuses, said = run_both(script, folder, *last)
        # Between the choice of a port and its use another process may have taken it.
        if "ddress already in use" not in said:
            break
    assert statuses == [0, 0], said


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path):
    both_done(two_processes, tmp_path, f"{tmp_path}/{{number}}.npz")
    expected = two_processes.results(jax.devices()[:4])
    for number in range(2):
        with np.load(tmp_path / f"{number}.npz") as file:
            assert_close([file[name] for name in file.files], expected)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """The folder, and what each of two processes was told."""
    folder = tmp_path_factory.mktemp("two")
    both_done(asked, folder, str(folder))
    return folder, [json.loads((folder / f"{number}.json").read_text()) for number in range(2)]


def assert_alike(found, expected):
    """Texts and numbers are the same, but for the rounding of floats."""
    assert type(found) is type(expected)
    if isinstance(found, float):
        assert found == pytest.approx(expected, rel=2e-4, abs=1e-6, nan_ok=True)
    elif isinstance(found, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(found, dict):
        assert_alike(list(found), list(expected))
        assert_alike(list(found.values()), list(expected.values()))
    else:
        assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", asked.KINDS)
@pytest.mark.parametrize("question", asked.QUESTIONS)
def test_a_question_is_answered_on_both_as_on_one(of_two, question, kind):
    _, [first, second] = of_two
    name = f"{question.__name__} {kind}"
    assert first[name] == second[name]
    expected = asked.answer(question, kind, jax.devices()[:4])
    assert "Error" not in str(expected)
    assert_alike(first[name], expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", asked.KINDS)
def test_a_recording_of_two_processes_is_loaded_by_one(of_two, kind, tmp_path):
    folder, [found, _] = of_two
    own = taxpr.watch(asked.Given(jax.devices()[:4], kind).fn(asked.layers))
    own = own(*asked.Given(jax.devices()[:4], kind).args)
    loaded = taxpr.load_recording(folder / f"{kind}.npz")
    assert not (folder / f"{kind}.npz").exists()
    value, axes = found[f"saved {kind}"]
    np.testing.assert_array_equal(loaded["root"].value, np.float32(value))
    assert list(loaded["root"].axes) == axes == list(own["root"].axes)
    assert loaded.keys() == own.keys()
    assert_close(loaded.out[""], np.asarray(own.out))
    for name in ("h", "root"):
        assert_close(loaded[name].value, np.asarray(own[name]))
        assert loaded[name].stats().mean == pytest.approx(own[name].stats().mean)
    files = [folder / f"{kind}.{number}-of-2.npz" for number in range(2)]
    assert taxpr.load_recording(files[1]).keys() == own.keys()
    sizes = [sum(x.size for name, x in np.load(file).items() if "@" in name) for file in files]
    assert abs(sizes[0] - sizes[1]) < sizes[0] / 2  # each has its own parts
    (tmp_path / files[0].name).write_bytes(files[0].read_bytes())
    with pytest.raises(taxpr.ArgumentError, match=rf"not beside the others: {kind}.1-of-2.npz"):
        taxpr.load_recording(tmp_path / f"{kind}.npz")


@pytest.mark.slow
@pytest.mark.parametrize("question", [*asked.COMPILING, "plant"])
def test_what_is_closed_over_is_refused_on_both(of_two, question):
    said = r"closes over an array, float32\[8, 8\], of which other processes have parts\. JAX"
    for found in of_two[1]:
        assert re.search(said, found[f"{question} closed over"])


@pytest.mark.slow
def test_processes_that_do_not_ask_the_same_are_told(of_two):
    _, [first, second] = of_two
    for told, other in ((first, 1), (second, 0)):
        each = {
            "another question": ["find_nan of layers; of 2 arrays, ", "watch of layers; of 2 "],
            "other options": ["watch of layers, where='h'; of ", "watch of layers, where='root'; "],
        }
        for name, asks in each.items():
            assert f": process {other} asks something else. It asks: {asks[other]}" in told[name]
            assert f"Process {1 - other} asks: {asks[1 - other]}" in told[name]
        assert told["another memory"].startswith("<recording of layers")
        assert told["both"] == "i=2"
    for name in asked.OF_LAYERS:
        for told, other in ((first, 1), (second, 0)):
            assert f": process {other} asks something else." in told[f"{name} of one"], name
    late = "process 1 has not asked in 5 s what process 0 asks: "
    assert late in first["one alone"]
    assert late + "the value of an array float32[3, 8, 8]" in first["a value of one alone"]
    # What was made when both asked needs nobody else.
    assert first["a table of one alone"].startswith("8 values of layers")
    assert float(first["statistics of one alone"]) == pytest.approx(1.676, rel=1e-3)
    assert first["its own arrays"].startswith("<recording of layers")
    assert second["one alone"] == "nothing"
