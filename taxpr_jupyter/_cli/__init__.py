"""The command `taxpr`: parse its arguments, load the function, draw it.

May import the rooms that trace and draw; needs no Jupyter.
"""
