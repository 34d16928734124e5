"""Long runs: what a training loop calls at each step, and what it tells of some.

Imports `_keeping`, whose `watch` makes the statistics.
"""
