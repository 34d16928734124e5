"""The user's source: which files are theirs, and which statement made an equation.

`files` tells the user's files from the libraries', `parsed` finds the syntax tree of code and
checks that both agree, and `statements` finds the statement and expression. `uses` says what a
function does with a variable without computing with its value. `unnoticed` marks functions whose
variables are nobody's.

May import `_compat`, and no other room.
"""
