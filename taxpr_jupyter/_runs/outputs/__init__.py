"""The outputs of both programs of a run: how far they are apart, in words, numbers and charts.

Imports nothing of the rest of `_runs`.
"""
