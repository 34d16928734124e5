"""Recordings: one run of a program that keeps the values of its variables.

`wanted` chooses the values, `summary` makes statistics of them, of many numbers by `blocks`,
`budget` divides them among passes that memory allows, by what `extent` says that each takes, `run`
runs these by `passes`, and `recording` has what was kept. May import `_programs` and what is below.
"""
