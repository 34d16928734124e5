"""What a library gives to `taxpr.libraries.objects` is checked whenever it is used."""

import jax.numpy as jnp
import pytest

import taxpr
from taxpr._calls import libraries


class Mean:
    """A running mean, with a function among its attributes."""

    def __init__(self, rate, value=0.0):
        self.rate, self.value, self.shape = rate, jnp.asarray(value), lambda x: x

    def __call__(self, x):
        self.value += self.rate * (x.mean() - self.value)
        return self.shape(x) - self.value


def split(means):
    states = {label: {"value": mean.value} for label, mean in means.items()}
    return {label: mean.rate for label, mean in means.items()}, states


def merge(static, states):
    return {label: Mean(static[label], **own) for label, own in states.items()}


def update(means, states):
    for label, own in states.items():
        means[label].value = own["value"]


def step(mean, x):
    return mean(x).sum()


def asked(split=split, merge=merge):
    library = taxpr.libraries.objects("means", Mean, split, merge, update)
    taxpr.register_library("means", library)
    return taxpr.watch(step)(Mean(0.5), jnp.ones(4))


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(libraries, "_registered", {})


def test_what_fits_is_taken():
    rec = asked()
    assert [float(x) for x in (rec.out, rec.states["mean.value"])] == [2.0, 0.5]
    assert asked(lambda means: [*split(means)]).out == 2.0


WITHOUT_STATIC = {"merge": lambda static, states: merge({"mean": 0.5}, states)}


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"split": lambda means: split(means)[1]}, "split of means returned a dict, not (static"),
        ({"split": lambda means: None}, "split of means returned a NoneType, not (static, states)"),
        ({"split": lambda means: (None, {})}, "returned {} as the states of {'mean'}: give for"),
        ({"split": lambda means: split(means)[::-1]}, "returned a float of 'mean', not a dict of"),
        (
            {"split": lambda means: (None, {k: one.value for k, one in means.items()})},
            "split of means returned an array of 'mean', not a dict of its arrays by names",
        ),
        ({"split": lambda means: (None, {k: {0: 1.0} for k in means})}, "returned {0} of 'mean'"),
        (
            {"split": lambda means: (dict(means), split(means)[1])},
            "returned a static with a Mean in it: it is all that is no array",
        ),
        (
            {"split": lambda means: ([jnp.zeros(2)], split(means)[1])},
            "returned a static with an array in it",
        ),
        (
            {"split": lambda means: (object(), split(means)[1]), **WITHOUT_STATIC},
            "returned two statics of the same objects that are not equal by ==",
        ),
        ({"merge": lambda *given: None}, "merge of means returned a NoneType, not a dict of the"),
        ({"merge": lambda *given: {}}, "merge of means returned {}, not a dict of the objects {'m"),
        ({"merge": lambda *given: {"mean": 3}}, "merge of means made 'mean' an int, not a Mean"),
    ],
)
def test_what_does_not_fit_is_said(functions, said):
    with pytest.raises(taxpr.ArgumentError) as found:
        asked(**functions)
    assert said in str(found.value)


def test_a_static_without_an_order_and_one_that_is_no_bool():
    rec = asked(lambda means: ({1: 0, "a": 1}, split(means)[1]), **WITHOUT_STATIC)
    assert rec.out == 2.0

    class Odd:
        def __eq__(self, other):
            raise ValueError("no order")

    with pytest.raises(taxpr.ArgumentError, match="are not equal by =="):
        asked(lambda means: (Odd(), split(means)[1]), **WITHOUT_STATIC)


def test_classes_and_functions():
    with pytest.raises(taxpr.ArgumentError, match="'Mean' is no class of objects of means"):
        taxpr.libraries.objects("means", "Mean", split, merge, update)
    with pytest.raises(taxpr.ArgumentError, match="update of means: 3 is an int, not a function"):
        taxpr.libraries.objects("means", Mean, split, merge, 3)
