"""Analyse a program before it is drawn: its places, dataflow, costs, names, equal parts.

May import `_text`; knows nothing about pictures.
"""
