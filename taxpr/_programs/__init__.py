"""`Program`, a function that is traced once, its edits, and the function transformations.

May import `_injectors` and the rooms below; does not know states or `taxpr_jupyter`.
"""
