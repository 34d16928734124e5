"""General tools for jaxprs and trees that know nothing about tags: splice, prune, differentiate.

May import `_compat` and `_errors`, and no other room.
"""
