"""`first_difference`: where two runs stop agreeing.

`runs` makes both recordings, `aligned` says which of their values belong together and in which
order they were computed, `difference` compares them. May import `_recordings` and what is below.
"""
