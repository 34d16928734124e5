"""Leave a mark in the jaxpr wherever a variable of the user's source is bound.

While a function is traced its frames are watched: `events` hears from Python what functions do, and
`frames` says who is told. `watch` finds what a line binds, `held` the tracers in it, and `mark` is
the equation that notes them. May import `_sites` and the rooms below.
"""
