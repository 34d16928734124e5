"""Injectors.

What they are, how one is written (`kind`), the ready ones (`edits`, `probes`, `state`), collect and
plant.

May import `_engine` and what is below, and nothing of programs.
"""
