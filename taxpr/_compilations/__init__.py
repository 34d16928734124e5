"""Why functions are traced and compiled: the differences of two calls of a jitted function.

`signature` has JAX's cache key of a compiled function, `causes` compares two of these, `history`
remembers them, `as_called` finds the user's call of a function that a library jits, `stale` finds
variables that have changed since a function was traced, `recorder` hears of each trace and compile,
and `log` makes the answers. May import `_answers`, `_compat`, `_source`, `_calls` and the rooms
below these.
"""
