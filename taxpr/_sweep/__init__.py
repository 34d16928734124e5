"""Questions that run a program many times: `sweep` and `patch`.

`points` injects at one place of many, whose number is an argument of the program; `many_runs` runs
one compiled program for all, in chunks that fit the memory and over all devices. May import
`_programs` and the rooms below.
"""
