"""Random JAX programs, made of bytes that Hypothesis draws.

One draw of bytes, and not one draw for each choice, since Hypothesis likes to repeat parts of
what it drew: nearly half of the programs were the same as others.

Values stay bounded, so that floats can be compared; loops end, also when an injector
changes what their tags mark. Every program is small: a few statements in each block, at
most `MOST_HOPS` higher-order functions, nested to depth `DEPTH`.
"""

from fuzz.build import DTYPES, Block, Line, Program, Type, as_tuple
from fuzz.hops import HOPS
from hypothesis import strategies as st

DEPTH = 4
MOST_HOPS = 6
F = Type("f")
ARG_TYPES = (
    *(Type(dtype, shape) for dtype in "ffhiufb" for shape in ((3,), (2,), ())),
    Type("k"),
)
# A token of so many leaves: its text, and the text of the way to each leaf.
TOKENS = {
    0: [("()", ()), ("{{'none': None}}", ())],
    1: [("{0}", ("",)), ("({0}, None)", ("[0]",)), ("{{'a': [{0}, {{}}]}}", ("['a'][0]",))],
    2: [("({0}, {1})", ("[0]", "[1]")), ("{{'z': {0}, 'b': ({1},)}}", ("['z']", "['b'][0]"))],
    3: [("[{0}, ({1}, [{2}])]", ("[0]", "[1][0]", "[1][1][0]"))],
}


class Choices:
    """Reads choices from bytes; at the end of them, and where they are 0, the first option."""

    def __init__(self, tape):
        self._tape = iter(tape)

    def number(self, low, high):
        """``low`` to ``high``, at most 255 more."""
        return low + next(self._tape, 0) % (high - low + 1)

    def choice(self, options):
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent):
        return self.number(0, 99) >= 100 - percent


def choices():
    """A strategy for `Choices`, long enough for most programs."""
    return st.binary(min_size=150, max_size=1200).map(Choices)


class Shared:
    """What all scopes of one program share.

    Attributes:
        choices: Where they read.
        without: The kinds of higher-order functions that must not be in it.
        honest: Whether custom rules must be those of their functions.
        names, tags, hops: How many it has.
    """

    def __init__(self, choices, without, honest):
        self.choices, self.without, self.honest = choices, without, honest
        self.names = self.tags = self.hops = 0


class Scope:
    """A function under construction: the values that it can use, and its statements.

    Attributes:
        values: ``(text, Type)`` of each value in reach, closed-over ones included.
        reversible: Whether reverse-mode derivatives must exist (no while loop).
        inside: The kinds of the higher-order functions around it that say so.
        depth: How many of all kinds are around it.
    """

    def __init__(self, shared, values, depth=0, reversible=False, inside=()):
        self.shared, self.depth = shared, depth
        self.reversible, self.inside = reversible, inside
        self.values = list(values)
        self.body = []

        self.number = shared.choices.number
        self.choice = shared.choices.choice
        self.chance = shared.choices.chance

    # ---- values --------------------------------------------------------------

    def pick(self, fits=lambda kind: True):
        """A value whose type fits, or None; newer ones are drawn more often."""
        found = [value for value in self.values if fits(value[1])]
        computed = [value for value in found if value[0] not in CONSTANTS]
        if computed and self.chance(85):
            found = computed
        if not found:
            return None
        return found[-1] if self.chance(50) else self.choice(found)

    def value(self, kind):
        """The text of a value of this type, mostly one that depends on others."""
        what = self.number(0, 9)
        found = self.pick(lambda other: other == kind)
        if found and what < 8 and found[0] not in CONSTANTS:
            return found[0]
        found = self.pick(lambda other: 0 not in other.shape)
        return converted(*found, kind) if found and what < 9 else made_up(kind)

    # ---- statements ----------------------------------------------------------

    def name(self, letter="v"):
        self.shared.names += 1
        return f"{letter}{self.shared.names}"

    def new(self, kind):
        """The name of a new value, which statements from here on can use."""
        name = self.name()
        self.values.append((name, kind))
        return name

    def add(self, statement):
        self.body.append(Line(statement) if isinstance(statement, str) else statement)

    def statement(self):
        what = self.choice(["tag", "operation", "hop", "tag", "hop"])
        room = self.depth < DEPTH and self.shared.hops < MOST_HOPS
        if what == "hop" and room and self.hop():
            return
        if what == "operation":
            self.operation()
        else:
            self.tag()

    def hop(self):
        entry = self.choice(HOPS)
        if entry.kind in self.shared.without or (self.reversible and not entry.reversible):
            return False
        self.shared.hops += 1
        return entry.make(self)

    def tag(self):
        leaves = [
            self.pick() if self.chance(88) else self.choice(LITERALS)
            for _ in range(self.choice([1, 1, 1, 2, 3, 0]))
        ]
        leaves = [leaf for leaf in leaves if leaf]
        template, ways = self.choice(TOKENS[len(leaves)])
        token = template.format(*(text for text, _ in leaves))
        function = "keep" if self.chance(6) else "tag"
        more = ", extra=(1, 'x')" if self.chance(10) else ""
        call = f"{function}({token}, name='n{self.shared.tags}'{more})"
        self.shared.tags += 1
        if not leaves or self.chance(15):
            self.add(call)
            return
        if template == "{0}":
            self.add(f"{self.new(leaves[0][1])} = {call}")
            return
        whole = self.name()
        self.add(f"{whole} = {call}")
        for (_, kind), way in zip(leaves, ways, strict=True):
            self.add(f"{self.new(kind)} = {whole}{way}")

    def operation(self):
        found = operations(self, *self.pick())
        if found:
            text, kind = self.choice(found)
            self.add(f"{self.new(kind)} = {text}")

    # ---- nested functions ----------------------------------------------------

    def block(
        self,
        params,
        want=None,
        *,
        finish=None,
        groups=None,
        header="def {name}({params})",
        isolated=False,
        reversible=False,
        inside=None,
        only=None,
        most=3,
    ):
        """A nested function: ``(name, Block, types of its results)``.

        Args:
            params: The types of its parameters.
            want: The types of its results; None draws them.
            finish: In place of these: from its scope and the names of its parameters to the
                text that it returns.
            groups: How it gets them: for each argument None, or a tuple of how many.
            header: Text to be filled in.
            isolated: Whether it may not use the values around it.
            reversible: Whether it must have reverse-mode derivatives.
            inside: The kind of function that it is for, if some must not be in it.
            only: The dtypes that drawn results may have.
            most: How many statements it has at most.
        """
        around = [v for v in self.values if not isolated or v[0] in CONSTANTS]
        inner = Scope(
            self.shared,
            around,
            self.depth + 1,
            self.reversible or reversible,
            (*self.inside, inside),
        )
        names = [inner.new(kind) for kind in params]
        taken = names
        if groups is not None:
            rest = iter(names)
            taken = [next(rest) if size is None else self.name("g") for size in groups]
            for group, size in zip(taken, groups, strict=True):
                if size is not None:
                    inner.add(f"{as_tuple([next(rest) for _ in range(size)])} = {group}")
        for _ in range(inner.number(min(1, most), most)):
            inner.statement()
        if finish is not None:
            result = finish(inner, names)
        elif want is not None:
            result = as_tuple([inner.value(kind) for kind in want])
        else:
            found = [inner.pick(lambda kind: not only or kind.dtype in only) for _ in range(2)]
            found = [value for value in found if value][: inner.choice([1, 2])]
            want = [kind for _, kind in found]
            result = as_tuple([text for text, _ in found])
        name = self.name("f")
        header = header.format(name=name, params=", ".join(taken))
        return name, Block(header, tuple(inner.body), result), want


def program_of(choices, without=(), reversible=None, honest=False):
    """A random program.

    Args:
        choices: What decides.
        without: The kinds of higher-order functions that must not be in it.
        reversible: Whether it must have reverse-mode derivatives; None leaves it open.
        honest: Whether custom rules must give the derivatives of their functions.
    """
    if reversible is None:
        reversible = choices.chance(50)
    scope = Scope(Shared(choices, without, honest), CONSTANTS.items(), reversible=reversible)
    args = tuple(scope.choice(ARG_TYPES) for _ in range(scope.number(1, 3)))
    names = [scope.new(kind) for kind in args]
    for _ in range(scope.number(2, 5)):
        scope.statement()
    results = [scope.pick()[0] for _ in range(scope.number(1, 3))]
    if scope.chance(15):
        results.append(scope.choice(LITERALS)[0])
    block = Block(f"def program({', '.join(names)})", tuple(scope.body), as_tuple(results))
    return Program(block, args)


CONSTANTS = {
    "S": F,
    "N": Type("i"),
    "W2": Type("f", (2,)),
    "W3": Type("f", (3,)),
}
LITERALS = [("0.75", F), ("THREE", Type("i")), ("True", Type("b")), ("F(-0.5)", F)]


def made_up(kind):
    """The text of a constant of this type."""
    if kind.dtype == "k":
        return f"jax.random.split(jax.random.key(3), {kind.shape})" if kind.shape else KEY
    number = {"f": 0.5, "h": 0.25, "i": 2, "u": 250, "b": True}[kind.dtype]
    return f"jnp.full({kind.shape}, {number}, {DTYPES[kind.dtype]})"


def converted(x, kind, want):
    """The text of a value of type ``want`` that depends on ``x``."""
    if kind == want:
        return x
    if kind.dtype == "k":
        x = f"jax.random.key_data({x})"
    number = f"jnp.sin(jnp.sum(jnp.asarray({x}).astype(F)))"
    if want.dtype in "iub":
        number = f"({number} > 0.1237)"
    if want.dtype == "k":
        key = f"jax.random.fold_in({KEY}, ({number} > 0.1237).astype(jnp.int32))"
        return f"jax.random.split({key}, {want.shape})" if want.shape else key
    if want.shape:
        number = f"jnp.broadcast_to({number}, {want.shape})"
    return number if want.dtype in "fb" else f"{number}.astype({DTYPES[want.dtype]})"


KEY = "jax.random.key(3)"


def operations(scope, x, kind):
    """What can be done with a value: ``(text, Type)`` of each."""
    dtype, shape = kind.dtype, kind.shape
    other = (scope.pick(lambda k: k == kind) or (x, kind))[0]
    out = []
    if dtype in "fh":
        # Thresholds are odd numbers: rounding must not decide which branch is taken.
        out += [
            (f"jnp.sin({x})", kind),
            (f"jnp.tanh({x} + {other})", kind),
            (f"{x} * 0.5 + {other} * 0.25", kind),
            (f"jnp.cos({x} * {other})", kind),
            (f"{x} > 0.1237", Type("b", shape)),
            (f"jnp.asarray({x}).astype({DTYPES['h' if dtype == 'f' else 'f']})",
             Type("h" if dtype == "f" else "f", shape)),
            (f"lax.stop_gradient({x}) - {other} * 0.5", kind),
        ]  # fmt: skip
        if shape and 0 not in shape:
            out.append((f"jnp.tanh(jnp.sum({x}))", Type(dtype)))
        if dtype == "f" and len(shape) == 1:
            out.append((f"jnp.tanh(jnp.dot({x}, {other}))", F))
    elif dtype in "iu":
        out += [
            (f"{x} + {other}", kind),
            (f"{x} * 3", kind),
            (f"{x} > 1", Type("b", shape)),
            (f"jnp.asarray({x}).astype({DTYPES['u' if dtype == 'i' else 'i']})",
             Type("u" if dtype == "i" else "i", shape)),
            (f"jnp.sin(jnp.asarray({x}).astype(F))", Type("f", shape)),
        ]  # fmt: skip
    elif dtype == "b":
        out += [
            (f"jnp.logical_and({x}, {other})", kind),
            (f"jnp.logical_not({x})", kind),
            (f"jnp.asarray({x}).astype(jnp.int32)", Type("i", shape)),
            (f"jnp.where({x}, {scope.value(Type('f', shape))}, {made_up(Type('f', shape))})",
             Type("f", shape)),
        ]  # fmt: skip
    elif not shape:
        out += [
            (f"jax.random.fold_in({x}, {scope.value(Type('i'))})", kind),
            (f"jax.random.uniform({x}, (2,), F)", Type("f", (2,))),
            (f"jax.random.split({x}, (3,))", Type("k", (3,))),
        ]
    if not shape:
        out.append((f"jnp.stack([{x}, {other}])", Type(dtype, (2,))))
    elif shape[0]:
        out.append((f"{x}[{shape[0] - 1}]", Type(dtype, shape[1:])))
    return out
