"""Runs a program with its injectors beside the untouched one: compiles, measures, compares.

May import `_edits` and `_tracing`.
"""
