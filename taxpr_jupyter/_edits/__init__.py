"""A program with the user's changes.

Added tags, attached injectors, folding; what is at a place of it.

May import what draws and finds; nothing in here runs a program.
"""
