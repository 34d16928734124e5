"""`uncurry` and `make_jaxpr`: turn functions that read and write a `taxpr.State` into pure ones.

The `State` class itself is in `_primitives`, because its reads and writes are equations. May import
`_programs` and the rooms below it.
"""
