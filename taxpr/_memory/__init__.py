"""`memory`: what holds the memory of a call where it needs the most.

`used` has the buffers of the call, as XLA has planned them (`_buffers`) or estimated from a jaxpr
(`_estimates`), and `held` says in the user's words what is in them. May import these rooms and the
rooms below.
"""
