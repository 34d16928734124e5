"""The names that the user's source has for the values of a program.

While a function is traced its frames are watched (`frames`, `watch`, `held`), and each binding of a
variable leaves a mark in the jaxpr (`mark`). The marks are taken out again and become a table
(`table`), by which a selector finds values (`select`).

May import `_sites` and what is below.
"""
