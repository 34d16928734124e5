"""Tools for jaxprs that know nothing of tags: build one from parts of another, prune, zeros.

A room may import `_compat` and `_errors`, and no other room.
"""
