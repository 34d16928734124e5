"""Make calls with states pure, of `taxpr.State` and of other libraries.

`taxpr.libraries` takes the calls apart; here the states come first, by name. May import `_diff`,
`_analysis` and the rooms below them.
"""
