"""What a picture consists of, as plain data.

Nodes, clusters, edges; what their kinds look like; the legend.

Knows nothing of JAX, Graphviz or browsers. May import `_text`.
"""
