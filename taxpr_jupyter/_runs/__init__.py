"""Compile and run a program with its injectors and the untouched program, and compare the results.

May import `_edits` and `_tracing`, and nothing that shows results.
"""
