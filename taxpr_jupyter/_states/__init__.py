"""Make calls with states pure: those with `taxpr.State`, and those of other libraries.

Each library has a module in `_libraries`, imported only if the library is loaded. May import
`_diff`, `_analysis` and the rooms below them.
"""
