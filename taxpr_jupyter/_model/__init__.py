"""Plain data: the model of a picture with its looks and legend.

Knows nothing about JAX, Graphviz or browsers. May import `_text` and `_messages`.
"""
