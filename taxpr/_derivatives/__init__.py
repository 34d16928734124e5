"""`check_grad`: find the derivative rule that is wrong.

`equations` finds the calls of functions with a rule of their own, and their operands,
`finite_differences` compares a derivative with these. May import `_compile_time` and the rooms
below.
"""
