"""Compare two programs: match equations (partners), then say how each changed.

`match` finds the partners, `align_jaxprs` compares them, `differ` recurses into nested jaxprs,
`wrappers` looks through a `jit` or `remat` that only one side has, and `diff` is the result.
`grouped` joins equal changes to one for people. May import `_analysis` and `_text`; knows nothing
about pictures.
"""
