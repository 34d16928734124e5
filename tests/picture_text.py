"""A picture as text that says all of its data and nothing of its looks, for golden files."""


def picture_text(picture):
    """Clusters and nodes, indented as they are nested, and then the edges.

    `KIND ID: LABEL {MARKS} = TOOLTIP` for nodes and clusters, `SOURCE → TARGET: KIND …` for edges.
    """
    inside = {}
    for cluster in picture.clusters:
        inside.setdefault(cluster.parent, []).append(cluster)
    for node in picture.nodes:
        inside.setdefault(node.cluster, []).append(node)
    lines = [f"{picture.name}: {picture.counts}", *_elements(inside, None, 1), "edges"]
    return "\n".join([*lines, *(f"  {_edge_text(edge)}" for edge in picture.edges), ""])


def _elements(inside, parent, depth):
    for element in inside.get(parent, ()):
        words = [f"{element.kind} {element.id}: {' | '.join(element.lines)}"]
        words += [f"{{{' '.join(element.marks)}}}"] if element.marks else []
        words += [f"[fold {element.fold}]"] if element.fold else []
        words += [f"[pair {element.pair}]"] if element.pair else []
        words += [f"[on {element.on}]"] if getattr(element, "on", "") else []
        words += [f"= {' | '.join(element.tooltip.splitlines())}"]
        yield "  " * depth + " ".join(words)
        yield from _elements(inside, element.id, depth + 1)


def _edge_text(edge):
    words = [f"{edge.source} → {edge.target}: {edge.kind}"]
    for name in ("value", "tail", "head", "into", "out_of", "also"):
        value = getattr(edge, name)
        words += [f"{name}={' '.join(value) if name == 'also' else value}"] if value else []
    words += [f"= {' | '.join(edge.tooltip.splitlines())}"] if edge.tooltip else []
    return " ".join(words)
