"""Recordings: the values that a run of a program kept, by the names in the source.

`summary` makes statistics of values, of many numbers by `blocks`. May import `_programs` and the
rooms below.
"""
