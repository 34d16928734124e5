"""Draws a program: from the tree to the model of a picture.

May import `_tree`, `_lines`, `_diff`, `_analysis`, `_model`, `_text`. Knows nothing of Graphviz.
"""
