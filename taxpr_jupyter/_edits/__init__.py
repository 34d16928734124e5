"""A program with the user's changes: added tags, attached injectors, folding.

Also looks up what is at an address of such a program. May import the rooms that draw and search;
does not run a program.
"""
