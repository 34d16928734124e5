"""The index of places, and the graph of each jaxpr."""

import pytest
from drawn_programs import PROGRAMS

import taxpr
from taxpr_jupyter._analysis.def_use import LITERAL
from taxpr_jupyter._analysis.index import Index


@pytest.fixture(params=PROGRAMS, name="index")
def index_of_a_program(request):
    return Index(PROGRAMS[request.param]())


def test_the_equations_are_those_of_the_program_in_order(index):
    known = [(address, id(eqn)) for address, eqn in taxpr.iter_eqns(index.program)]
    assert [(place.address, id(place.eqn)) for place in index.eqns()] == known


def test_the_values_are_those_that_the_core_finds(index):
    places = [place for place in index.places if place.eqn is None or not taxpr.is_tag(place.eqn)]
    found = {
        address: var
        for place in places
        for address, var in index.values(place.address)
        if hasattr(var.aval, "dtype") and "Ref" not in type(var.aval).__name__
    }
    values = {
        value.address: value.aval for value in taxpr.find_values(index.program, taxpr.maybe(None))
    }
    assert {address: var.aval for address, var in found.items()} == values
    assert all(index.variable(address) is var for address, var in found.items())


def test_each_number_is_of_one_place_or_result(index):
    numbers = [
        number
        for place in index.places
        for number in (place.number, *(place.results if place.eqn is not None else ()))
    ]
    assert numbers == list(range(index.size))
    for home in index.homes.values():
        ends = [*home.consts, *home.ins, *home.outs]
        own = [place.number for place in index.places if place.home is home and place.eqn is None]
        assert own == ends


def test_what_is_in_a_place_has_numbers_in_its_span(index):
    for place in index.places:
        assert index.span(place.address) == (place.number, place.stop)
        for step in place.steps:
            assert step.number < place.number < place.stop <= step.stop
        for number, (address, _) in enumerate(index.values(place.address), place.number + 1):
            assert index.span(address) == (number, number + 1) or place.eqn is None
        assert index.home_of(place.address) is place.home


def test_users_and_what_is_behind_an_operand_are_inverse(index):
    for home in index.homes.values():
        graph = home.graph
        used = {
            (graph.behind(atom)[0], i)
            for i, eqn in enumerate(graph.eqns)
            for atom in (() if taxpr.is_tag(eqn) else eqn.invars)
        }
        used |= {(graph.behind(atom)[0], len(graph.eqns)) for atom in home.jaxpr.outvars}
        values = [
            (var, source)
            for var, source in graph.made.items()
            if source[0] < 0 or not taxpr.is_tag(graph.eqns[source[0]])
        ]
        users = {(source, i) for var, source in values for i in graph.users(var)}
        assert users == {(source, i) for source, i in used if source[0] != LITERAL}
