"""Functions with state as pure ones: `taxpr.State`, and states of other libraries.

Each library has a module in `_libraries`, imported when the library is loaded. May import `_diff`,
`_analysis` and what is below.
"""
