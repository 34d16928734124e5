"""`watch`: one run of a program that keeps the values of its variables.

`wanted` chooses the values, `budget` divides them among passes that memory allows, by their sizes
from `extent`, and `run` runs these by `passes`. May import `_recordings` and the rooms below.
"""
