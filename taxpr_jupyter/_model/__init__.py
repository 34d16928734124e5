"""The model of a picture as plain data: nodes, clusters, edges, their looks, and the legend.

Knows nothing about JAX, Graphviz or browsers. May import `_text`.
"""
