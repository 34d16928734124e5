"""`compiled`: what XLA made of a call, in the user's words: kernels, copies, collectives.

`kernels` lists the instructions that run, each with the statements that it computes and how often
it runs. `hlo_dataflow` follows a value through an optimized program, `mesh_axes` reads between
which devices a collective moves it, and `collectives` says for which statement. `shardings`
says how variables are divided among devices, `compiled_answer` is returned, saved and read, and
`changes` compares two compilations. May import `_compiled` and what is below.
"""
