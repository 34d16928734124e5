"""The command `taxpr`: its arguments, the function that they mean, messages.

May import what draws and what traces; it needs no Jupyter.
"""
