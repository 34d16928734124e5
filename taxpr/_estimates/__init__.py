"""Estimate from a jaxpr alone how much memory a call takes.

`residuals` finds what a gradient keeps and why, and `estimate` the arrays that XLA will hold, in a
jaxpr that `flat` has made one list. May import `_compiled` and the rooms below.
"""
