"""Lays a picture out.

DOT text, and the two engines that read it, the program `dot` and Graphviz as WebAssembly.

May import `_model`; knows nothing of JAX.
"""
