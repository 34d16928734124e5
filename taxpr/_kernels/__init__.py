"""`compiled`: the kernels, copies and collectives of a compiled call, in the user's words.

`kernels` lists the instructions that run, each with the statements that it computes and how often
it runs. `hlo_dataflow` follows a value through an optimized program, `mesh_axes` reads the devices
of a collective, and `collectives` finds the statement that causes it. `shardings` says how
variables are divided among devices, `compiled_answer` is returned, saved and read, and `changes`
compares two compilations. May import `_compiled` and the rooms below.
"""
