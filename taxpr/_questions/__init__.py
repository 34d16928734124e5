"""Questions that are answered by running a program: where does the first NaN come from?

`nonfinite` marks non-finite values and finds the first ones, `find_nan` asks it. `flow` says how
large values and gradients are. May import `_recordings`, `_answers` and the rooms below.
"""
