"""`profile`: measure how long each statement of a call takes.

`runs` runs a compiled call under JAX's profiler, `timeline` says which kernels ran at each moment,
and `profile` adds that up by statement. May import `_kernels` and the rooms below.
"""
