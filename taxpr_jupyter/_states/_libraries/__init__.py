"""One module for each library with states, imported only if the user has loaded the library.

Each has ``pure_call``, see `_states.adaptors`. No other module may import these libraries.
"""
