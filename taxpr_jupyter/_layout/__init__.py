"""Lay out a picture: write it as DOT, and run Graphviz, as a program or as WebAssembly.

May import `_model` and nothing else of the package; knows nothing about JAX.
"""
