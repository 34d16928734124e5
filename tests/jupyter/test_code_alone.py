"""The code of a session where nothing is but what it asks for: in another process, name by name."""

import base64
import linecache
import os
import pickle
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from code_notebooks import CASES, Case

import taxpr
from taxpr_jupyter import Session, panel

FIRST = "# Define these names first, as the notebook has them:\n"
NEEDED = re.compile(r"^#   (\w+)", re.MULTILINE)


def opened(case, name="<notebook>"):
    """The namespace of a notebook, with its ``session``."""
    names = {"__name__": "__main__", "panel": panel, "Session": Session}
    cells = [case.start, case.before, "session = " + case.session, case.after]
    for number, cell in enumerate(cells):
        file = f"{name}{number}"
        linecache.cache[file] = len(cell), None, cell.splitlines(keepends=True), file
        exec(compile(cell, file, "exec"), names)
    return names


WORKER = """
import base64, linecache, pickle, sys
import jax, numpy as np

def plain(leaf):
    keys = hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if keys else leaf)

def done(job):
    cells, code, needed, extra, reads = job
    notebook, found = {"__name__": "__main__"}, {}
    for number, cell in enumerate(cells):  # as cells, whose source gives variables their names
        file = f"<notebook>{number}"
        linecache.cache[file] = len(cell), None, cell.splitlines(keepends=True), file
        exec(compile(cell, file, "exec"), notebook)
    values = {name: eval(extra.get(name, name), notebook) for name in needed}
    missing = []
    for gone in needed:
        here = {"__name__": "alone", **{k: v for k, v in values.items() if k != gone}}
        try:
            exec(code, here)
        except NameError as error:
            missing.append(error.name)
    here = {"__name__": "alone", **values}
    exec(code, here)
    notes = [here[name] is value for name, value in values.items()]
    return missing, notes, [plain(leaf) for leaf in jax.tree.leaves(eval(reads, here))]

jobs = pickle.load(sys.stdin.buffer)
results = {}
for name, job in jobs.items():
    try:
        results[name] = done(job)
    except Exception as error:
        results[name] = repr(error)
sys.stdout.write("RESULTS " + base64.b64encode(pickle.dumps(results)).decode())
"""


def in_a_process(arguments, given=None, **environment):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    run = subprocess.run([sys.executable, *arguments], input=given, capture_output=True, env=env)
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    return run.stdout.decode()


@pytest.fixture(scope="module")
def sessions():
    found = {name: opened(case, f"<{name}>")["session"] for name, case in CASES.items()}
    for session in found.values():
        assert session.run().ok, session.last.error
    return found


@pytest.fixture(scope="module")
def alone(sessions):
    """What the codes give in another process, where only the names are that they ask for."""
    jobs = {}
    for name, case in CASES.items():
        code = sessions[name].code()
        reads = case.reads
        if reads == "out":  # our name for it, where the user has it
            reads = re.findall(r"^\(?(\w+)(?:, \w+\))?(?:, \w+)* = \w+\.jit\(", code, re.MULTILINE)[
                -1
            ]
        cells = [case.start, case.before, case.after]
        jobs[name] = cells, code, NEEDED.findall(code), case.extra, reads
    text = in_a_process(["-c", WORKER], pickle.dumps(jobs))
    return pickle.loads(base64.b64decode(text.rpartition("RESULTS ")[2]))


def expected(session, reads):
    run = session.last
    if reads == "report":
        return [record.report for record in run.records.values()]
    return (run.outputs, dict(run.final_states)) if "states" in reads else run.outputs


@pytest.mark.spread(40)
@pytest.mark.parametrize("name", CASES)
def test_it_runs_with_the_names_that_it_asks_for(name, sessions, alone):
    case, code = CASES[name], sessions[name].code()
    assert not isinstance(alone[name], str), (alone[name], code)
    missing, kept, leaves = alone[name]
    needed = NEEDED.findall(code)
    assert sorted(needed) == sorted([*case.needs.split()]), code
    assert missing == needed  # each is needed
    assert all(kept), code  # and none is used for something else
    own = jax.tree.leaves(expected(sessions[name], case.reads))
    for found, leaf in zip(leaves, own, strict=True):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        assert (found.dtype, found.shape) == (leaf.dtype, leaf.shape)
        assert found.tobytes() == np.asarray(leaf).tobytes(), code


@pytest.mark.parametrize("name", ["program", "read by the function", "read by an injector"])
def test_in_the_notebook_it_leaves_alone_what_is_read(name):
    names = opened(CASES[name])
    session, run = names["session"], names["session"].run()
    code = session.code()
    for _ in range(2):  # the second time with what the first has left behind
        exec(code, names)
        found = names["out_2" if name == "read by the function" else "out"]
        assert np.array_equal(found, run.outputs), code
        assert session.code() == code
    if name != "program":  # which names no variable for its second argument
        exec("again = " + CASES[name].session.partition(";")[0], names)
        assert np.array_equal(names["again"].run().baseline, run.baseline)


def test_it_says_what_a_name_stands_for():
    names = opened(CASES["changed since"], "<cells>")
    first = names["session"].code().partition(FIRST)[2].partition("\n\n")[0].splitlines()
    changed = ", as it was when it was traced: the notebook has another one now"
    assert first == [
        f"#   f: function of <cells>0:5{changed}",
        f"#   x: f32[4]{changed}",
    ]
    text = """
def g(fn, n, tree, mode, Mode, word, only, keys): return fn
class Mode(enum.Enum): UP = 1
n, tree, mode, word = 3, {"w": x, "b": [x]}, Mode.UP, "a" * 80
only, half, key = jax.ShapeDtypeStruct((3,), "int8"), taxpr.scale(0.5), jax.random.key(1)
@taxpr.injector()
def kind(token): return token
"""
    call = "g(f, n, tree, mode, Mode, word, only, np.array(['a']), half, key, kind, unheard)"
    session = "Session(lambda *args: x, (), call=call, namespace=globals())"
    code = opened(Case(f"{text}call = {call!r}", session, ""))["session"].code()
    first = code.partition(FIRST)[2].partition("\n\n")[0].splitlines()
    assert first == [
        "#   g: function of <notebook>1:2",
        "#   f: function of <notebook>0:5",
        "#   n: 3",
        "#   tree: dict of 2 arrays",
        "#   mode: Mode",
        "#   Mode: class",
        f"#   word: '{'a' * 39}…{'a' * 18}'",
        "#   only: ShapeDtypeStruct(shape=(3,), dtype=int8), only a shape: give an array to run it",
        "#   half: injector scale(factor=0.5)",
        "#   key: key<fry>[]",
        "#   kind: kind of injector of <notebook>1:6",
        "#   unheard",
    ]


SETTINGS = {
    "jax_enable_x64": (True, "f64[4]"),
    "jax_default_prng_impl": ("rbg", "f32[4]"),
    "jax_default_matmul_precision": ("float32", "f32[4]"),
}
DRAWS = """
import jax.numpy as jnp
def f(x):
    noise = jax.random.normal(jax.random.key(0), (4,))
    return taxpr.tag(jnp.sin(x) + noise, name="h") @ jnp.ones((4, 2))
x = jnp.arange(4.0)
"""


@pytest.mark.spread(2)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_script_of_it_has_the_settings_of_the_trace(setting, tmp_path):
    value, type_of_x = SETTINGS[setting]
    before = getattr(jax.config, setting)
    jax.config.update(setting, value)
    try:
        case = Case(
            DRAWS,
            "panel(f)(x); session.attach('h', 'scale', factor=0.25)",
            "",
            start="import jax, taxpr",
        )
        session = opened(case)["session"]
        run = session.run()
    finally:
        jax.config.update(setting, before)
    head, first, body = session.code().partition(FIRST)
    assert f"jax.config.update({setting!r}, {value!r})" in head
    assert f"#   x: {type_of_x}" in body
    script = tmp_path / "script.py"
    out = tmp_path / "out.npy"
    script.write_text(f"{head}{DRAWS}{first}{body}import numpy\nnumpy.save({str(out)!r}, out)\n")
    in_a_process([str(script)])
    found = np.load(out)
    assert found.dtype == run.outputs.dtype
    assert found.tobytes() == np.asarray(run.outputs).tobytes()


@pytest.mark.parametrize(
    ("param", "text"),
    [
        (re.I | re.M, "RegexFlag(10)"),
        (re.I, "RegexFlag.IGNORECASE"),
        (..., "..."),
        (slice(1, None, 2), "slice(1, None, 2)"),
        (range(3), "range(0, 3, 1)"),
        (frozenset({"b", "a"}), "frozenset({'a', 'b'})"),
        (frozenset(), "frozenset()"),
    ],
)
def test_params_of_a_tag_are_written_out(param, text):
    session = Session(jnp.sin, (0.5,), call="jnp.sin(0.5)", namespace={"jnp": jnp})
    session.tag("0:sin", name="s", p=param)
    code = session.code()
    assert f"p={text}" in code.replace("re.Regex", "Regex")
    names = {"jnp": jnp}
    exec(code, names)
    assert any(
        site.params.get("p") == param
        for v in names.values()
        if isinstance(v, taxpr.Program)
        for site in v.tags()
    )
