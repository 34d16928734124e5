"""Mesh axes: in a `shard_map`, in shardings of values, and in values that are in parts.

Imports from `_compat` what knows nothing of meshes.
"""
