"""Mesh axes: those of a `shard_map`, the shardings of values, and values that are in parts.

Imports from `_compat` what knows nothing of meshes.
"""
