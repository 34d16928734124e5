"""Analyse a program before it is drawn: its places, dataflow, costs, names, structural hashes.

May import `_text`; knows nothing about pictures.
"""
