"""The higher-order functions of random programs: one entry each.

An entry writes its functions and its call into a scope (see `generate.Scope`), and returns
whether it could. ``primitive`` is what it leaves in a jaxpr: the equation that tags are in.
"""

import dataclasses
from collections.abc import Callable

import jax
from fuzz.build import Hop, Type, as_tuple


@dataclasses.dataclass(frozen=True)
class Entry:
    """One higher-order function.

    Attributes:
        kind: Its name.
        make: Writes it into a scope.
        primitives: One of these, by name, holds its tags; empty where it leaves none.
        reversible: Whether reverse-mode derivatives exist.
    """

    kind: str
    make: Callable
    primitives: tuple[str, ...]
    reversible: bool


HOPS: list[Entry] = []


def hop(*primitives, reversible=True, exists=True):
    def register(make):
        if exists:
            HOPS.append(Entry(make.__name__, make, primitives, reversible))
        return make

    return register


def call(scope, kind, blocks, text, results):
    """The statement ``new names = text``; ``results`` are its types, or a tuple of two lists."""
    pairs = results if isinstance(results, tuple) else (results,)
    names = [f"({', '.join(scope.new(k) for k in kinds)},)" if kinds else "_" for kinds in pairs]
    scope.add(Hop(kind, tuple(blocks), f"{', '.join(names)} = {text}"))
    return True


def operands(scope, low=0, high=2, only=None):
    found = [
        scope.pick(lambda kind: not only or kind.dtype in only)
        for _ in range(scope.number(low, high))
    ]
    found = [value for value in found if value]
    return [text for text, _ in found], [kind for _, kind in found]


def listed(texts):
    return "".join(f", {text}" for text in texts)


def as_arrays(texts):
    """With its checks on, JAX trips over numpy arrays that it maps or differentiates."""
    return [f"jnp.asarray({text})" for text in texts]


def stacked(kind, length):
    return Type(kind.dtype, (length, *kind.shape))


def row(kind):
    return Type(kind.dtype, kind.shape[1:])


# ---- calls -------------------------------------------------------------------


@hop("jit")
def jit(scope):
    texts, kinds = operands(scope)
    f, block, results = scope.block(kinds)
    options = scope.choice(["", ", keep_unused=True", ", inline=True"])
    if results and scope.chance(20):
        # The same body twice; it is one jaxpr when the operands are of the same types.
        scope.add(Hop("jit", (block,), f"{f} = jax.jit({f}{options})"))
        call(scope, "jit", (), f"{f}({', '.join(texts)})", results)
        again = [scope.value(kind) for kind in kinds]
        return call(scope, "jit", (), f"{f}({', '.join(again)})", results)
    return call(scope, "jit", [block], f"jax.jit({f}{options})({', '.join(texts)})", results)


@hop("remat2", "checkpoint")
def remat(scope):
    texts, kinds = operands(scope)
    f, block, results = scope.block(kinds)
    options = ["", ", prevent_cse=False", ", policy=jax.checkpoint_policies.dots_saveable"]
    # 0.7 does not differentiate a cond in there that hands on a key.
    if jax.__version_info__ >= (0, 10):
        options.append(", policy=jax.checkpoint_policies.everything_saveable")
    options = scope.choice(options)
    return call(
        scope, "remat", [block], f"jax.checkpoint({f}{options})({', '.join(texts)})", results
    )


@hop("closed_call", "eval_jaxpr")
def closed_call(scope):
    # JAX does not run it eagerly in a shard_map, up to 0.8, and its checks know no mapped one, up
    # to 0.11.
    if "shard_map" in scope.inside or "vmap" in scope.inside:
        return False
    texts, kinds = operands(scope, low=1)
    f, block, results = scope.block(kinds, isolated=True)
    return call(scope, "closed_call", [block], f"closed_call({f}{listed(texts)})", results)


# ---- loops -------------------------------------------------------------------


@hop("scan")
def scan(scope):
    carry, carry_kinds = operands(scope)
    length = scope.choice([2, 3, 1, 0])
    found = scope.pick(lambda kind: kind.shape[:1] == (length,)) if scope.chance(70) else None
    xs, xs_kinds = ([found[0]], [row(found[1])]) if found else ([], [])
    flat = scope.pick(lambda kind: len(kind.shape) < 2) if scope.chance(60) else None
    ys_kinds = [flat[1]] if flat else []
    f, block, _ = scope.block(
        [*carry_kinds, *xs_kinds],
        groups=[len(carry), len(xs)],
        finish=lambda inner, names: (
            f"{as_tuple([inner.value(kind) for kind in carry_kinds])}, "
            f"{as_tuple([inner.value(kind) for kind in ys_kinds])}"
        ),
    )
    options = scope.choice(["", ", reverse=True", ", unroll=2", ", reverse=True, unroll=2"])
    text = f"lax.scan({f}, {as_tuple(carry)}, {as_tuple(xs)}, length={length}{options})"
    ys = [stacked(kind, length) for kind in ys_kinds]
    return call(scope, "scan", [block], text, (carry_kinds, ys))


@hop("while", reversible=False)
def while_loop(scope):
    carry, kinds = operands(scope)
    trips = scope.choice([2, 1, 3, 0])
    counted = [Type("i"), *kinds]

    def goes_on(inner, names):
        test = f"{names[0]} < {trips}"
        if scope.chance(50):
            return f"jnp.logical_and({test}, {inner.value(Type('b'))})"
        return test

    def stepped(inner, names):
        # The counter itself is never tagged here, so that an injector cannot hold it back.
        return as_tuple([f"{names[0]} + 1", *(inner.value(kind) for kind in kinds)])

    groups = [len(counted)]
    most = scope.choice([1, 0, 2])
    go, condition, _ = scope.block(counted, finish=goes_on, groups=groups, most=most)
    step, body, _ = scope.block(counted, finish=stepped, groups=groups)
    text = f"lax.while_loop({go}, {step}, {as_tuple(['jnp.int32(0)', *carry])})"
    return call(scope, "while_loop", [condition, body], text, counted)


@hop("while", reversible=False)
def batched_while(scope):
    """Lanes that end at different times."""
    found = scope.pick(lambda kind: bool(kind.shape) and kind.shape[0] > 0)
    if found is None:
        return False
    text, kind = found
    size, kinds = kind.shape[0], [Type("i"), Type("i"), row(kind)]
    go, condition, _ = scope.block(
        kinds,
        groups=[3],
        finish=lambda inner, names: f"{names[0]} < {names[1]}",
        inside="vmap",
        most=scope.choice([1, 0, 2]),
    )
    step, body, _ = scope.block(
        kinds,
        groups=[3],
        finish=lambda inner, names: as_tuple([f"{names[0]} + 1", names[1], inner.value(kinds[2])]),
        inside="vmap",
    )
    loop = f"lambda n, x: lax.while_loop({go}, {step}, (jnp.int32(0), n, x))"
    text = f"jax.vmap({loop})(jnp.asarray({[1, 3, 0][:size]}, jnp.int32), jnp.asarray({text}))"
    kinds = [stacked(kind, size) for kind in kinds]
    return call(scope, "batched_while", [condition, body], text, kinds)


@hop("scan")
def fori_loop(scope):
    return _fori(scope, "fori_loop", str(scope.choice([2, 3, 0])))


@hop("while", reversible=False)
def fori_loop_dynamic(scope):
    return _fori(scope, "fori_loop_dynamic", f"jnp.minimum({scope.value(Type('i'))}, 2)")


def _fori(scope, kind, upper):
    carry, kinds = operands(scope, low=1)
    f, block, _ = scope.block([Type("i"), *kinds], kinds, groups=[None, len(kinds)])
    return call(scope, kind, [block], f"lax.fori_loop(0, {upper}, {f}, {as_tuple(carry)})", kinds)


@hop("scan")
def lax_map(scope):
    found = scope.pick(lambda kind: bool(kind.shape))
    if found is None:
        return False
    text, kind = found
    f, block, results = scope.block([row(kind)])
    if any(len(result.shape) > 1 for result in results):
        return False
    outs = [stacked(result, kind.shape[0]) for result in results]
    return call(scope, "lax_map", [block], f"lax.map({f}, {text})", outs)


# ---- branches ----------------------------------------------------------------


@hop("cond")
def cond(scope):
    return _branches(scope, "cond", f"lax.cond({scope.value(Type('b'))}, {{}}{{}})", 2)


@hop("cond")
def switch(scope):
    index, count = scope.value(Type("i")), scope.choice([2, 3, 1])
    return _branches(scope, "switch", f"lax.switch({index}, [{{}}]{{}})", count)


@hop("cond")
def platform_dependent(scope):
    texts, kinds = operands(scope)
    one, first, results = scope.block(kinds)
    two, second, _ = scope.block(kinds, results)
    text = f"lax.platform_dependent({''.join(t + ', ' for t in texts)}cpu={one}, default={two})"
    return call(scope, "platform_dependent", [first, second], text, results)


def _branches(scope, kind, text, count):
    texts, kinds = operands(scope)
    names, blocks, results = [], [], None
    for _ in range(count):
        name, block, results = scope.block(kinds, results, most=2)
        names.append(name)
        blocks.append(block)
    return call(scope, kind, blocks, text.format(", ".join(names), listed(texts)), results)


# ---- transformations: they leave no equation of their own --------------------


@hop()
def vmap(scope):
    found = scope.pick(lambda kind: bool(kind.shape) and kind.shape[0] > 0)
    if found is None:
        return False
    size = found[1].shape[0]
    texts, kinds = [found[0]], [row(found[1])]
    axes = ["0"]
    for _ in range(scope.number(0, 1)):
        text, kind = scope.pick()
        mapped = kind.shape[:1] == (size,)
        texts.append(text)
        kinds.append(row(kind) if mapped else kind)
        axes.append("0" if mapped else "None")
    f, block, results = scope.block(kinds, inside="vmap")
    outs = [stacked(result, size) for result in results]
    text = f"jax.vmap({f}, in_axes={as_tuple(axes)})({', '.join(as_arrays(texts))})"
    return call(scope, "vmap", [block], text, outs)


@hop()
def grad(scope):
    texts, kinds = operands(scope, low=1, only="f")
    if not texts:
        return False
    f, block, _ = scope.block(kinds, reversible=True, finish=lambda inner, _: scalar_float(inner))
    each = ", ".join(map(str, range(len(texts))))
    text = f"jax.grad({f}, argnums=({each},))({', '.join(texts)})"
    return call(scope, "grad", [block], text, kinds)


def scalar_float(scope):
    text, kind = scope.pick(lambda kind: kind.dtype == "f" and 0 not in kind.shape)
    return f"jnp.sum({text})" if kind.shape else f"{text} * F(1.0)"


@hop()
def jvp(scope):
    texts, kinds = operands(scope, low=1, only="fh")
    if not texts:
        return False
    f, block, results = scope.block(kinds, only="fh", inside="jvp")
    along = as_tuple([scope.value(kind) for kind in kinds])
    text = f"jax.jvp({f}, {as_tuple(as_arrays(texts))}, {along})"
    return call(scope, "jvp", [block], text, (results, results))


# ---- custom derivatives, solves, batching, devices ---------------------------


@hop("custom_jvp_call")
def custom_jvp(scope):
    texts, kinds = operands(scope, low=1, only="fh")
    if not texts:
        return False
    f, block, results = scope.block(kinds, isolated=True, only="fh")
    c = scope.name("c")
    rules = ["jax.jvp({f}, p, t)", "({f}(*p), jax.tree.map(jnp.sin, {f}(*p)))"]
    rule = rules[0] if scope.shared.honest else scope.choice(rules)
    lines = f"{c} = jax.custom_jvp({f})\n{c}.defjvp(lambda p, t: {rule.format(f=f)})"
    scope.add(Hop("custom_jvp", (block,), lines))
    return call(scope, "custom_jvp", (), f"{c}({', '.join(texts)})", results)


@hop("custom_vjp_call")
def custom_vjp(scope):
    if "jvp" in scope.inside:  # JAX has no forward-mode derivative of it
        return False
    texts, kinds = operands(scope, low=1, only="fh")
    if not texts:
        return False
    f, block, results = scope.block(kinds, isolated=True, reversible=True, only="fh")
    c = scope.name("c")
    rules = [("jax.vjp({f}, *a)", "a(ct)"), ("({f}(*a), a)", "jax.tree.map(jnp.cos, a)")]
    forward, backward = rules[0] if scope.shared.honest else scope.choice(rules)
    lines = (
        f"{c} = jax.custom_vjp({f})\n"
        f"{c}.defvjp(lambda *a: {forward.format(f=f)}, lambda a, ct: {backward})"
    )
    scope.add(Hop("custom_vjp", (block,), lines))
    return call(scope, "custom_vjp", (), f"{c}({', '.join(texts)})", results)


@hop("custom_linear_solve")
def linear_solve(scope):
    found = scope.pick(lambda kind: kind.dtype == "f" and len(kind.shape) < 2)
    text, kind = found
    f, block, _ = scope.block([kind], [kind], isolated=True, reversible=True)
    lines = (
        f"lax.custom_linear_solve(lambda x: x * 2.0, {text}, lambda _, b: {f}(b)[0], "
        f"transpose_solve=lambda _, b: b * 0.5)"
    )
    name = scope.new(kind)
    scope.add(Hop("linear_solve", (block,), f"{name} = {lines}"))
    return True


@hop("custom_vmap_call", reversible=False)  # JAX cannot linearize it
def custom_vmap(scope):
    if "vmap" in scope.inside:  # JAX does not map every switch that has one in it
        return False
    texts, kinds = operands(scope, low=1)
    f, block, results = scope.block(kinds, isolated=True)
    c = scope.name("c")
    lines = (
        f"{c} = jax.custom_batching.custom_vmap({f})\n"
        f"{c}.def_vmap(lambda n, axes, *a: (jax.vmap({f}, tuple(0 if x else None for x in axes))"
        f"(*a), {as_tuple(['True'] * len(results))}))"
    )
    scope.add(Hop("custom_vmap", (block,), lines))
    return call(scope, "custom_vmap", (), f"{c}({', '.join(texts)})", results)


@hop("shard_map")
def shard_map(scope):
    if "shard_map" in scope.inside:  # the mesh has one axis, and it is taken
        return False
    texts, kinds = operands(scope, low=1)
    f, block, results = scope.block(kinds, isolated=True, inside="shard_map")
    spec = "jax.sharding.PartitionSpec()"
    text = (
        f"jax.shard_map({f}, mesh=mesh_of_one(), in_specs={as_tuple([spec] * len(kinds))}, "
        f"out_specs={as_tuple([spec] * len(results))})({', '.join(texts)})"
    )
    return call(scope, "shard_map", [block], text, results)
