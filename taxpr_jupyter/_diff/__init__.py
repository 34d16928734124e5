"""The difference of two programs: which equations are partners, and what became of each.

May import `_analysis` and `_text`; knows nothing of pictures.
"""
