"""`summary`: the tree of the user's functions, with their costs.

`call_tree` finds the functions and statements of a program, `used_parameters` the arguments that
equations read, `summary_rows` what is shown, and `summarize` puts it together. May import
`_profile`, `_memory` and the rooms below.
"""
