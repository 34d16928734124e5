"""`check`: what is suspicious in a program, said without running it.

`rules` has the table of rules. Each is a function in one of the modules beside it that looks at a
program as `levels` shows it. `check` collects what they find. May import `_programs` and what is
below.
"""
