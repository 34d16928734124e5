"""Transformations of functions, as of `jax.grad`: `inject`, `collect`, `grad_at`; and `question`.

May import `_programs` and the rooms below.
"""
