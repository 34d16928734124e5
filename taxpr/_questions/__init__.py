"""Questions that are answered by running a program: where does the first NaN come from?

`nonfinite` marks which values were not finite and which of them were so first, `find_nan` asks it.
`flow` says how large values and gradients are.
May import `_recordings`, `_answers` and what is below.
"""
