"""Search a program: find the addresses that match some words.

May import `_tree`, `_analysis`, `_model` and `_text`.
"""
