"""What taxpr needs of JAX's private names: a name that goes costs one feature, not the import.

A process of its own imports taxpr while names of JAX's private modules are hidden from taxpr alone.
"""

import ast
import functools
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import taxpr
from taxpr._compat._private import ESSENTIAL, NEEDED_BY

COMPAT = pathlib.Path(taxpr.__file__).parent / "_compat"

# `try_without(hidden)` runs in a child, so that each time taxpr is imported anew.
HARNESS = """
import os, sys, types, warnings
import jax, jax.numpy as jnp

hidden = lambda name: False
plain = types.ModuleType.__getattribute__

class Hiding(types.ModuleType):
    def __getattribute__(self, name):
        if not name.startswith("__") and plain(self, "__name__").startswith("jax._src."):
            full = plain(self, "__name__").removeprefix("jax._src.") + "." + name
            asks = sys._getframe(1).f_globals.get("__name__", "")
            if asks.split(".")[0] == "taxpr" and hidden(full):
                raise AttributeError(f"hidden: {full}")
        return plain(self, name)

for name, module in list(sys.modules.items()):
    if name.startswith("jax._src.") and type(module) is types.ModuleType:
        module.__class__ = Hiding

def use():
    import taxpr

    def f(x):
        y = jnp.sin(x)
        z = y * 2
        return z.sum()

    assert taxpr.watch(f)(jnp.ones(3))["z"].shape == (3,)
    return taxpr

def try_without(gone):
    global hidden
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return text
    hidden = gone
    warnings.simplefilter("ignore")
    try:
        use()
        said = "works"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    os.write(write, said.encode())
    os._exit(0)
"""


@pytest.fixture
def run(tmp_path):
    return functools.partial(run_in, tmp_path)


def run_in(folder, code):
    file = folder / "program.py"  # of which the program knows lines and variables
    file.write_text(HARNESS + textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-W", "ignore", file]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_used():
    """The names that the room reads of private modules, but for those that it can do without."""
    for file in COMPAT.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        modules = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and "private(" in ast.unparse(node.value):
                [target] = node.targets
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                modules.update((ast.unparse(name), call.args[0].value) for name, call in pairs)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = modules.get(node.value.id)
                if module and not node.attr.startswith("__"):
                    yield f"{module}.{node.attr}"


def test_each_private_name_says_what_it_is_for():
    assert set(names_used()) <= {*ESSENTIAL, *NEEDED_BY}


def test_each_name_of_the_table_is_used():
    text = "".join(file.read_text("utf-8") for file in COMPAT.rglob("*.py"))
    assert [name for name in {*ESSENTIAL, *NEEDED_BY} if name.split(".")[-1] not in text] == []


@pytest.mark.newest_only  # the others have names of their own
def test_without_all_names_that_are_not_essential_taxpr_is_imported_and_watches(run):
    code = f"""
    ESSENTIAL = {set(ESSENTIAL)!r}
    print(try_without(lambda name: name not in ESSENTIAL))
    """
    assert run(code).strip() == "works"


def test_what_needs_a_name_that_is_gone_says_so(run):
    code = """
    hidden = lambda name: name == "core.pp_eqn_rules"
    taxpr = use()
    try:
        taxpr.introspect.var_names(taxpr.trace(lambda x: x + 1)(1.0))
    except taxpr.RefusedError as error:
        print(error)
    """
    assert run(code).replace("\n", " ") == (
        f"jax {__import__('jax').__version__} has no jax._src.core.pp_eqn_rules, so taxpr works "
        "without this: `var_names`, the letters of variables. "
    )


@pytest.mark.slow
@pytest.mark.newest_only
def test_each_name_by_itself(run):
    code = f"""
    for name in {sorted({*ESSENTIAL, *NEEDED_BY})!r}:
        print(name, try_without(lambda one: one == name), sep=": ")
    """
    said = dict(line.split(": ", 1) for line in run(code).splitlines())
    assert [name for name in NEEDED_BY if said[name] != "works"] == []
    assert [name for name in ESSENTIAL if said[name] == "works"] == []
