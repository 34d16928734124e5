"""`where` means the same in all functions: every function with every kind of selector."""

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from jax import lax

import taxpr
from taxpr import Address, each, line, maybe, scope, var

X = jnp.asarray([0.3, -0.8, 1.1])


def model(x):
    with jax.named_scope("inner"):
        y = jnp.sin(x)
    z = taxpr.tag(y * 2, name="t", layer=1)  # line of t

    def step(c, v):
        return c + taxpr.tag(v * 3, name="s"), None

    total, _ = lax.scan(step, jnp.float32(0), z)
    return total * total


LINES = dict(enumerate(inspect.getsourcelines(model)[0], model.__code__.co_firstlineno))
LINE_OF_T = next(number for number, text in LINES.items() if text.endswith("# line of t\n"))
PROGRAM = taxpr.trace(model, names=True)(X)
[T, S] = PROGRAM.tags()


def by_hand(x, act=lambda place, value: value):
    """The model in plain Python; ``act(place, value)`` is at the places that selectors mean."""
    y = act("y", jnp.sin(x))
    z = act("t", y * 2)
    total = 0.0
    for s in act("s", z * 3):
        total = total + s
    return act("square", total * total)


def values_of(x):
    found = {}
    by_hand(x, lambda place, value: found.setdefault(place, value))
    return found


VALUES, CLEAN = values_of(X), values_of(2 * X)
AT = {"y": "0:sin.0", "t": "t0.0", "s": "2:scan/body/t0.0", "square": "3:mul.0"}
MADE = {"t": "1:mul.0", "s": "2:scan/body/0:mul.0"}  # what the tags mark
UNTAGGED = {"y", "square"}


def changed(places, change, x=X):
    return by_hand(x, lambda place, value: change(value) if place in places else value)


# ---- kinds of selectors --------------------------------------------------------------------------

# What each means in functions of tags, and in functions of values; None where it is refused. Of
# values "made t" is what the tag t marks.
NAMING = {
    "name of a tag": ("t", ["t"]),
    "name of a tag in a loop": ("s", ["s"]),
    "name of a variable": ("y", ["y"]),
    "name with its function": ("model.y", ["y"]),
    "name in results": ("y#0", ["y"]),
    "var": (var("y"), ["y"]),
    "var with a line": (var("y", line=LINE_OF_T - 1), ["y"]),
    "address": ("0:sin.0", ["y"]),
    "address of an equation": ("0:sin", ["y"]),
    "Address": (Address("0:sin.0"), ["y"]),
    "address of a tag": ("t0", ["t"]),
    "address of a tag in a loop": ("2:scan/body/t0", ["s"]),
    "name of an output": ("out", ["square"]),
    "glob of tags": ("[ts]", ["t", "s"]),
    "glob of variables": ("y*", ["y"]),
    "glob of addresses": ("*:sin*", ["y"]),
    "params": ({"layer": 1}, ["t"]),
    "Site": (T, ["t"]),
    "list": (["t", "y"], ["t", "y"]),
    "tuple": (("y", {"name": "s"}), ["y", "s"]),
    "maybe": (maybe("y"), ["y"]),
    "maybe in a list": (["s", maybe("nope"), maybe(var("nope"))], ["s"]),
}
DESCRIBING = {
    "primitive": (lax.sin_p, None, ["y"]),
    "primitive of tags": (lax.mul_p, ["t", "s"], ["made t", "made s", "square"]),
    "scope": (scope("inner"), None, ["y"]),
    "line": (line(LINE_OF_T), ["t"], ["made t"]),
    "predicate of tags": (lambda site: site.name == "t", ["t"], None),
    "predicate of values": (lambda address, eqn: "sin" in address, None, ["y"]),
    "None": (None, ["t", "s"], "all"),
    "*": ("*", ["t", "s"], "all"),
    "none of them": (maybe("nope"), [], []),
}
WRONG = {
    "nothing of that name": "nope",
    "no such address": "7:sin",
    "no such param": {"layer": 7},
    "list with one that is missing": ["t", "nope"],
    "number": 3,
    "array": np.ones(2),
    "empty list": [],
    "empty params": {},
    "function of JAX": jnp.tanh,
    "function of NumPy": np.tanh,
    "injector": taxpr.zero(),
}
OF_TAGS = {kind: (row[0], row[1]) for kind, row in {**NAMING, **DESCRIBING}.items()}
OF_VALUES = {kind: (row[0], row[-1]) for kind, row in {**NAMING, **DESCRIBING}.items()}


def cases(functions, kinds):
    pairs = itertools.product(functions, kinds)
    return [pytest.param(*pair, id="-".join(pair)) for pair in pairs]


# ---- functions of tags ---------------------------------------------------------------------------


def of_ctx(injected):
    return injected(injected.ctx, X)[0]


def of_init(injected):
    return injected(injected.init(X), X)[0]


def doubled(places):
    return changed(places, lambda value: 2 * value)


def collected(places):
    return [VALUES[place] for place in places]


def gradients(places):
    """The change of the result if something is added at a place."""

    def of(added):
        return by_hand(X, lambda place, value: value + added.get(place, 0.0))

    found = jax.grad(of)({place: jnp.zeros_like(VALUES[place]) for place in places})
    return [found[place] for place in places]


def swept(places):
    return [changed(places, lambda value, k=k: k * value) for k in (0.0, 3.0)]


def ablated(places):
    """One after the other, and in each iteration of the loop."""
    rows = []
    for place in sorted(places, key=list(AT).index):
        if place != "s":
            rows.append(changed([place], lambda value: 0 * value))
        for k in range(3) if place == "s" else ():
            rows.append(changed([place], lambda value, k=k: value.at[k].set(0.0)))
    return rows


def numbers(answer):
    return [jnp.float32(row["metric"]) for row in answer.rows]


FUNCTIONS_OF_TAGS = {
    "Program.inject": (lambda w: of_ctx(PROGRAM.inject(taxpr.scale(2.0), where=w)), doubled),
    "Program.inject mapping": (lambda w: of_ctx(PROGRAM.inject({w: taxpr.scale(2.0)})), doubled),
    "inject": (lambda w: of_init(taxpr.inject(model, taxpr.scale(2.0), where=w)), doubled),
    "Program.collect": (lambda w: list(PROGRAM.collect(w)(X)[1].values()), collected),
    "collect": (lambda w: list(taxpr.collect(model, w)(X)[1].values()), collected),
    "until": (lambda w: list(PROGRAM.until(w)(X).values()), collected),
    "axes": (lambda w: [0] * len(PROGRAM.axes(w)), lambda places: [0] * len(places)),
    "grad_at": (lambda w: list(taxpr.grad_at(model, w)(X).values()), gradients),
    "grad_at of a Program": (lambda w: list(taxpr.grad_at(PROGRAM, w)(X).values()), gradients),
    "sweep": (lambda w: numbers(taxpr.sweep(model, w, taxpr.scale, [0.0, 3.0])(X)), swept),
    "sweep each": (
        lambda w: numbers(taxpr.sweep(model, each(w), taxpr.zero())(X)),
        ablated,
    ),
}


def in_order(places):
    return sorted(places, key=list(AT).index)


@pytest.mark.parametrize(("function", "kind"), cases(FUNCTIONS_OF_TAGS, OF_TAGS))
def test_functions_of_tags(function, kind):
    ask, oracle = FUNCTIONS_OF_TAGS[function]
    where, places = OF_TAGS[kind]
    if function == "Program.inject mapping" and not is_key(where):
        return  # Python takes no such key
    if places is None or (not places and function.startswith("sweep")):
        with pytest.raises(LookupError):
            ask(where)
        return
    assert_close(ask(where), oracle(in_order(places)))


def is_key(where):
    try:
        return bool({where})
    except TypeError:
        return False


# The tags that these selectors mean; functions that only look at tags put none on a value.
@pytest.mark.parametrize("kind", OF_TAGS)
def test_functions_that_look_at_tags_or_remove_them(kind):
    where, places = OF_TAGS[kind]
    asked = {
        "Program.tags": lambda: PROGRAM.tags(where),
        "find_tags": lambda: taxpr.find_tags(PROGRAM, where),
        "dissolve": lambda: [s for s in (T, S) if not PROGRAM.dissolve(where).tags(maybe(s))],
    }
    for name, ask in asked.items():
        if kind == "maybe":  # of a variable without a tag
            assert ask() == []
        elif places is None or UNTAGGED & {*places}:
            with pytest.raises(LookupError):
                ask()
        else:
            assert [site.name for site in ask()] == in_order(places), name


# ---- functions of values -------------------------------------------------------------------------


def at(places):
    return [MADE[place.split()[1]] if " " in place else AT[place] for place in places]


def tagged_at(site):
    """The address of the value in the program without the new tags, which move those of tags."""
    if Address(site.value_address).kind != "tag":
        return site.value_address
    return AT["t"] if site.value_address.startswith("t") else AT["s"]


EVERYTHING = [value.address for value in taxpr.find_values(PROGRAM)]
COMPUTED = [one for one in EVERYTHING if Address(one).kind != "in"]


@pytest.mark.parametrize("kind", OF_VALUES)
def test_functions_of_values(kind):
    where, places = OF_VALUES[kind]
    asked = {
        "find_values": lambda: [value.address for value in taxpr.find_values(PROGRAM, where)],
        "tag_at": lambda: [
            tagged_at(site)
            for site in taxpr.tag_at(PROGRAM, where, name="new").tags(maybe({"name": "new"}))
        ],
        "watch": lambda: [part.address for part in taxpr.watch(model, where)(X).parts],
        "watch a Program": lambda: [part.address for part in taxpr.watch(PROGRAM, where)(X).parts],
        "flow": lambda: [
            part.address
            for part in taxpr.flow(model, where)(X).recording.parts
            if not part.cotangent
        ],
    }
    for name, ask in asked.items():
        watches = name.startswith(("watch", "flow"))
        if (places is None or (watches and not places)) or (name == "tag_at" and where is None):
            with pytest.raises(LookupError):
                ask()
            continue
        wanted = at(places) if places != "all" else COMPUTED if watches else EVERYTHING
        assert sorted(ask()) == sorted(wanted), name


def test_first_difference_compares_what_is_selected():
    def other(x):
        with jax.named_scope("inner"):
            y = jnp.sin(x) * 1.5
        z = taxpr.tag(y * 2, name="t", layer=1)
        total, _ = lax.scan(lambda c, v: (c + taxpr.tag(v * 3, name="s"), None), 0.0, z)
        return total * total

    for where in ("y", "y#0", var("y")):
        found = taxpr.first_difference(model, other, where=where)(X)
        assert [row.variable for row in found.rows][:1] == ["y"]


# ---- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_selector_or_means_nothing_is_refused_by_all(kind):
    where = WRONG[kind]
    asked = {
        **{name: ask for name, (ask, _) in FUNCTIONS_OF_TAGS.items()},
        "tags": PROGRAM.tags,
        "find_tags": lambda w: taxpr.find_tags(PROGRAM, w),
        "find_tags of a jaxpr": lambda w: taxpr.find_tags(PROGRAM.jaxpr, w),
        "dissolve": PROGRAM.dissolve,
        "plant": lambda w: PROGRAM.plant({w: X}),
        "patch": lambda w: taxpr.patch(model, w)(X, 2 * X),
        "find_values": lambda w: taxpr.find_values(PROGRAM, w),
        "find_values of a jaxpr": lambda w: taxpr.find_values(PROGRAM.jaxpr, w),
        "tag_at": lambda w: taxpr.tag_at(PROGRAM, w, name="new"),
        "watch": lambda w: taxpr.watch(model, w)(X),
        "flow": lambda w: taxpr.flow(model, w)(X),
    }
    for name, ask in asked.items():
        if name in ("Program.inject mapping", "plant") and not is_key(where):
            continue
        with pytest.raises(taxpr.TaxprError) as caught:
            ask(where)
        assert isinstance(caught.value, (LookupError, taxpr.ArgumentError)), name
        assert "tanh" not in kind or "jax.lax.tanh_p" in str(caught.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (jnp.tanh, r"where=tanh: it is a function of jax, and no predicate.*jax\.lax\.tanh_p"),
        (np.tanh, r"where=tanh: it is a function of numpy, and no predicate.*jax\.lax\.tanh_p"),
        (jax.nn.relu, r"where=relu: it is a function of jax.* such as jax\.lax\.tanh_p"),
        (lambda a, b: True, r"the predicate <lambda>\(a, b\) is asked about .* by \(site\)"),
        (np.ones(2), r"where is an array, float32\[2\]\. A selector is a name"),
        (3, r"where=3 is an int\. A selector is a name"),
        ([], r"where=\[\] is empty"),
        ({}, r"where=\{\} is empty"),
    ],
)
def test_messages(where, message):
    with pytest.raises(taxpr.SelectorError, match=message):
        PROGRAM.collect(where)


# ---- one text, two things ------------------------------------------------------------------------


def two(x):
    h = jnp.sin(x)
    return taxpr.tag(h * 2, name="h").sum()


def of_one_value(x):
    h = taxpr.tag(jnp.sin(x), name="h")
    h = h * 2
    return h.sum()


def test_a_tag_and_a_variable_of_different_values_are_refused_by_name():
    program = taxpr.trace(two, names=True)(X)
    message = (
        r"where='h' is the tag 'h' \(test_where.py:\d+ in two, at t0\) and the variable two.h "
        r"\(test_where.py:\d+\), .* Say which: \{'name': 'h'\}, or taxpr.var\('h'\)"
    )
    for ask in (
        lambda: program.collect("h"),
        lambda: program.inject({"h": taxpr.zero()}),
        lambda: program.tags("h"),
        lambda: program.tag_at("h", name="new"),
        lambda: taxpr.find_values(program, "h"),
        lambda: taxpr.grad_at(program, "h")(X),
        lambda: taxpr.watch(two, "h")(X),
        lambda: taxpr.flow(two, "h")(X),
        lambda: taxpr.sweep(program, "h", taxpr.scale, [0.0])(X),
    ):
        with pytest.raises(taxpr.SelectorError, match=message):
            ask()
    assert_close(program.collect({"name": "h"})(X)[1], {"h": 2 * jnp.sin(X)})
    assert_close(program.collect(var("h"))(X)[1], {"h": jnp.sin(X)})
    # A function is traced without names as long as its tags have them: a tag comes first.
    assert_close(taxpr.collect(two, "h")(X)[1], {"h": 2 * jnp.sin(X)})


def test_a_tag_on_what_the_variable_held_is_meant():
    program = taxpr.trace(of_one_value, names=True)(X)
    assert_close(program.collect("h")(X)[1], {"h": jnp.sin(X)})
    assert_close(taxpr.watch(of_one_value, "h")(X)["h"].value, jnp.sin(X))
    assert len(program.collect(var("h"))(X)[1]) == 2


def test_a_variable_that_is_called_as_an_address():
    def f(x):
        t0 = jnp.sin(x)
        in0 = taxpr.tag(t0 * 2, name="a")
        return (in0 + x).sum()

    program = taxpr.trace(f, names=True)(X)
    for text, where in (("t0", "the address t0"), ("in0", "the address in0")):
        with pytest.raises(taxpr.SelectorError, match=rf"{where} and the variable f\.{text}"):
            program.collect(text)
    assert_close(program.collect(Address("t0"))(X)[1], {"a": 2 * jnp.sin(X)})
    assert_close(program.collect(var("t0"))(X)[1], {"t0": jnp.sin(X)})
    assert_close(program.collect(Address("in0"))(X)[1], {"in0": X})


def test_what_caller_and_callee_hold_is_one_variable():
    def inner(x):
        z = x * 2
        return z

    def outer(x):
        return inner(x).sum()

    def shifted(x):
        return inner(x + 1).sum()

    for where in ("x", var("x")):
        assert_close(taxpr.collect(outer, where)(X)[1], {"x": X})
        doubled = taxpr.inject(outer, taxpr.scale(2.0), where=where)
        assert_close(doubled(doubled.init(X), X)[0], 4 * X.sum())
        assert_close(taxpr.watch(outer, where)(X)["x"].value, X)
        for ask in (taxpr.collect, taxpr.watch):
            with pytest.raises(taxpr.SelectorError, match="is a variable of 2 functions"):
                ask(shifted, where)(X)


def test_a_variable_that_holds_a_number_is_told_as_such():
    def f(x):
        n = 3
        table = np.arange(3, dtype=np.float32)
        y = x * n
        return (y + table).sum()

    begins = f.__code__.co_firstlineno
    for ask in (taxpr.collect, taxpr.watch, taxpr.grad_at):
        for _ in range(2):  # the second time JAX knows the function
            for where in ("n", var("n"), "f.n", var("f.n")):
                message = rf"f\.n holds the Python int 3 \(test_where.py:{begins + 1}\), which is"
                with pytest.raises(LookupError, match=message):
                    ask(f, where)(X)
        with pytest.raises(LookupError, match=r"f\.table holds an array .* float32\[3"):
            ask(f, "table")(X)
        with pytest.raises(LookupError) as caught:
            ask(f, "nope")(X)
        assert "holds" not in str(caught.value)
    with pytest.raises(LookupError, match="holds the Python int 3"):
        taxpr.inject(f, {"n": taxpr.zero()}).init(X)


def test_a_program_without_names_says_how_to_have_them():
    program = taxpr.trace(model)(X)
    for ask in (
        lambda: program.collect("y"),
        lambda: program.tags("y"),
        lambda: program.inject({"y": taxpr.zero()}),
        lambda: taxpr.find_values(program, "y"),
        lambda: taxpr.watch(program, "y")(X),
    ):
        with pytest.raises(LookupError, match=r"Its variables are not known: .*names=True"):
            ask()
    assert_close(program.collect("x")(X)[1], {"in0": X})  # the name of an input


def test_functions_are_traced_with_names_only_if_a_text_is_no_tag():
    traced = []

    def f(x):
        traced.append(x)
        y = jnp.sin(x)
        return taxpr.tag(y, name="t").sum()

    asked = ("t", 1), ("0:sin", 1), ("*", 1), (var("y"), 1), ("y", 2)
    for number, (where, times) in enumerate(asked):
        traced.clear()
        ask = taxpr.collect(f, where)
        ask(jnp.ones(number + 3))  # of another shape each time, else JAX knows it
        assert len(traced) == times, where
    traced.clear()
    ask(jnp.ones(2))
    assert len(traced) == 1  # which knows by now


def test_each_is_for_what_acts_in_iterations():
    for where in (each("s", iterations=[1]), each({"name": "s"}, iterations=[1])):
        injected = taxpr.inject(model, taxpr.scale(2.0), where=where)
        wanted = changed(["s"], lambda value: value.at[1].multiply(2))
        assert_close(of_init(injected), wanted)
        assert_close(numbers(taxpr.sweep(model, where, taxpr.scale, [2.0])(X)), [wanted])
        planted = changed(["s"], lambda value: value.at[1].set(CLEAN["s"][1]))
        assert_close(numbers(taxpr.patch(model, where, sources="clean")(2 * X, X)), [planted])
    for ask in (PROGRAM.collect, PROGRAM.tags, lambda w: taxpr.watch(model, w)(X)):
        with pytest.raises(taxpr.SelectorError, match=r"each\(\) is for inject, sweep and patch"):
            ask(each("s"))


def test_patch_puts_values_of_one_run_into_another_wherever_they_are_named():
    for kind in ("name of a variable", "address", "name of a tag", "params", "list"):
        where, places = NAMING[kind]
        found = taxpr.patch(model, where, sources="clean")(2 * X, X)
        wanted = [changed([p], lambda value, p=p: CLEAN[p]) for p in in_order(places)]
        assert_close(numbers(found), wanted)
    for where, place in (("y", "y"), ("0:sin", "y"), (T.address, "t"), ("s", "s")):
        planted = PROGRAM.plant({where: CLEAN[place]})
        assert_close(planted(X), changed([place], lambda value, p=place: CLEAN[p]))


def test_globs_of_addresses_and_all_the_iterations_of_tags_in_them():
    assert [site.name for site in PROGRAM.tags("*:scan/*")] == ["s"]
    assert len(taxpr.find_values(PROGRAM, "*:scan/*")) == 4
    out, found = taxpr.collect(model, "*:mul*")(X)
    assert_close(out, by_hand(X))
    assert_close([*found.values()], [VALUES["t"], VALUES["s"], VALUES["square"]])


def test_a_glob_passes_over_values_that_cannot_be_injected():
    def f(x):
        return jnp.sin(lax.reduce(x, 0.0, lambda a, b: jnp.sin(a) + b, (0,)))

    _, found = taxpr.collect(f, "*:sin*")(X)
    assert list(found) == ["1:sin.0"]
    zeroed = taxpr.inject(f, taxpr.zero(), where="*:sin*")
    assert zeroed(zeroed.init(X), X)[0] == 0
    with pytest.raises(taxpr.RefusedError):
        taxpr.collect(f, "0:reduce/jaxpr/0:sin")(X)


def test_many_addresses_are_looked_up_once():
    def f(x):
        for _ in range(30):
            x = jnp.sin(x)
        return x

    program = taxpr.trace(f, names=True)(1.0)
    every = [one.address for one in program.variables()]
    for where in (every, [str(one) for one in every]):
        assert [one.address for one in taxpr.find_values(program, where)] == every
        assert len(program.tag_at(where, name="a").tags()) == 31
        assert len(program.collect(where)(1.0)[1]) == 31
    assert taxpr.find_values(program, [maybe("40:sin"), every[1]])[0].address == every[1]
    with pytest.raises(taxpr.AddressError, match="there is no equation '40:sin'"):
        taxpr.find_values(program, ["40:sin", every[1]])
