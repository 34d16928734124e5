"""A program as lines of text, folded as its picture is: the jaxpr text and the outline.

May import `_tree` and the rooms below it, and nothing that draws.
"""
