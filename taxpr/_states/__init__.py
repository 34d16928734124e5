"""Functions that read and write a `taxpr.State`, made pure.

The state object itself is in `_primitives`, as its reads and writes are equations. May import
`_programs` and what is below.
"""
