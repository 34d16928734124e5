"""`memory`: what holds the memory of a call where it needs the most.

XLA says which buffers there are and where they lie (`assignment`), the scheduled program says when
each is alive (`live`), and following a buffer back says which equation made what is in it
(`contents_of`). `residuals` finds in a jaxpr what a gradient keeps and why, `estimate` guesses the
memory from a jaxpr alone. May import `_compiled` and what is below.
"""
