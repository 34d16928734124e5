"""Our own primitives.

The tag, the tag of a cotangent, the guard of a derivative, reads and writes of states.

Each module has the function that people call, and its rules for jit, grad and vmap. Nothing in here
knows how programs are walked or rewritten. May import `_jaxprs`, `_compat` and `_errors`.
"""
