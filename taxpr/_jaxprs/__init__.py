"""General tools for jaxprs that know nothing about tags: splice, prune, differentiate, zeros.

May import `_compat` and `_errors`, and no other room.
"""
