"""A program as a tree of jaxprs, groups and equations; which are open, and which are left out.

May import `_analysis`, `_model` and `_text`.
"""
