"""`first_difference`: find where two runs differ, and where another precision hurts most.

`runs` makes both recordings, `choices` finds the values that choose their branches. `aligned` pairs
their values, in the order of execution, by `in_step` if several have one name. `compared` compares
them, by `numbers` and `rows`; `rounding` recognizes rounding. `flowing` carries facts through a
program: `precision` types, `sources` the sources of a value. `losses` ranks statements by the error
that they add. `difference` asks for all of it. May import `_recordings` and the rooms below.
"""
