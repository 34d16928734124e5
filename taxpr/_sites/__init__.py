"""Find places in a program: tags (`site`, `walk`), values, addresses, and selectors of them.

May import the table of `_hops`, `_primitives` and the rooms below; does not change a program.
"""
