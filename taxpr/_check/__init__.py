"""`check`: find suspicious statements in a program, without running it.

`rules` has the table of rules. Each is a function in one of the modules beside it that looks at a
program as `levels` shows it. `check` collects their findings. May import `_programs` and the rooms
below.
"""
