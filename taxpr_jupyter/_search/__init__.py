"""Search a program: words in, addresses out.

May import `_tree`, `_analysis`, `_model` and `_text`.
"""
