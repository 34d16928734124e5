"""Places in a program.

The tags (`site`), the way to them (`walk`), their addresses, and selectors that choose them.

May import the table of `_hops`, `_primitives` and what is below. Nothing in here changes a program.
"""
