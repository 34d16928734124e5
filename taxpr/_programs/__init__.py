"""Programs.

A function traced once, its edits, and the transformations of functions that are made of it.

May import `_injectors` and what is below.
"""
