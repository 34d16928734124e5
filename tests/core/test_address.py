"""Addresses: each says of itself what it is made of, in every program of the table."""

import pickle

import jax.extend.core as jex
import jax.numpy as jnp
import pytest
from cases import CASES

import taxpr
from taxpr import Address
from taxpr._sites.locate import locate


def rebuilt(address):
    """The address again, made of what it says of itself."""
    kind, number = address.kind, address.number
    local = {"eqn": f"{number}:{address.primitive}", "tag": f"t{number}"}.get(
        kind, f"{kind}{number}"
    )
    made = address.home / local
    return made if address.result is None else made.value(address.result)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_address_of_a_program_says_what_it_is_made_of(case):
    program = taxpr.trace(case.fn)(*case.args)
    eqns = dict(taxpr.iter_eqns(program))
    values = {value.address: value for value in taxpr.find_values(program)}
    for address, eqn in eqns.items():
        assert isinstance(address, Address)
        assert rebuilt(address) == address == address.eqn
        assert address.kind == ("tag" if taxpr.is_tag(eqn) else "eqn")
        assert address.primitive == ("" if taxpr.is_tag(eqn) else eqn.primitive.name)
        assert address.home == "" or address.home.home in eqns
        assert address.home == "" or address.is_in(address.home.home)
    for address, value in values.items():
        assert isinstance(address, Address)
        assert rebuilt(address) == address
        assert eqns.get(address.eqn) is value.eqn
        assert (address.result is None) == (value.eqn is None)
    for site in program.tags():
        assert eqns[site.address] is site.eqn
        assert [step.local for step in site.steps] == site.address.parts[:-1:2]
        assert site.chain == tuple(one for one in eqns if site.address.is_in(one))
        assert site.value_address is None or isinstance(site.value_address, Address)
    for address in [*eqns, *values]:
        place = locate(program.jaxpr, address)
        assert place.home == address.home
        assert place.out == address.result


def test_an_address_is_the_string_that_it_was():
    address = Address("3:scan") / "body" / "4:sin"
    assert address == "3:scan/body/4:sin"
    assert {"3:scan/body/4:sin": 1}[address] == 1
    assert repr(address) == "'3:scan/body/4:sin'"
    again = pickle.loads(pickle.dumps(address))
    assert again == address
    assert isinstance(again, Address)


def test_the_empty_address_is_the_program():
    assert Address() / "3:scan" == "3:scan"
    assert Address("3:scan").home == ""
    assert Address().home == "" == Address().kind


@pytest.mark.parametrize("text", ["", "3:scan/body", "3:cond/branches[1]", "loss", "tags", "in"])
def test_what_is_no_place_in_a_jaxpr_has_no_kind(text):
    address = Address(text)
    assert (address.kind, address.number, address.primitive, address.result) == ("", -1, "", None)
    assert address.eqn == text


def test_inputs_have_no_results():
    assert Address("in0.1").kind == ""
    assert Address("in0.1").eqn == "in0.1"


def test_a_primitive_may_have_a_dot_in_its_name():
    twice_p = jex.Primitive("my.twice")
    twice_p.def_abstract_eval(lambda aval: aval)
    program = taxpr.trace(lambda x: jnp.sin(twice_p.bind(x)))(jnp.ones(3))
    address = next(iter(dict(taxpr.iter_eqns(program))))
    assert (address, address.primitive, address.value(0).eqn) == ("0:my.twice", "my.twice", address)
    [tag] = program.tag_at("0:my.twice.0", name="t").tags()
    assert tag.value_address == "0:my.twice.0"
