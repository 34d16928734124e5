"""`check_grad`: find the derivative rule that is wrong.

`calls` finds the calls of functions with a rule of their own, and the values that they are given,
`compared` compares a derivative with finite differences. May import `_compile_time` and what is
below.
"""
