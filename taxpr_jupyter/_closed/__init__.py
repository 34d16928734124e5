"""Facts about the inside of a closed node: its loops, branches, calls, optimizers and dtypes.

May import `_text` and `_analysis`; knows nothing about pictures.
"""
