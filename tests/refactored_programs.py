"""Random programs as text, sound refactorings of them, and one edit that is wrong.

A program has lines, calls of helpers and loops of Python. Whatever is refactored, each line keeps a
key, so that it is known which value of one program is which of the other, and what they are called.
"""

import dataclasses
import itertools
import linecache
import random

import jax.numpy as jnp
import numpy as np

UNARY = "jnp.sin({0})", "jnp.tanh({0})", "jnp.cos({0} + 0.3)", "{0} * 0.7", "jnp.exp(-{0} * {0})"
BINARY = "{0} + 0.5 * {1}", "{0} * {1}", "jnp.tanh({0} @ {1})", "{0} - jnp.sin({1})"
EDITS = "1.05 * ({})", "({}) + 0.02", "0.96 * ({})"
ARGUMENTS = "x", "w"
NAMES = "h", "t", "gate", "left", "right", "y", "z", "out"
SIZE = 4
_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Line:
    """``name = text``, with names of what it reads in the text's places."""

    key: tuple
    name: str
    text: str
    reads: tuple

    @property
    def written(self):
        return [f"{self.name} = {self.text.format(*self.reads)}"]


@dataclasses.dataclass(frozen=True)
class Call:
    """``name = helper(reads)``; in a helper that was made of lines these keep their keys."""

    key: tuple
    name: str
    helper: str
    reads: tuple
    made: bool = False

    @property
    def written(self):
        return [f"{self.name} = {self.helper}({', '.join(self.reads)})"]


@dataclasses.dataclass(frozen=True)
class Loop:
    """Lines that run several times."""

    key: tuple
    times: int
    lines: tuple

    @property
    def written(self):
        inner = [f"    {text}" for line in self.lines for text in line.written]
        return [f"for k in range({self.times}):", *inner]


@dataclasses.dataclass(frozen=True)
class Function:
    params: tuple
    lines: tuple
    result: str

    def written(self, name):
        inner = [text for line in self.lines for text in line.written]
        return [
            f"def {name}({', '.join(self.params)}):",
            *(f"    {text}" for text in [*inner, f"return {self.result}"]),
        ]


def reads(one):
    lines = one.lines if isinstance(one, Loop) else [one]
    return {name for line in lines for name in line.reads}


def writes(one):
    return {line.name for line in (one.lines if isinstance(one, Loop) else [one])}


def renamed(one, new):
    """A line with other names, or a function."""
    if isinstance(one, Loop):
        return dataclasses.replace(one, lines=tuple(renamed(line, new) for line in one.lines))
    if isinstance(one, Function):
        params = tuple(new.get(name, name) for name in one.params)
        lines = tuple(renamed(line, new) for line in one.lines)
        return Function(params, lines, new.get(one.result, one.result))
    given = tuple(new.get(name, name) for name in one.reads)
    return dataclasses.replace(one, name=new.get(one.name, one.name), reads=given)


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    main: Function
    helpers: dict

    def written(self):
        parts = [helper.written(name) for name, helper in self.helpers.items()]
        return "\n\n\n".join("\n".join(p) for p in [*parts, self.main.written(self.name)]) + "\n"

    def function(self):
        """The function, from a file of its own."""
        text, file = self.written(), f"<{self.name} {next(_NUMBERS)}>"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        names = {"jnp": jnp}
        exec(compile(text, file, "exec"), names)
        return names[self.name]

    def run(self, args):
        """What each line made, in order: by its key its name and the number, by NumPy."""
        made = {}

        def do(one, names, path):
            if isinstance(one, Loop):
                for k in range(one.times):
                    for line in one.lines:
                        do(line, names, (*path, *one.key, k))
                return
            if isinstance(one, Call):
                helper = self.helpers[one.helper]
                given = (names[name] for name in one.reads)
                own = dict(zip(helper.params, given, strict=True))
                for line in helper.lines:
                    do(line, own, path if one.made else (*path, *one.key))
                names[one.name] = own[helper.result]
            else:
                given = {f"v{k}": names[name] for k, name in enumerate(one.reads)}
                names[one.name] = eval(one.text.format(*given), {"jnp": np}, given)
            made[(*path, *one.key)] = one.name, names[one.name]

        names = dict(zip(ARGUMENTS, args, strict=True))
        for one in self.main.lines:
            do(one, names, ())
        return made, names[self.main.result]


def random_program(rng):
    """With helpers that are called several times, and loops."""
    keys = itertools.count()

    def line(known, names):
        text = rng.choice(UNARY + BINARY)
        given = tuple(rng.choice(known[-4:]) for _ in range(1 + text.count("{1}")))
        known.append(rng.choice(names))
        return Line((next(keys),), known[-1], text, given)

    helpers = {}
    for name in ("norm", "mix")[: rng.randint(1, 2)]:
        params = ("x", "b")[: rng.randint(1, 2)]
        known = list(params)
        lines = tuple(line(known, ("mean", "spread", "y")) for _ in range(rng.randint(2, 3)))
        helpers[name] = Function(params, lines, known[-1])

    def part(known, in_loop):
        if rng.random() < 0.35:
            name = rng.choice(sorted(helpers))
            given = tuple(rng.choice(known[-4:]) for _ in helpers[name].params)
            known.append("h" if in_loop else rng.choice(NAMES))
            return Call((next(keys),), known[-1], name, given)
        return line(known, ("h", "t", "h") if in_loop else NAMES)

    known, lines = list(ARGUMENTS), []
    for _ in range(rng.randint(4, 7)):
        lines.append(part(known, False))
    if rng.random() < 0.6:
        lines.append(Line((next(keys),), "h", "jnp.tanh({0})", (known[-1],)))
        inner = ["h", "w", "h"]
        body = [Line((next(keys),), "t", "jnp.sin({0} + 0.1)", ("h",))]
        inner.append("t")
        body += [part(inner, True) for _ in range(rng.randint(1, 2))]
        body.append(Line((next(keys),), "h", "{0} + 0.5 * {1}", ("h", rng.choice(["t", "h"]))))
        lines.append(Loop((next(keys),), rng.randint(2, 3), tuple(body)))
        known.append("h")
    for _ in range(rng.randint(1, 3)):
        lines.append(part(known, False))
    lines.append(Line((next(keys),), "out", "{0} + 0.5 * {1}", (known[-1], known[-2])))
    return Program("before", Function(ARGUMENTS, tuple(lines), "out"), helpers)


# ---- refactorings: each returns another program, or None where there is nothing to do ----------


def _main(program, lines):
    main = dataclasses.replace(program.main, lines=tuple(lines))
    return dataclasses.replace(program, main=main)


def rename_functions(rng, program):
    new = {name: f"{name}_now" for name in program.helpers}

    def of(one):
        if isinstance(one, Loop):
            return dataclasses.replace(one, lines=tuple(map(of, one.lines)))
        return dataclasses.replace(one, helper=new[one.helper]) if isinstance(one, Call) else one

    program = _main(program, map(of, program.main.lines))
    helpers = {
        new[name]: dataclasses.replace(helper, lines=tuple(map(of, helper.lines)))
        for name, helper in program.helpers.items()
    }
    return dataclasses.replace(program, name="after", helpers=helpers)


def rename_variable(rng, program):
    names = sorted(set().union(*map(writes, program.main.lines)))
    old = rng.choice([name for name in names if not name.endswith("_now")] or [None])
    return old and dataclasses.replace(program, main=renamed(program.main, {old: f"{old}_now"}))


def rename_in_a_helper(rng, program):
    name = rng.choice(sorted(program.helpers))
    helper = program.helpers[name]
    old = rng.choice([helper.lines[0].name, *helper.params])
    if old.endswith("_now") or any(isinstance(line, Call) for line in helper.lines):
        return None
    new = {**program.helpers, name: renamed(helper, {old: f"{old}_now"})}
    return dataclasses.replace(program, helpers=new)


def reorder(rng, program):
    lines, moved = list(program.main.lines), False
    for _ in range(8):
        k = rng.randrange(len(lines) - 1)
        one, two = lines[k : k + 2]
        if not (
            writes(one) & (reads(two) | writes(two)) or writes(two) & (reads(one) | writes(one))
        ):
            lines[k : k + 2], moved = [two, one], True
    return _main(program, lines) if moved else None


def _read_after(program, k):
    """What is read behind a place before it is written."""
    live = {program.main.result}
    for one in reversed(program.main.lines[k:]):
        live = (live if isinstance(one, Loop) else live - writes(one)) | reads(one)
    return live


def extract(rng, program):
    lines = program.main.lines
    k = rng.randrange(len(lines) - 2)
    n = rng.randint(2, 3)
    block = lines[k : k + n]
    if any(isinstance(one, Loop) for one in block):
        return None
    live = _read_after(program, k + n) & set().union(*map(writes, block))
    if len(live) != 1:
        return None
    known, given = set(), []
    for one in block:
        given += [name for name in one.reads if name not in known]
        known |= writes(one)
    params, [result], name = tuple(dict.fromkeys(given)), live, f"part{len(program.helpers)}"
    call = Call((name,), result, name, params, made=True)
    helpers = {**program.helpers, name: Function(params, block, result)}
    return dataclasses.replace(_main(program, [*lines[:k], call, *lines[k + n :]]), helpers=helpers)


def extract_body(rng, program):
    loops = [k for k, one in enumerate(program.main.lines) if isinstance(one, Loop)]
    if not loops:
        return None
    k = rng.choice(loops)
    loop, name = program.main.lines[k], f"step{len(program.helpers)}"
    carried = writes(loop) & _read_after(program, k + 1)
    known, given = set(), []
    for line in loop.lines:
        given += [one for one in line.reads if one not in known]
        known |= writes(line)
    if carried != {"h"} or len(loop.lines) == 1 or writes(loop) & set(given) - {"h"}:
        return None
    params = tuple(dict.fromkeys(given))
    call = Call((name,), "h", name, params, made=True)
    helpers = {**program.helpers, name: Function(params, loop.lines, "h")}
    lines = list(program.main.lines)
    lines[k] = dataclasses.replace(loop, lines=(call,))
    return dataclasses.replace(_main(program, lines), helpers=helpers)


def inline(rng, program):
    calls = [
        k for k, one in enumerate(program.main.lines) if isinstance(one, Call) and not one.made
    ]
    if not calls:
        return None
    k = rng.choice(calls)
    call = program.main.lines[k]
    helper = program.helpers[call.helper]
    own = {line.name for line in helper.lines}
    # What is still read afterwards may not be overwritten, nor what was given.
    kept = (_read_after(program, k + 1) - {call.name}) | set(call.reads)
    new = {name: f"{name}_of_{call.helper}" for name in own & kept}
    new |= dict(zip(helper.params, call.reads, strict=True)) if not own & {*helper.params} else {}
    if own & {*helper.params} or set(new.values()) & own:
        return None
    lines = [
        dataclasses.replace(renamed(line, new), key=call.key + line.key) for line in helper.lines
    ]
    result = Line(call.key, call.name, "{0}", (new.get(helper.result, helper.result),))
    every = program.main.lines
    return _main(program, [*every[:k], *lines, result, *every[k + 1 :]])


def unroll(rng, program):
    loops = [k for k, one in enumerate(program.main.lines) if isinstance(one, Loop)]
    if not loops:
        return None
    k = rng.choice(loops)
    loop, every = program.main.lines[k], program.main.lines
    lines = [
        dataclasses.replace(line, key=(*loop.key, turn, *line.key))
        for turn in range(loop.times)
        for line in loop.lines
    ]
    return _main(program, [*every[:k], *lines, *every[k + 1 :]])


REFACTORINGS = (
    rename_functions,
    rename_variable,
    rename_in_a_helper,
    reorder,
    extract,
    extract_body,
    inline,
    unroll,
)


def edited(rng, program):
    """The same with another text in one line of it, or of a helper."""

    def other(line):
        return dataclasses.replace(line, text=rng.choice(EDITS).format(line.text))

    places = [None] * 3 + sorted(program.helpers)
    where = rng.choice(places)
    function = program.main if where is None else program.helpers[where]
    lines = list(function.lines)
    ours = [k for k, one in enumerate(lines) if not isinstance(one, Call)]
    if not ours:
        return None
    k = rng.choice(ours)
    if isinstance(lines[k], Loop):
        inner = list(lines[k].lines)
        ours = [j for j, one in enumerate(inner) if isinstance(one, Line)]
        if not ours:
            return None
        j = rng.choice(ours)
        inner[j] = other(inner[j])
        lines[k] = dataclasses.replace(lines[k], lines=tuple(inner))
    else:
        lines[k] = other(lines[k])
    function = dataclasses.replace(function, lines=tuple(lines))
    if where is None:
        return dataclasses.replace(program, main=function)
    return dataclasses.replace(program, helpers={**program.helpers, where: function})


def refactored(seed):
    """A program, and the same after some refactorings, with their names."""
    rng = random.Random(seed)
    before = after = random_program(rng)
    done = []
    for _ in range(rng.randint(1, 4)):
        change = rng.choice(REFACTORINGS)
        new = change(rng, after)
        if new is not None:
            after = new
            done.append(change.__name__)
    return before, after, done, rng
