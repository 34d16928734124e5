"""Pictures that are made by hand, and their layouts."""

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp

from taxpr_jupyter import draw
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model.model import Edge, Node


def node(name, cluster=None, kind: Any = "eqn"):
    return Node(name, name, kind, (name,), "", cluster)


def edge(source, target, kind: Any = "value", **more):
    return Edge(f"{source}->{target}", source, target, kind, **more)


def chain(names):
    return [edge(a, b) for a, b in itertools.pairwise(names)]


def picture(nodes, edges, clusters=()):
    found = draw(jnp.sin, 1.0).picture
    parts = {"nodes": tuple(nodes), "edges": tuple(edges), "clusters": tuple(clusters)}
    return dataclasses.replace(found, **parts)


def laid_out(drawn, kept=None):
    found = lay_out(lambda: arranged(drawn, kept or RecentLayouts()))
    assert found.layout, found.note
    return found.layout
