"""Long runs: a wrapper of a training step that logs statistics of some steps.

Imports `_keeping`, whose `watch` makes the statistics.
"""
