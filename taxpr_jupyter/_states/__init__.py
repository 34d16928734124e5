"""Make calls with states pure: those with `taxpr.State`, and those of other libraries.

`taxpr.libraries` takes the calls apart; here the states come first, by name. May import `_diff`,
`_analysis` and the rooms below them.
"""
