"""Trace the user's call: check its arguments, find its source, explain its errors.

May import `_states` and `_text`; may not import anything that draws.
"""
