"""Traces the user's call.

Its arguments, its place in the source, its errors, and hints what to do about these.

May import `_states` and `_text`.
"""
