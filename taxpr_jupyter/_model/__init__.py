"""Plain data: the model of a picture with its looks and legend, and the messages of panel and page.

Knows nothing about JAX, Graphviz or browsers. May import `_text`.
"""
