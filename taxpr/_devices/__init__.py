"""Programs and arrays on several devices, also on devices of other processes.

This room fetches values to NumPy, and makes processes agree on a question.
"""
