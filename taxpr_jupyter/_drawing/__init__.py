"""Turn the tree of a program into the model of a picture.

May import `_tree`, `_lines`, `_diff`, `_analysis`, `_model`, `_text`. Knows nothing about Graphviz.
"""
