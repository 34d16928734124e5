"""Our own primitives: tag, cotangent tag, derivative guard, access of a state, call of NumPy.

Each module has the function that people call and the rules of its primitive for jit, grad and vmap.
No module here knows how programs are walked or rewritten. May import `_jaxprs`, `_compat` and
`_errors`.
"""
