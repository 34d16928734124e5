"""The names that the user's source has for the values of a program.

The marks that `_watching` left in a jaxpr are taken out again (`unmarked`) and become a table
(`table`); a selector finds values in it (`select`).

May import `_watching` and the rooms below.
"""
