"""Injectors: how to write one (`kind`), ready ones (`edits`, `probes`, `state`), collect, plant.

May import `_engine` and the rooms below; does not know programs.
"""
