"""A program as lines of text, folded as its picture is: the text of the jaxpr and the outline.

May import `_tree` and what is below.
"""
