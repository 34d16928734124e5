"""Python reads the names in a picture: each must have the value of what it names.

A name is evaluated in the function in which it stands, or in the one that it says: `helper: x * 2`.
A variable that held several values counts with each of them, but in one name always with the same.
"""

import inspect
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
from reference import Reference

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._drawing.value_words import ValueWords
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.source_frames import SourceFrame, frames_of
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree.grow import Tree

MOST = 4000  # ways to choose a value for each variable


class Runs(Reference):
    """Runs a program, and keeps every value of each run of each jaxpr.

    Attributes:
        runs: For each run the address of the jaxpr, its values by address, and the run around it.
    """

    def __init__(self):
        super().__init__()
        self.runs = []
        self._around = None
        self._eqns = []

    def __call__(self, jaxpr, *args):
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        around, home = self._around, taxpr.Address()
        if around is not None:
            address, eqn = self._eqns[-1]
            [home] = [
                address / nested.label
                for nested in introspect.nested_jaxprs(eqn)
                if getattr(nested.stored, "jaxpr", nested.stored) is inner
            ][:1] or [address / "hidden"]
        values = dict(zip((home / f"in{k}" for k in range(len(args))), args, strict=True))
        consts = getattr(jaxpr, "consts", None) or ()
        values |= {home / f"const{k}": value for k, value in enumerate(consts)}
        self._around = home, values, around
        self.runs.append(self._around)
        local = iter(introspect.numbered(inner))
        self._eqns.append((home, local))
        try:
            return super().__call__(jaxpr, *args)
        finally:
            self._eqns.pop()
            self._around = around

    def eqn(self, eqn, args):
        home, local = self._eqns[-1]
        address = home / next(local)[0]
        _, values, _ = self._around
        self._eqns.append((address, eqn))
        outs = super().eqn(eqn, args)
        self._eqns.pop()
        values |= {address.value(k): out for k, out in enumerate(outs)}
        return outs


class PyTree:
    """A variable that holds a PyTree, of which the leaves are known."""

    def __init__(self, leaves, path=""):
        self._leaves, self._path = leaves, path

    def _part(self, path):
        path = self._path + path
        if not any(leaf.startswith(path) for leaf in self._leaves):
            raise KeyError(path)
        return self._leaves[path] if path in self._leaves else PyTree(self._leaves, path)

    def __getitem__(self, key):
        return self._part(f"[{key!r}]")

    def __getattr__(self, name):
        try:
            return self._part(f".{name}")
        except KeyError:
            raise AttributeError(name) from None


class Named:
    """The words for the values of a program, in every function of it.

    Attributes:
        checked: The texts that were read, each with the function in which it stands.
        wrong: Those that Python cannot read, or that have another value.
    """

    def __init__(self, fun, *args):
        self.program = taxpr.trace(fun, names=True)(*args)
        self._variables = self.program.variables()
        self._held = HeldVariables(self.program)
        modules = jnp, jax.nn, jax.lax
        self._globals = {name: getattr(one, name) for one in modules[::-1] for name in dir(one)}
        self._globals |= {"jnp": jnp, "jax": jax, "lax": jax.lax}
        self._globals |= inspect.unwrap(fun).__globals__
        runner = Runs()
        runner(self.program.jaxpr, *jax.tree.leaves(args))
        self._runs = runner.runs
        self.checked, self.wrong = set(), set()
        eqns = [eqn for _, eqn in taxpr.iter_eqns(self.program)]
        self._frames = {frame for eqn in eqns for frame in frames_of(eqn)}
        self._frames |= {SourceFrame(one.owner) for one in self._variables}
        self._primitives = {eqn.primitive.name for eqn in eqns}
        tree = Tree(None, Keys())
        blocks = [(tree.root(self.program), False)]
        for block, backward in blocks:  # which grows
            self._block(block, backward)
            for item in block.items:
                blocks += [(inner, item.is_backward) for inner, _ in tree.inside(item)]

    def _block(self, block, backward):
        graph, home = block.flow.graph, block.address
        words = ValueWords(graph, home, block.names.known, self._held, backward)
        frames = {frame for eqn in graph.eqns for frame in frames_of(eqn)}
        frames |= {None} if frames else set()
        runs = [run for run in self._runs if run[0] == home]
        self._labels = block.names.known, words
        for eqn in graph.eqns if runs else ():
            for var in eqn.outvars:
                for frame in frames:
                    if text := words.of(var, frame):
                        self._check(text, words.address(var), frame or words.frames[-1], runs)

    def _check(self, text, address, frame, runs):
        self.checked.add((text, frame.owner))
        looped = "scan" in address.local  # then it may be that of an iteration
        if found := re.match(r"(\w+): ", text):
            name, text = found[1], text[found.end() :]
            frames = [one for one in self._frames if is_called(one.owner[2], name)]
        else:
            frames = [frame]
        for run in runs:
            reads = (self._reads(text, address, one, run, looped) for one in frames)
            if not any(reads):
                self.wrong.add((text, frame.owner, address))

    def _reads(self, text, address, frame, run, looped):
        values = self._values(run)
        for names in self._ways(text, values, frame):
            try:
                with jax.numpy_rank_promotion("allow"):
                    found = eval(text, {**self._globals, **names})
            except NameError as error:
                if error.name in self._primitives:
                    return True
                continue
            except TypeError:  # `slice(x)` says no more than the label
                return True
            except (AttributeError, IndexError, KeyError):  # of what a name may mean, but does not
                continue
            if isinstance(found, PyTree):
                continue
            value = run[1][address]
            if alike(found, value) or (looped and any(alike(found, one) for one in value)):
                return True
        return False

    def _values(self, run):
        """The values that a run, and those around it, have; then those in it, of a first one."""
        home, own, around = run
        values = {}
        while around is not None:
            values = {**around[1], **values}
            around = around[2]
        for inside, one, _ in self._runs:
            values |= {k: v for k, v in one.items() if inside.startswith(home) and k not in values}
        return values | own

    def _ways(self, text, values, frame):
        """What the names in a text may mean together in a call of a function."""
        held = {}
        for one in self._variables:
            scope = self._scope(frame, one)
            if scope is not None and one.address in values:
                times = held.setdefault((scope, one.name), {})
                bound = one.occurrence, one.line  # the first `x[0]` is none of the first `x`
                times.setdefault(bound, {})[one.path] = values[one.address]
        known, words = self._labels  # of inputs, as the picture has them
        for var, label in known.items():
            name, *path = path_parts(label)
            times = held.setdefault((-len(frame.calls) - 3, name), {}).setdefault(None, {})
            times.setdefault("".join(path), values[words.address(var)])
        names = {name: times for (_, name), times in sorted(held.items())}
        names = {name: times for name, times in names.items() if re.search(rf"\b{name}\b", text)}
        every = [[read(leaves) for leaves in times.values()] for times in names.values()]
        for chosen in itertools.islice(itertools.product(*every), MOST):
            yield dict(zip(names, chosen, strict=True))

    def _scope(self, frame, variable):
        """A number for the function of a variable, higher the nearer it is; None if it is not."""
        around = [frame.owner, *(owner for owner, _ in reversed(frame.calls))]
        if variable.owner in around:
            return -around.index(variable.owner)
        if frame.owner[2].startswith(f"{variable.function}.<locals>."):
            return -len(around)
        owners = {one.owner for one in self._variables if one.name == variable.name}
        return -len(around) - 1 if len(owners) == 1 else None


def read(leaves):
    return leaves[""] if "" in leaves else PyTree(leaves)


def is_called(function, name):
    return name in function.rpartition("<locals>.")[2].split(".")


def alike(found, value):
    """Whether two values are equal, but for their shapes."""
    found, value = np.asarray(found), np.asarray(value)
    if found.size == value.size:
        found = found.reshape(value.shape)
    try:
        found, value = np.broadcast_arrays(found, value)
    except ValueError:
        return False
    return np.allclose(found, value, rtol=1e-5, atol=1e-6, equal_nan=True)
