"""Which of the user's functions make tracing, lowering and compiling slow: `compile_time`.

`parts` divides the equations of a program by the functions or statements that made them, `alone`
compiles such a part for itself, `sampled` looks which function runs while tracing, `unrolled` finds
Python loops, and `rolled` runs them as scans. May import `_compiled` and the rooms below.
"""
