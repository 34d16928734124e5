"""Compare two programs: match equations (partners), then say how each changed.

`match` finds the partners, `align_jaxprs` compares them, `differ` recurses into nested jaxprs, and
`diff` is the result. May import `_analysis` and `_text`; knows nothing about pictures.
"""
