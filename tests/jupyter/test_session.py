"""The session: tags, injectors, values and folding, and that nothing is lost on a mistake."""

import functools
import re
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jupyter_samples import XS, H, W, nested

import taxpr
from taxpr_jupyter import PanelError, Session


@pytest.fixture
def session():
    return Session(nested, (W, XS))


def snapshot(session):
    return session.tags, session.injectors, session.unfolded, session.text()


def double(ctx, token, params):
    """Twice the token."""
    return token * 2.0, ctx


def test_a_new_session_has_the_tags_of_the_source(session):
    rows = session.sites()
    assert [row.name for row in rows] == ["h", "pos", "v"]
    assert [row.trips for row in rows] == [3, 3, None]
    assert [row.where.split(" (")[0] for row in rows] == ["scan body", "scan body", "while body"]
    assert rows[0].key == H
    assert rows[0].address == "0:scan/body/t0"
    assert "samples.py:" in rows[0].source
    assert not any(row.added for row in rows)
    assert session.tags == {}
    assert session.injectors == {}


def test_tag_names_and_keys(session):
    assert session.tag("in0") == "in0"
    assert session.tag("0:scan/body/0:add") == "0:scan/body/0:add.0"
    assert session.tag("0:scan.1", layer=3) == "0:scan.1"
    assert session.tag("in1", "input") == "in1"
    assert [tag["name"] for tag in session.tags.values()] == ["w", "tag1", "ys", "input"]
    assert session.tags["0:scan.1"] == {"name": "ys", "layer": 3}
    names = [row.name for row in session.sites()]
    assert sorted(names) == ["h", "input", "pos", "tag1", "v", "w", "ys"]
    assert session.program.tags() != session.edited.tags()


def test_keys_stay_when_addresses_move(session):
    session.attach("h", "scale", factor=2.0)
    session.tag("0:scan/body/0:add.0")  # a tag before `h`
    row = next(row for row in session.sites() if row.name == "h")
    assert row.address == "0:scan/body/t1"
    assert row.key == H
    assert row.injector.values == {"factor": 2.0}
    # An address means what it means in the picture now; a key of several values is no address.
    session.attach("0:scan/body/t0", "zero")
    assert session.injectors["0:scan/body/0:add.0"].name == "zero"


def test_tags_of_several_values_and_doubled_tags():
    def f(x):
        a, b = taxpr.tag((x, x + 1.0), name="pair")
        return taxpr.tag(taxpr.tag(a * b, name="first"), name="second")

    session = Session(f, (1.0,))
    keys = {row.name: row.key for row in session.sites()}
    assert keys["pair"] == "tag:t0"
    assert keys["second"] == "tag:t2"
    session.attach("pair", "scale", factor=2.0)
    session.attach("second", "add", value=1.0)
    session.tag("in0")
    again = {row.name: row for row in session.sites()}
    assert again["pair"].address == "t1"
    assert again["pair"].key == "tag:t0"
    assert again["pair"].injector.name == "scale"
    assert again["second"].injector.name == "add"
    assert again["x"].injector is None
    assert float(session.run().outputs) == 2.0 * 4.0 + 1.0


def two_pairs(x):
    y, z = taxpr.tag((jnp.sin(x), x), name="first")
    a, b = taxpr.tag((y, z * 2), name="pair")
    return a * b


def test_a_key_is_no_address_of_another_tag():
    session = Session(two_pairs, (1.0,))
    keys = {row.name: row.key for row in session.sites()}
    session.tag("in0", name="n")
    rows = {row.name: row for row in session.sites()}
    assert {row.name: row.key for row in session.sites() if not row.added} == keys
    assert rows["pair"].address == "t2"
    assert not set(keys.values()) & {row.address for row in rows.values()}
    for name, factor in (("first", 5.0), ("pair", 2.0)):
        session.attach(keys[name], "scale", factor=factor)
    session.set_value(keys["pair"], "factor", 3.0)
    values = {name: session.injectors[keys[name]].values["factor"] for name in keys}
    assert values == {"first": 5.0, "pair": 3.0}
    found = session.inspect(keys["pair"])
    assert (found.address, found.kind, found.site.name) == ("t2", "tag", "pair")
    with pytest.raises(PanelError, match=r"'pair' \(.*, at t2\) is in the source"):
        session.untag(keys["pair"])
    run = session.run()
    assert float(run.outputs) == pytest.approx(5 * np.sin(1.0) * 3 * (10 * 3.0))
    assert set(run.records) == {*keys.values(), "in0"}
    session.detach(keys["pair"])
    assert list(session.injectors) == [keys["first"]]
    session.untag("in0")
    assert list(session.injectors) == [keys["first"]]


def test_an_added_tag_is_untagged_by_its_key():
    session = Session(two_pairs, (1.0,))
    session.tag("0:sin", name="sine")
    session.tag("in0", name="n")
    (row,) = [row for row in session.sites() if row.name == "sine"]
    session.untag(row.key)
    assert list(session.tags) == ["in0"]


def test_an_address_in_the_program_is_no_name():
    def f(x):
        return taxpr.tag(jnp.sin(x), name="in0") + taxpr.tag(x * 2, name="0:sin")

    session = Session(f, (1.0,))
    session.attach("in0", "scale", factor=3.0)  # as the panel does for this value
    assert list(session.injectors) == ["in0"]
    assert session.edited.tags("t0")[0].value_address == "in0"
    session.attach("0:sin", "scale")
    assert [row.name for row in session.sites() if row.injector] == ["x", "in0"]


def test_untag_takes_the_injector_along(session):
    session.attach("in0", "zero")
    assert session.tags == {"in0": {"name": "w"}}
    session.untag("w")
    assert session.tags == {}
    assert session.injectors == {}


def test_rename_keeps_the_injector(session):
    session.attach("in0", "zero")
    session.rename("w", "start")
    session.rename("start", "start")
    assert session.tags == {"in0": {"name": "start"}}
    assert session.injectors["in0"].name == "zero"


def test_attach_takes_everything_that_is_an_injector():
    ready = taxpr.scale(2.0)
    session = Session(nested, (W, XS), namespace={"double": double, "ready": ready})
    made = [
        session.attach("h", "scale", factor=2),
        session.attach("h", "double"),
        session.attach("h", double),
        session.attach("h", taxpr.scale(2.0)),
        session.attach("h", taxpr.scale, factor=2.0),
        session.attach("h", "ready"),
        session.attach("h", "ready", factor=3.0),
        session.attach("h", lambda ctx, token, params: (token, ctx + 1), ctx=0),
    ]
    assert [one.error for one in made] == [None] * len(made)
    assert [one.name for one in made[:6]] == [
        "scale",
        "double",
        "double",
        "scale",
        "scale",
        "ready",
    ]
    assert made[0].values == {"factor": 2.0}
    assert isinstance(made[0].values["factor"], float)
    assert made[6].values == {"factor": 3.0}
    assert list(session.injectors) == [H]
    session.detach("h")
    assert session.injectors == {}


def test_choices_are_the_ready_ones_and_functions_of_the_namespace():
    @taxpr.injector(rate=taxpr.Param(0.5, 0.0, 1.0))
    def fade(token, rate):
        """Fade it."""
        return token * (1 - rate)

    def takes_more(ctx, token, params, extra):
        return token, ctx

    def optional(ctx, token, params, extra=1):
        return token, ctx

    namespace = {
        "double": double,
        "fade": fade,
        "optional": optional,
        "takes_more": takes_more,
        "_hidden": double,
        "np": np,
        "dict": dict,
        "x": 3,
    }
    choices = Session(nested, (W, XS), namespace=namespace).choices()
    ready = list(taxpr.ready_injectors())
    assert list(choices) == [*ready, "fade", "double", "optional"]
    assert choices["double"].doc == "Twice the token."
    assert choices["double"].kind == "function"
    assert choices["scale"].params["factor"].default == 0.5
    assert choices["fade"].params["rate"].high == 1.0


def test_a_function_defined_anew_is_taken_up_by_the_next_run():
    namespace = {"edit": double}
    session = Session(lambda x: taxpr.tag(x, name="x"), (3.0,), namespace=namespace)
    session.attach("x", "edit")
    assert float(session.run().outputs) == 6.0

    def edit(ctx, token, params):
        return token * 10.0, ctx

    namespace["edit"] = edit
    assert float(session.run().outputs) == 30.0
    del namespace["edit"]
    assert float(session.run().outputs) == 30.0


def test_a_partial_is_an_injector():
    def times(k, ctx, token, params):
        """Times a number."""
        return token * k, ctx

    tenfold = functools.partial(times, 10.0)
    namespace = {"tenfold": tenfold, "f": two_pairs, "x": 1.0, "jnp": jnp, "taxpr": taxpr}

    class Halve:
        def __call__(self, ctx, token, params):
            return jax.tree.map(lambda leaf: leaf / 2, token), ctx

    session = Session(lambda x: taxpr.tag(x, name="x"), (3.0,), namespace=namespace)
    assert session.attach("x", tenfold).name == "times"
    assert float(session.run().outputs) == 30.0
    assert "taxpr.from_function(tenfold)" in session.code()
    assert session.choices()["tenfold"].doc == "Times a number."
    session.attach("x", "tenfold")
    assert float(session.run().outputs) == 30.0
    session.attach("x", functools.partial(times, 4.0))
    assert float(session.run().outputs) == 12.0
    assert "taxpr.from_function(functools.partial(times, 4.0))" in session.code()
    assert re.search(
        r"#   times: function of test_session.py:\d+, the injector at 'x' \(.*at t0\)",
        session.code(),
    )
    assert session.attach("x", Halve()).name == "Halve"
    assert float(session.run().outputs) == 1.5
    with pytest.raises(PanelError, match="times is a plain function without a parameter 'k'"):
        session.attach("x", tenfold, k=2.0)


def test_a_broken_injector_stays_with_its_reason_and_can_be_mended():
    def edit(ctx, token, params):
        raise ValueError("not today")

    namespace = {"edit": edit}
    session = Session(lambda x: taxpr.tag(x, name="x"), (3.0,), namespace=namespace)
    attached = session.attach("x", "edit")
    assert "not today" in attached.error
    assert session.injectors["in0"].error == attached.error
    assert not session.run().ok
    namespace["edit"] = double
    assert session.run().ok
    assert session.injectors["in0"].error is None


def test_set_value(session):
    session.attach("h", "clip")
    session.set_value("h", "low", 0)
    session.set_value(H, "high", np.float32(0.5))
    assert session.injectors[H].values == {"low": 0.0, "high": 0.5}
    assert all(type(value) is float for value in session.injectors[H].values.values())


def square_of_tagged(w):
    return taxpr.tag(w * w, name="h") ** 2


def test_a_derivative_that_stays_as_it_was_is_a_note_and_no_failure():
    """Warnings are errors in these tests."""
    session = Session(jax.grad(square_of_tagged), (3.0,))
    with pytest.warns(taxpr.StaleDerivativeWarning, match="inject first") as seen:
        attached = session.attach("h", "scale", factor=0.5)
    assert seen[0].filename == __file__
    assert attached.error is None
    assert "tag 'h'" in attached.note
    assert "the program was differentiated before this change" in attached.note
    assert session.injectors[attached.key] is attached
    session.set_value("h", "factor", 0.25)
    assert session.injectors[attached.key].note == attached.note
    run = session.run()  # which warns no second time
    assert run.ok, run.error
    assert float(run.outputs) == 4 * 9.0 * 0.25 * 3.0
    assert f"({session.sites()[0].address}) {attached.note}" in session.tags_table()
    assert session.changes().diff.summary()
    later = Session(jax.grad(square_of_tagged), (3.0,))
    later.take_over(session)
    assert later.injectors[attached.key].note == attached.note
    session.attach("h", "count")  # reads only
    assert session.injectors[attached.key].note == ""


def test_where_nothing_is_to_be_said_there_is_no_note(session):
    assert session.attach("h", "scale").note == ""


def test_the_other_warnings_of_an_injector_are_warned():
    def warns(ctx, token, params):
        warnings.warn("of mine", RuntimeWarning, stacklevel=1)
        return token, ctx

    session = Session(lambda x: taxpr.tag(x, name="x"), (3.0,))
    with pytest.warns(RuntimeWarning, match="of mine") as seen:
        attached = session.attach("x", warns)
    assert (attached.error, attached.note) == (None, "")
    assert seen[0].filename == __file__


def test_a_value_that_mends_an_injector():
    session = Session(lambda n: taxpr.tag(n, name="n"), (3,))
    assert "float" in session.attach("n", "scale", factor=0.5).error
    session.set_value("n", "factor", 2.0)
    assert session.injectors["in0"].error is None
    assert int(session.run().outputs) == 6


def test_fold_and_unfold(session):
    session.fold("0:scan")
    assert "0:scan" not in session.picture().unfolded
    session.unfold("0:scan")
    assert "0:scan" in session.picture().unfolded
    session.fold("0:scan/body")  # its cluster
    assert "0:scan" not in session.picture().unfolded
    session.fold_default()
    assert session.unfolded is None


@pytest.mark.spread(5)
@pytest.mark.parametrize(
    "mistake",
    [
        lambda s: s.tag("nowhere"),
        lambda s: s.tag("h"),
        lambda s: s.tag(H),
        lambda s: s.tag("0:scan/body/t0", "other"),
        lambda s: s.tag("0:scan/body/t0.0", "other"),
        lambda s: s.tag("0:scan"),
        lambda s: s.tag("0:scan/body"),
        lambda s: s.tag("in0", "h"),
        lambda s: s.tag("in0", bad=[1]),
        lambda s: s.untag("h"),
        lambda s: s.untag("in0"),
        lambda s: s.rename("h", "g"),
        lambda s: s.attach("in0", "nothing"),
        lambda s: s.attach("in0", "scale", wrong=1),
        lambda s: s.attach("in0", 3),
        lambda s: s.attach("in0", double, factor=1),
        lambda s: s.attach("nowhere", "scale"),
        lambda s: s.detach("v"),
        lambda s: s.set_value("w", "wrong", 1.0),
        lambda s: s.set_value("w", "factor", "much"),
        lambda s: s.set_value("v", "factor", 1.0),
        lambda s: s.fold("in0"),
    ],
)
def test_a_mistake_changes_nothing_and_is_kept(session, mistake):
    session.attach("0:scan/body/0:add", "scale", factor=0.5)
    before = snapshot(session)
    with pytest.raises(PanelError) as caught:
        mistake(session)
    assert snapshot(session) == before
    assert session.error == str(caught.value)
    assert "\n" not in session.error
    session.tag("in0")
    assert session.error is None
    assert session.run().ok


def test_changes_are_told_outside_the_lock(session):
    told = []

    def in_another_thread(what):
        # A view on another thread can look at the session while it is being told.
        thread = threading.Thread(target=lambda: told.append((what, len(session.sites()))))
        thread.start()
        thread.join(timeout=10)
        assert not thread.is_alive()

    unsubscribe = session.on_change(in_another_thread)
    session.tag("in0")
    session.attach("in0", "scale")
    session.set_value("in0", "factor", 2.0)
    session.fold("0:scan")
    with pytest.raises(PanelError):
        session.tag("in0", "other")
    session.run()
    session.close()
    assert [what for what, _ in told] == [
        "tags",
        "injectors",
        "values",
        "folding",
        "error",
        "run",
        "closed",
    ]
    unsubscribe()
    unsubscribe()
    session.untag("in0")
    assert len(told) == 7


def test_a_view_that_fails_stops_nobody(session, caplog):
    told = []

    def broken(what):
        raise RuntimeError("gone")

    session.on_change(broken)
    session.on_change(told.append)
    with pytest.warns(UserWarning, match="RuntimeError: gone"):
        session.tag("in0")
    assert told == ["tags"]
    assert session.error is None
    (logged,) = caplog.records
    assert logged.name == "taxpr_jupyter"
    assert "in broken" in caplog.text


def test_many_threads(session):
    errors = []

    def work(number):
        try:
            for k in range(5):
                name = f"n{number}_{k}"
                session.tag("in0", name)
                session.untag(name)
        except PanelError as error:
            if "tagged already" not in str(error):
                errors.append(error)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(session.tags) <= 1


@pytest.mark.parametrize(
    ("address", "kind", "title"),
    [
        ("0:scan", "eqn", "scan"),
        ("0:scan/body", "jaxpr", "scan body"),
        ("0:scan/body/t0", "tag", "tag h"),
        ("in0", "input", "input w"),
        ("0:scan/body/in1", "input", "input x"),
        ("out0", "output", "output out['c']"),
        ("0:scan/body/out1", "output", "output y"),
        (H, "eqn", "h"),
        ("", "jaxpr", "nested"),
        ("nowhere", "unknown", "nothing is here"),
        ("out9", "unknown", "nothing is here"),
        ("in9", "unknown", "nothing is here"),
        ("x/y/z", "unknown", "nothing is here"),
    ],
)
def test_inspect(session, address, kind, title):
    found = session.inspect(address)
    assert (found.address, found.kind, found.title) == (address, kind, title)


def test_inspect_an_equation(session):
    found = session.inspect("0:scan")
    assert found.primitive == "scan"
    assert dict(found.params)["length"] == "3"
    assert "jaxpr of" in dict(found.params)["jaxpr"]
    assert [row.address for row in found.values] == ["0:scan.0", "0:scan.1"]
    assert [row.text.split(":")[1] for row in found.values] == ["f32[2]", "f32[3,2]"]
    assert found.foldable
    assert "samples.py:" in found.source
    assert found.source_line.startswith("c, ys = jax.lax.scan")
    tanh = session.inspect("0:scan/body/1:tanh")
    assert tanh.values[0].tag.name == "h"
    assert tanh.outputs[0].endswith(":f32[2]")


def test_inspect_never_raises_for_what_the_picture_shows(session):
    session.unfold("0:scan")
    picture = session.picture()
    for element in (*picture.nodes, *picture.clusters):
        found = session.inspect(element.address)
        assert found.title
        assert found.kind != "unknown", element


def test_places_where_no_injector_can_work():
    def f(x):
        return jax.lax.reduce(x, 0.0, lambda a, b: taxpr.tag(a + b, name="inner"), (0,))

    session = Session(f, (jnp.ones(3),))
    if not session.sites():
        pytest.skip("this JAX turns the reduction into one without a jaxpr")
    (row,) = session.sites()
    assert row.refused
    assert session.inspect(row.address).refused == row.refused
    with pytest.raises(PanelError, match="inner"):
        session.attach("inner", "scale")
    assert session.injectors == {}
    run = session.run()
    assert run.ok, run.error
    assert "not recorded" in run.records[row.key].note


def test_text_marks_tags_and_injectors(session):
    session.attach("h", "scale", factor=0.5)
    lines = session.text().splitlines()
    marked = [line for line in lines if line.startswith(("●", "◆"))]
    assert [line[0] for line in marked] == ["◆", "●", "●"]
    assert marked[0].endswith("← scale(factor=0.5)")
    assert lines[0] == "nested(args[0], args[1]): 17 equations, 3 tags"
    table = session.tags_table().splitlines()
    assert table[0].split() == ["tag", "address", "type", "in", "injector", "source"]
    assert len(table) == 4
    short = session.text(limit=3).splitlines()
    assert len(short) == 5
    assert "more lines" in short[-1]
    assert "\x1b[1;32m" in session.text(color=True)
    assert "no tags" not in repr(session)
    assert repr(session).startswith("<taxpr session nested(")


def test_hostile_names_stay_on_their_line():
    session = Session(lambda x: taxpr.tag(x, name="a\nb\x1b[31m"), (1.0,))
    for text in (session.text(), session.tags_table()):
        assert "\x1b" not in text
        assert "a\\nb" in text


def test_save(session, tmp_path):
    for suffix, start in (
        (".svg", "<svg"),
        (".dot", "digraph"),
        (".gv", "digraph"),
        (".html", "<!DOCTYPE html>"),
        (".txt", "nested("),
        (".py", "import"),
    ):
        file = tmp_path / f"p{suffix}"
        session.save(file)
        assert file.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(PanelError, match=r"p\.gif cannot be written"):
        session.save(tmp_path / "p.gif")
    assert not (tmp_path / "p.gif").exists()


def test_drawing_never_runs_the_program():
    ran = []

    def f(x):
        jax.debug.callback(lambda: ran.append(1))
        return taxpr.tag(x + 1.0, name="h")

    session = Session(f, (1.0,))
    session.attach("h", "scale")
    session.svg()
    session.text()
    session._repr_mimebundle_()
    assert ran == []


def test_a_tag_set_again_stays(session):
    key = session.tag("in0", name="x", layer=1)
    session.attach(key, "scale", factor=0.5)
    assert session.tag("in0", name="x", layer=1) == key
    assert session.injectors[key].values == {"factor": 0.5}
    with pytest.raises(PanelError, match="is tagged already, as 'x'"):
        session.tag("in0", name="y")


def test_a_function_that_needs_a_ctx_is_told_how_to_get_one(session):
    def counts(n, token, params):
        return token, n + 1

    attached = session.attach("h", counts)
    assert "Its ctx is (): give another by session.attach(" in attached.error
    broken = session.attach("h", lambda ctx, token, params: 1 / 0, ctx=np.ones(2))
    assert "ZeroDivisionError" in broken.error
    assert "Its ctx is ()" not in broken.error
    assert session.attach("h", counts, ctx=0).error is None
    assert session.run().ok


def test_an_error_that_has_nothing_to_do_with_the_ctx_asks_for_none(session):
    def refuses(ctx, token, params):
        raise ValueError("a tuple of two is wanted")

    def of_shapes(ctx, token, params):
        return token * (token.shape + 1), ctx

    for function in (refuses, of_shapes):
        attached = session.attach("h", function)
        assert "raised" in attached.error
        assert "Its ctx is ()" not in attached.error


def test_where_a_tag_and_its_value_come_from():
    def f(x):
        y = jnp.sin(x)
        return taxpr.tag(y, name="own") * 2

    session = Session(f, (0.5,))
    own = session.inspect("t0")
    assert own.source_line == 'return taxpr.tag(y, name="own") * 2'
    assert own.value_line == "y = jnp.sin(x)"
    assert own.value_source != own.source
    assert own.added_by == ""
    session.tag("1:mul", "mine")
    added = session.inspect("t1")
    assert added.source_line == 'return taxpr.tag(y, name="own") * 2'  # of the product
    assert added.added_by == "session.tag('1:mul.0', name='mine')"
    assert added.value_source == ""
    session.untag("mine")
    assert eval(added.added_by, {"session": session}) == "1:mul.0"
    assert session.inspect("0:sin").added_by == ""


# ---- functions of the notebook -------------------------------------------------


def shrink(ctx, token, params, factor=0.5, share=(0.0, 2.0), times=1, axes=(0, 1)):
    """Shrink the value."""
    for _ in range(times):  # a Python number
        token = token * factor * share
    return token, ctx


def total(seen, value, about):
    return value, seen + value


def broken(ctx, token, params):
    raise ValueError("of my own")


def remembers(ctx, token, params):
    return token, token


def tagged(x):
    return taxpr.tag(x, name="x")


def session_of(**names):
    return Session(tagged, (jnp.float32(3),), call="tagged(x)", namespace=names)


def test_the_menu_offers_what_is_made_to_be_an_injector():
    class Halve:
        def __call__(self, ctx, token, params):
            return token / 2, ctx

    def loss_fn(params, xs, ys):
        return ((xs @ params - ys) ** 2).sum()

    @taxpr.injector()
    def kind(token):
        return token

    foreign = jnp.where
    names = {
        "__name__": __name__,
        "shrink": shrink,
        "double": lambda c, t, p: (t * 2, c),
        "unread": lambda _, token, __: (token, _),
        "more": lambda context, token, params, *rest, by=2: (token, context),
        "any_number": lambda *args: (args[1], args[0]),
        "loss_fn": loss_fn,
        "lerp": lambda a, b, c: (b, a),
        "scored": lambda params, token, ctx: (token, ctx),
        "kind": kind,
        "made": taxpr.from_function(double),
        "halve": Halve(),
        "twice": jax.jit(double),
        "partly": functools.partial(shrink, factor=2.0),
        "two": lambda c, t: (t, c),
        "four": lambda a, b, c, d: (b, a),
        "where": foreign,
        "scale": taxpr.scale,
        "Halve": Halve,
    }
    session = session_of(**names)
    found = [name for name, one in session.choices().items() if one.kind == "function"]
    functions = ["shrink", "double", "unread", "more", "halve", "twice", "partly"]
    assert found == ["kind", "made", *functions]
    # What is not offered can be attached all the same, by whoever knows that it is one.
    assert session.attach("x", "any_number").error is None
    assert float(session.run().outputs) == 3.0


def test_numbers_among_the_defaults_are_parameters():
    session = session_of(shrink=shrink, tagged=tagged, x=jnp.float32(3))
    choice = session.choices()["shrink"]
    assert choice.doc == "Shrink the value."
    assert {k: (p.default, p.low, p.high) for k, p in choice.params.items()} == {
        "factor": (0.5, None, None),
        "share": (1.0, 0.0, 2.0),
        "times": (1, None, None),
    }
    attached = session.attach("x", "shrink")
    assert (attached.error, attached.values) == (None, {"factor": 0.5, "share": 1.0, "times": 1})
    assert float(session.run().outputs) == 1.5
    session.set_value("x", "factor", 0.25)
    run = session.run()
    assert (float(run.outputs), run.reused) == (0.75, True)
    session.set_value("x", "times", 2)
    assert float(session.run().outputs) == 3 * 0.25**2
    code = session.code()
    made = "taxpr.from_function(functools.partial(shrink, times=2), factor=0.25, share=1.0)"
    assert made in code
    assert "import functools\n" in code
    namespace = {"shrink": shrink, "tagged": tagged, "x": jnp.float32(3)}
    exec(code, namespace)
    assert float(namespace["out"]) == 3 * 0.25**2
    with pytest.raises(PanelError, match=r"parameter 'axes'\. It has factor, share, times"):
        session.attach("x", "shrink", axes=3)
    assert session.attach("x", shrink, share=2.0).values["share"] == 2.0


def test_a_parameter_takes_the_dtype_of_what_it_meets():
    session = Session(tagged, (jnp.bfloat16(3),), namespace={"shrink": shrink})
    assert session.attach("x", "shrink").error is None


def test_a_function_that_needs_a_ctx_asks_for_it():
    session = session_of(total=total, broken=broken, remembers=remembers, double=double)
    for name in ("total", "remembers"):
        attached = session.attach("x", name)
        assert attached.asks_ctx
        assert "Its ctx is (): give another by session.attach(" in attached.error
    assert not session.attach("x", "double").asks_ctx
    attached = session.attach("x", "broken")
    assert not attached.asks_ctx
    assert "ValueError: of my own" in attached.error
    assert "ctx" not in attached.error.replace("(ctx", "")
    session.attach("x", "total")
    session.set_ctx("x", 1.0)
    attached = session.injectors["in0"]
    assert (attached.error, attached.asks_ctx, attached.ctx) == (None, True, 1.0)
    assert float(session.run().records["in0"].report["ctx"]) == 4.0
    assert "taxpr.from_function(total, ctx=1.0)" in session.code()
    session.attach("x", "scale")
    with pytest.raises(PanelError, match="scale has a context of its own"):
        session.set_ctx("x", 1.0)


def test_a_function_defined_anew_has_its_new_defaults_and_docstring():
    def first(ctx, token, params, factor=0.5, power=2.0):
        """The first text."""
        return token * factor**power, ctx

    def second(ctx, token, params, factor=0.25, more=1.0):
        """The second text."""
        return token * factor + more, ctx

    for given in ("edit", first):
        names = {"edit": first}
        session = session_of(**names)
        session.namespace = names
        session.attach("x", given)
        session.set_value("x", "power", 1.0)
        assert float(session.run().outputs) == 1.5
        names["edit"] = second
        assert session.choices()["edit"].doc == "The second text."
        assert float(session.run().outputs) == 1.75
        assert session.injectors["in0"].values == {"factor": 0.25, "more": 1.0}
        session.set_value("x", "factor", 1.0)  # what the user has set stays
        names["edit"] = lambda ctx, token, params, factor=0.5: (token * factor, ctx)
        assert float(session.run().outputs) == 3.0
        names["edit"] = first
        assert session.run().error is None
        assert session.injectors["in0"].values == {"factor": 1.0, "power": 2.0}
