"""What is different between two programs."""

import itertools
import random
import re
import shutil
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drawn_programs import HOSTILE, PROGRAMS, V, X
from jax import lax

import taxpr
from taxpr import tag
from taxpr_jupyter import Comparison, PanelError, Session, compare
from taxpr_jupyter._diff import match, pairing
from taxpr_jupyter._diff.diff import diff
from taxpr_jupyter._diff.diff_text import diff_text
from taxpr_jupyter._drawing import build

NS = "{http://www.w3.org/2000/svg}"
NONE = {"same": 0, "inside": 0, "follows": 0, "changed": 0, "added": 0, "removed": 0}
every_program = pytest.mark.parametrize("name", PROGRAMS)
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")


def trace(fn, *args):
    return taxpr.trace(fn)(*args)


def compared(before, after, *args):
    return diff(trace(before, *args), trace(after, *args))


def counts(found):
    return {status: n for status, n in found.counts.items() if n}


def with_status(statuses, *wanted):
    return {address for address, status in statuses.items() if status in wanted}


# --- what is the same -----------------------------------------------------------------------------


@every_program
def test_a_program_traced_twice_is_the_same(name):
    before, after = PROGRAMS[name](), PROGRAMS[name]()
    found = diff(before, after)
    assert found.is_same, diff_text(found)
    total = sum(1 for _ in taxpr.iter_eqns(before.jaxpr))
    assert found.counts == {**NONE, "same": total}
    assert found.pairs == {a: a for a, _ in taxpr.numbered(before)}


def test_letters_lines_and_the_order_of_independent_equations_do_not_matter():
    def before(x):
        a = jnp.sin(x)
        b = jnp.cos(x)
        return a - b

    def after(y):
        second = jnp.cos(y)

        first = jnp.sin(y)
        return first - second

    found = compared(before, after, X)
    assert found.is_same
    assert found.pairs == {"0:sin": "1:sin", "1:cos": "0:cos", "2:sub": "2:sub"}


def test_what_is_inside_of_the_same_can_be_looked_up():
    def loop(x):
        return lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), x)

    found = compared(loop, lambda x: loop(jnp.tanh(x)), X)
    assert found.before["0:scan/body/1:sin"] == "same"
    assert found.partner(0, "0:scan/body/1:sin.0") == "1:scan/body/1:sin.0"
    assert found.after["0:tanh.0"] == "added"
    with pytest.raises(KeyError):
        found.before["7:scan"]


# --- what was done --------------------------------------------------------------------------------


def test_a_literal_is_changed():
    found = compared(lambda x: jnp.sin(x) * 2, lambda x: jnp.sin(x) * 3, X)
    assert counts(found) == {"same": 1, "changed": 1}
    assert found.what(0, "1:mul") == found.what(1, "1:mul.0") == ("operand 1 2.0→3.0",)


def test_a_param_is_changed():
    square = np.ones((3, 3), np.float32)
    found = compared(lambda x: jnp.sum(x * 2, 0), lambda x: jnp.sum(x * 2, 1), square)
    assert counts(found) == {"same": 1, "changed": 1}
    assert found.what(1, "1:reduce_sum") == ("param axes (0,)→(1,)",)


def test_an_equation_is_added_in_the_middle():
    found = compared(
        lambda x: jnp.cos(jnp.sin(x)) + x, lambda x: jnp.cos(jnp.tanh(jnp.sin(x))) + x, X
    )
    assert counts(found) == {"same": 3, "added": 1}
    assert with_status(found.after, "added") == {"1:tanh"}
    assert found.pairs == {"0:sin": "0:sin", "1:cos": "2:cos", "2:add": "3:add"}
    assert found.partner(1, "1:tanh") is None


def test_swapped_operands_are_a_change():
    found = compared(lambda x, y: x - y, lambda x, y: y - x, X, X)
    assert counts(found) == {"changed": 1}
    assert found.what(0, "0:sub") == ("operand 0 in0 → in1", "operand 1 in1 → in0")


def test_an_output_of_another_value_is_a_change():
    def both(x):
        return jnp.sin(x), jnp.cos(x)

    found = compared(lambda x: both(x)[::-1], both, X)
    assert counts(found) == {"same": 2}
    assert not found.is_same
    assert with_status(found.before, "changed") == {"out0", "out1"}
    assert found.what(1, "out0") == ("out0 1:cos.0 → 0:sin.0",)


def test_a_branch_is_removed():
    def branches(*fns):
        return lambda x, i: lax.switch(i, fns, x)

    before = branches(jnp.sin, lambda x: jnp.cos(x) + 1, jnp.tan)
    found = compared(before, branches(jnp.sin, jnp.tan), X, 1)
    cond = next(a for a, eqn in taxpr.numbered(found.programs[0]) if "cond" in a)
    labels = [
        nested.label
        for nested in taxpr.nested_jaxprs(dict(taxpr.numbered(found.programs[0]))[cond])
    ]
    assert found.counts["removed"] == 2
    assert found.counts["added"] == 0
    assert found.before[cond] == "inside"
    assert found.before[f"{cond}/{labels[1]}/0:cos"] == "removed"
    assert found.before[f"{cond}/{labels[2]}/0:tan"] == "same"
    assert found.partner(0, f"{cond}/{labels[2]}/0:tan") == f"{cond}/{labels[1]}/0:tan"


def test_the_body_of_a_scan_is_changed():
    def scan(factor, y):
        def body(c, x):
            return jnp.sin(c) * factor + x, y(c)

        return lambda xs: lax.scan(body, jnp.float32(0), xs)

    found = compared(scan(2, lambda c: c), scan(3, jnp.exp), V)
    assert counts(found) == {"same": 2, "inside": 1, "changed": 1, "added": 1}
    assert found.after["0:scan"] == "inside"
    assert found.what(1, "0:scan/body/1:mul") == ("operand 1 2.0→3.0",)
    assert found.after["0:scan/body/3:exp"] == "added"
    assert found.opens(0, "0:scan")
    assert found.opens(1, "0:scan")


def test_a_constant_is_changed():
    def plus(value):
        held = jnp.asarray(value)
        return lambda x: x + held

    assert diff(trace(plus(V), V), trace(plus(V), V)).is_same
    found = diff(trace(plus(V), V), trace(plus(V + 1), V))
    assert with_status(found.after, "changed") == {"const0"}
    assert counts(found) == {"same": 1}


def test_only_the_cause_of_other_types_is_a_change():
    def program(dtype):
        def fn(x):
            y = x.astype(dtype)
            return (y + y) * 2

        return fn

    found = compared(program(jnp.int16), program(jnp.int8), X)
    assert with_status(found.after, "changed") == {"0:convert_element_type"}
    assert with_status(found.after, "follows") == {"1:add", "2:mul", "out0"}
    texts = found.what(1, "0:convert_element_type")
    assert "dtype i16→i8" in texts
    assert found.counts["added"] == found.counts["removed"] == 0


def test_with_inputs_of_another_shape_the_equations_follow():
    def fn(x):
        return jnp.sum(lax.scan(lambda c, y: (c + y, jnp.sin(y)), V, x * 2)[1])

    before, after = (trace(fn, np.ones((n, 3), np.float32)) for n in (4, 5))
    found = diff(before, after)
    assert found.after["in0"] == "changed"
    assert found.after["0:mul"] == "follows"
    assert found.counts["added"] == found.counts["removed"] == 0
    # The number of trips is a param of its own.
    assert with_status(found.after, "changed") == {"in0", "1:scan"}


# --- tags and injections --------------------------------------------------------------------------


def plain(x):
    def body(c, y):
        return jnp.sin(c) * 2 + y, c

    return lax.scan(body, jnp.float32(0), jnp.tanh(x))


def tagged(x):
    def body(c, y):
        return tag(jnp.sin(c), name="s") * 2 + y, c

    return lax.scan(body, jnp.float32(0), tag(jnp.tanh(x), name="h"))


def test_a_tag_is_added_and_the_rest_is_the_same():
    found = compared(plain, tagged, V)
    assert counts(found) == {"same": 4, "inside": 1, "added": 2}
    assert with_status(found.after, "added") == {"t0", "1:scan/body/t0"}


def test_another_name_of_a_tag_is_a_change():
    found = compared(lambda x: tag(x, name="a") + 1, lambda x: tag(x, name="b") + 1, X)
    assert counts(found) == {"same": 1, "changed": 1}
    assert found.what(0, "t0") == ("param name 'a'→'b'",)


def test_going_past_a_tag_is_a_change():
    def through(x):
        return tag(jnp.sin(x), name="a") * 2

    def past(x):
        y = jnp.sin(x)
        tag(y, name="a")
        return y * 2

    found = compared(through, past, X)
    assert found.before["1:mul"] == "changed"
    assert found.what(0, "1:mul") == ("operand 0 goes through other tags",)


def test_an_injection_adds_what_it_does_and_takes_the_tags():
    before = trace(tagged, V)
    after = before.inject({"h": taxpr.scale(2.0), "s": taxpr.count()})
    found = diff(before, after)
    assert with_status(found.before, "removed") == {"t0", "1:scan/body/t0"}
    added = {a for a in with_status(found.after, "added") if ":" in a.rpartition("/")[2]}
    assert len(added) == 2
    assert "1:mul" in added
    assert found.partner(0, "1:scan/body/0:sin").startswith("2:scan/body/")
    # The loop itself carries one value more.
    assert {a for a in with_status(found.after, "changed") if "/" not in a} == {"2:scan"}
    assert {found.after[f"in{k}"] for k in range(2)} == {"added"}
    assert found.partner(1, "in2") == "in0"


def test_the_forward_part_of_a_gradient_is_the_function():
    def loss(w, x):
        return jnp.sum(jnp.sin(x @ w) * 2 + x)

    args = np.ones((3, 3), np.float32), np.ones((2, 3), np.float32)
    before, after = trace(loss, *args), trace(jax.value_and_grad(loss), *args)
    found = diff(before, after)
    assert found.counts["removed"] == found.counts["changed"] == 0
    assert found.counts["same"] == len(before.eqns)
    assert found.after["out0"] == "same"
    assert found.after["out1"] == "added"


# --- in general -----------------------------------------------------------------------------------

PAIRS = [
    ("flat", "grad_flat"),
    ("scan_plain", "grad_scan_plain"),
    ("remat", "grad_remat"),
    ("switch", "cond_true"),
    ("deep", "scan_plain"),
    ("while_body", "scan_reverse"),
    ("operand_order", "literals"),
]
OPPOSITE = {"added": "removed", "removed": "added"}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_other_way_round_it_is_the_opposite(one, other):
    before, after = PROGRAMS[one](), PROGRAMS[other]()
    there, back = diff(before, after), diff(after, before)
    assert there.counts == {OPPOSITE.get(s, s): n for s, n in back.counts.items()}
    for found in (there, back):
        for side, program in enumerate(found.programs):
            gone = found.counts["added" if side == 0 else "removed"]
            total = sum(1 for _ in taxpr.iter_eqns(program.jaxpr))
            assert sum(found.counts.values()) - gone == total


OPS = {
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "plus": lambda x: x + 1.0,
    "add": jnp.add,
    "mul": jnp.multiply,
    "sub": jnp.subtract,
}
UNARY, BINARY = ("sin", "cos", "tanh", "plus"), ("add", "mul", "sub")


def random_steps(rng, size):
    """Equations: a name, an operation, the names of its operands."""
    steps = []
    for n in range(size):
        op = rng.choice(UNARY + BINARY)
        near = [f"e{max(0, n - 1 - int(rng.expovariate(0.5)))}" if n else "x", rng.choice("xy")]
        operands = rng.choices(near, (5, 1), k=1 + (op in BINARY))
        steps.append((f"e{n}", op, operands))
    return steps


def edited(rng, steps, outs, times):
    """The steps with some deleted and some inserted, and how many of each."""
    deleted = inserted = 0
    for n in range(times):
        at = rng.randrange(len(steps))
        name, _, operands = steps[at]
        if rng.random() < 0.5 and len(steps) > 1:
            deleted += 1
            now, steps, later = operands[0], steps[:at] + steps[at + 1 :], at
        else:
            inserted += 1
            now, later = f"new{n}", at + 2
            new = now, rng.choice(UNARY), [name]
            steps = [*steps[: at + 1], new, *steps[at + 1 :]]
        steps = [
            (e, op, [now if o == name else o for o in used] if k >= later else used)
            for k, (e, op, used) in enumerate(steps)
        ]
        outs = [now if out == name else out for out in outs]
    return steps, outs, deleted, inserted


def of_steps(steps, outs):
    def fn(x, y):
        values = {"x": x, "y": y}
        for name, op, operands in steps:
            values[name] = OPS[op](*(values[operand] for operand in operands))
        return [values[out] for out in outs]

    return trace(fn, X, X)


@pytest.mark.parametrize("seed", range(25))
def test_no_more_is_different_than_was_done(seed):
    rng = random.Random(seed)
    size, times = rng.choice([(10, 1), (30, 2), (60, 4)])
    steps, outs = random_steps(rng, size), [f"e{size - 1}", f"e{size // 2}"]
    new_steps, new_outs, deleted, inserted = edited(rng, steps, outs, times)
    before, after = of_steps(steps, outs), of_steps(new_steps, new_outs)
    found = diff(before, after)
    assert found.counts["added"] - found.counts["removed"] == inserted - deleted
    assert found.counts["added"] + found.counts["removed"] <= deleted + inserted
    assert found.counts["changed"] <= deleted + inserted
    ours, theirs = dict(taxpr.numbered(before)), dict(taxpr.numbered(after))
    for one, other in found.pairs.items():
        if found.before[one] == "same":
            assert told(ours[one]) == told(theirs[other])


def told(eqn):
    """An equation without its variables."""
    atoms = [(str(a), str(a.aval)) if taxpr.is_literal(a) else str(a.aval) for a in eqn.invars]
    return eqn.primitive.name, str(eqn.params), atoms, [str(v.aval) for v in eqn.outvars]


def test_long_programs_with_few_changes_are_compared():
    rng = random.Random(0)
    steps, outs = random_steps(rng, 3000), ["e2999"]
    new_steps, new_outs, deleted, inserted = edited(rng, steps, outs, 5)
    found = diff(of_steps(steps, outs), of_steps(new_steps, new_outs))
    assert found.counts["added"] + found.counts["removed"] <= deleted + inserted
    assert found.counts["changed"] <= deleted + inserted
    assert len(diff_text(found).split("\n")) < 80


def test_long_sequences_are_paired_by_what_is_there_once(monkeypatch):
    monkeypatch.setattr(pairing, "QUADRATIC", 10)
    before, after = list("abcdxef"), list("axbcefd")
    pairs = pairing.in_order(before, after)
    assert [before[a] for a in sorted(pairs)] == [after[pairs[a]] for a in sorted(pairs)]
    assert sorted(pairs.values()) == [pairs[a] for a in sorted(pairs)]
    assert "".join(before[a] for a in sorted(pairs)) == "abcef"


def test_jaxprs_used_many_times_are_compared_once():
    def program(factor):
        fn = jax.jit(lambda x: jnp.sin(x) * factor)
        for _ in range(30):
            fn = jax.jit(lambda x, fn=fn: fn(fn(x)))
        with jax.enable_checks(False):  # they look at each place where a jaxpr is used
            return trace(fn, X)

    found = diff(program(2.0), program(3.0))
    assert found.counts["changed"] == found.counts["same"] == 2**30


# --- text -----------------------------------------------------------------------------------------


def test_the_text_shows_what_changed_and_a_little_around_it():
    def long(x, factor):
        for n in range(20):
            x = jnp.sin(x) * factor if n == 10 else jnp.sin(x) + n
        return x

    text = diff_text(compared(lambda x: long(x, 2.5), lambda x: long(x, 3.5), X), context=1)
    lines = text.split("\n")
    assert re.fullmatch(r"1 change: 2\.5→3\.5 in long \(test_diff\.py:\d+\), 39 same", lines[2])
    assert re.match(r"- 21:mul .* = mul \w+ 2\.5  # test_diff\.py:\d+ in long", lines[5])
    assert re.match(r"\+ 21:mul .* = mul \w+ 3\.5  # test_diff\.py:\d+ in long", lines[6])
    assert lines[7].strip("~ ") == "operand 1 2.5→3.5"
    assert lines[3] == "  … 20 the same or alike"
    assert len(lines) == 10


def test_the_text_of_nested_jaxprs_is_indented():
    lines = diff_text(compared(plain, tagged, V)).split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("▾ 1:scan"))
    assert lines[at + 1] == "    ▾ body:"
    assert any(re.match(r" +\+ t0 +\w+:f32\[\] = tag \w+", line) for line in lines[at + 2 :])


def test_hostile_names_leave_text_and_picture_whole():
    for one, other in itertools.pairwise(HOSTILE):
        before = trace(lambda x, one=one: tag(jnp.sin(x), name=one), X)
        after = trace(lambda x, other=other: tag(jnp.sin(x), name=other), X)
        found = Comparison(before, after)
        assert len(found.text().split("\n")) == 3 + 4
        assert all("digraph" in dot for dot in found.dot())


# --- pictures -------------------------------------------------------------------------------------


def marks(picture):
    return {node.address: node.marks for node in picture.nodes}


def test_what_changed_is_open_and_marked_on_both_sides():
    before = trace(plain, V)
    pictures = compare(before, trace(tagged, V)).pictures
    for picture in pictures:
        assert "1:scan" in picture.unfolded
    assert marks(pictures[1])["1:scan/body/t0"] == ("new",)
    assert pictures[1].find("1:scan/body/t0").lines[0] == "+ tag s"
    assert set(marks(pictures[0]).values()) == {("same",)}
    assert pictures[0].find("0:tanh").pair == "0:tanh"


def test_what_is_the_same_stays_folded():
    def fn(factor):
        return lambda x: plain(x * factor)

    for picture in compare(fn(2), fn(3), V).pictures:
        assert picture.find("2:scan").kind == "hop"
        assert marks(picture)["2:scan"] == ("same",)
        assert marks(picture)["0:mul"] == ("changed",)


@pytest.mark.parametrize("swap", [False, True])
def test_an_equation_opens_on_both_sides_or_on_none(swap):
    def body(n):
        def fn(c, x):
            for _ in range(n):
                c = jnp.sin(c) + x
            return c, c

        return lambda xs: lax.scan(fn, jnp.float32(0), xs)

    sides = body(3), body(60)
    before, after = sides[::-1] if swap else sides
    pictures = compare(before, after, V, budget=40).pictures
    opened = {"0:scan" in picture.unfolded for picture in pictures}
    assert len(opened) == 1


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_all_equations_are_counted_and_all_nodes_marked(one, other):
    found = Comparison(PROGRAMS[one](), PROGRAMS[other]())
    known = {"same", "follows", "changed", "new", "gone"}
    for picture in found.pictures:
        assert picture.counts.drawn + sum(picture.counts.folded.values()) == picture.counts.total
        for node in picture.nodes:
            assert node.kind == "empty" or len(known & set(node.marks)) == 1


def test_groups_say_how_much_in_them_is_different():
    def chain(x, n):
        for _ in range(n):
            x = jnp.sin(x)
        return x

    pictures = compare(
        lambda x: chain(x, 200), lambda x: chain(x, 100) + chain(x * 2, 150), X, budget=20
    ).pictures
    groups = [node for node in pictures[1].nodes if node.kind == "group"]
    changed = [node for node in groups if "same" not in node.marks]
    assert changed
    assert all("new" in node.marks or node.lines[-1][0] in "+~≈" for node in changed)


@needs_dot
def test_both_pictures_are_in_one_svg_without_overlap():
    svg = compare(plain, tagged, V).svg()
    root = ElementTree.fromstring(svg)
    sides = {
        word: next(g for g in root.iter(f"{NS}g") if word in (g.get("class") or "").split())
        for word in ("before", "after")
    }
    spans = {}
    for word, group in sides.items():
        (shift,) = re.findall(r"translate\(([-\d.]+) ", group.get("transform"))
        places = [
            float(rect.get("x")) + part
            for rect in group.iter(f"{NS}rect")
            for part in (0, float(rect.get("width")))
        ]
        spans[word] = [x + float(shift) for x in (min(places), max(places))]
    assert spans["before"][1] < spans["after"][0]
    assert spans["before"][0] >= 0
    assert spans["after"][1] <= float(root.get("viewBox").split()[2])
    addresses = {g.get("data-address") for g in sides["after"].iter(f"{NS}g")}
    paired = {g.get("data-pair") for g in sides["before"].iter(f"{NS}g")} - {None}
    assert "1:scan/body" in paired
    assert paired <= addresses
    texts = ["".join(text.itertext()) for text in root.iter(f"{NS}text")]
    assert "before: plain" in texts
    assert "after: tagged" in texts
    assert "+ added" in texts


# --- the function ---------------------------------------------------------------------------------


def test_sides_are_programs_jaxprs_and_functions():
    program, jaxpr = trace(jnp.sin, X), jax.make_jaxpr(jnp.sin)(X)
    for side in (program, jaxpr, (jnp.sin, X)):
        assert compare(side, side).diff.is_same
        assert compare(side, jnp.sin, X).diff.counts["same"] == 1
    assert compare(jnp.sin, jax.grad(jnp.sin), X).diff.counts["added"] >= 1
    assert compare((jnp.sin, X), (jnp.sin, V)).diff.after["0:sin"] == "follows"


def test_what_cannot_be_compared_is_said():
    program = trace(jnp.sin, X)
    with pytest.raises(PanelError, match=r"the second side is an int\. Give a function, with"):
        compare(program, 3)
    with pytest.raises(PanelError, match="neither side is a bare function"):
        compare(program, program, X)
    with pytest.raises(PanelError, match=r"must end in \.svg, \.txt"):
        compare(program, program).save("x.png")


def test_a_comparison_is_saved_as_a_drawing_is(tmp_path):
    found = compare(plain, tagged, V)
    found.save(tmp_path / "X.TXT")
    assert (tmp_path / "X.TXT").read_text() == f"{found.text()}\n"
    with pytest.raises(PanelError, match=r"there is no folder .*\. Make it first"):
        found.save(tmp_path / "no folder" / "x.txt")


@needs_dot
def test_a_comparison_shows_and_saves_itself(tmp_path):
    found = compare(plain, tagged, V)
    found.save(tmp_path / "x.svg")
    found.save(tmp_path / "x.txt")
    assert "</svg>" in (tmp_path / "x.svg").read_text()
    assert "2 changes: tag h added in tagged" in (tmp_path / "x.txt").read_text()
    assert repr(found).startswith("<comparison of plain and tagged: 2 changes: tag h added in ")
    assert set(found._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}


@needs_dot
def test_a_session_draws_its_program_with_what_has_drawn_it_before(monkeypatch):
    def f(x):
        def step(h, w):
            return jnp.tanh(w @ h), h.sum()

        h, sums = jax.lax.scan(step, x, jnp.ones((3, 2, 2)))
        y = tag(h.sum(), name="y")
        return y * 2 + sums.sum()

    made = []
    fold = build.Fold
    monkeypatch.setattr(build, "Fold", lambda *args: made.append(args[0]) or fold(*args))
    session, other = (Session(f, (jnp.ones(2),)) for _ in range(2))
    session.attach("y", "scale")
    picture = session.svg()
    changes = session.changes()
    svg = changes.svg()
    assert list(map(id, made)) == list(map(id, (session.program, changes.after)))
    assert svg == Comparison(changes.before, changes.after, budget=40).svg()
    session.tag("in0", "more")
    session.undo()
    assert session.svg() == picture
    assert other.svg() != picture  # it has no injector
    added = Session(f, (jnp.ones(2),))
    added.tag("in0", "more")
    added.svg()
    del made[:]
    assert added.changes().svg()
    assert made[0] is added.untouched  # without the tag


def test_where_all_is_paired_nothing_more_is_looked_for(monkeypatch):
    looked = []
    spread = match.Matching._spread
    monkeypatch.setattr(
        match.Matching, "_spread", lambda self, level: looked.append(level) or spread(self, level)
    )
    found = compared(lambda x: jnp.sin(x) * 2, lambda x: tag(jnp.sin(x), name="a") * 2, 1.0)
    assert counts(found) == {"same": 2, "added": 1}
    assert len(looked) == 1


def test_without_an_engine_there_is_text(monkeypatch):
    from taxpr_jupyter._layout import dot_program, engine, wasm

    def gone(*args):
        raise engine.Unavailable("gone")

    monkeypatch.setattr(dot_program, "engine", gone)
    monkeypatch.setattr(wasm, "engine", gone)
    found = compare(plain, tagged, V)
    bundle = found._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    assert "No picture: gone" in bundle["text/plain"]
    with pytest.raises(PanelError, match="There is no picture to write"):
        found.save("x.svg")


def test_the_changes_of_a_session():
    session = Session(plain, (V,))
    assert session.changes().diff.is_same
    session.tag("0:tanh", name="h")
    tags = session.changes().diff
    assert with_status(tags.after, "added") == {"t0"}
    assert tags.counts["changed"] == tags.counts["removed"] == 0
    session.attach("0:tanh", "scale", factor=2.0)
    found = session.changes().diff
    assert with_status(found.after, "added") >= {"1:mul", "in0"}
    assert found.counts["removed"] == 0
