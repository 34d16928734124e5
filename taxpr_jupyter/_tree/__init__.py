"""A program as a tree.

Jaxprs, groups of equations, equations; which of them are open; what is left out.

May import `_analysis`, `_model` and `_text`.
"""
