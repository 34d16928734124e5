"""`first_difference`: where two runs stop agreeing, and where another precision hurts most.

`runs` makes both recordings, `choices` says what chooses their branches. `aligned` says which of
their values belong together and in which order they were computed, by `in_step` where there are
several of one name. `compared` compares them, by `numbers` and `rows`; `rounding` tells what is
rounding alone. `flowing` carries facts through a program: `precision` types, `sources` what a value
was made of. `losses` ranks statements by the error that they add. `difference` asks for all of it.
May import `_recordings` and what is below.
"""
