"""Parts of pictures, as a saved page has them."""

import dataclasses

import jax
import jax.numpy as jnp

import taxpr
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._output.inner import inside


def loss(x):
    def block(x):
        return jnp.sin(jnp.tanh(x) * 2)

    return jax.jit(block)(x).sum()


def test_an_edge_out_of_a_frame_that_is_not_in_the_part_begins_at_its_node():
    """As residuals do that many nodes of an outer frame hand on together."""
    picture = build_picture(taxpr.trace(loss)(jnp.ones(3)), ["0:jit"])
    [frame] = [one for one in picture.clusters if one.fold == "0:jit"]
    outer = dataclasses.replace(frame, id="outer", fold="")
    inner = dataclasses.replace(frame, parent="outer")
    edges = [dataclasses.replace(one, out_of="outer") for one in picture.edges]
    whole = dataclasses.replace(picture, clusters=(outer, inner), edges=tuple(edges))
    part = inside(whole, "0:jit", 3)
    assert {one.out_of for one in part.edges} == {None}
