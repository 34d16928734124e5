"""Which of the user's functions make tracing, lowering and compiling slow: `compile_time`.

`parts` divides the equations of a program by the functions or statements that made them, `alone`
compiles such a part for itself, `sampled` looks where Python is while a function is traced, and
`unrolled` finds loops of Python, and `rolled` runs them as scans. May import
`_compiled` and what is below.
"""
