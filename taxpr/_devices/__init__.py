"""Programs and arrays on several devices, also on those that belong to other processes.

Here values are fetched to NumPy, and here processes agree on what they ask.
"""
