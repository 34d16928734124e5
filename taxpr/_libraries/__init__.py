"""One module for each library whose objects hold states, imported only if the library is loaded.

Each has a ``LIBRARY``, see `_calls.libraries`. No other module may import these libraries.
"""
