"""The buffers of a compiled call, as XLA plans them.

XLA says which buffers there are and where they lie (`assignment`), the scheduled program says when
each is alive (`live`), and following a buffer back says which equation made what is in it
(`contents_of`). May import `_compiled` and the rooms below.
"""
