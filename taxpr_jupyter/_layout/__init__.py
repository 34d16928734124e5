"""Lay out a picture, frame by frame, by Graphviz: as a program or as WebAssembly.

`arranged` lays out, `dot` writes a whole picture in Graphviz' language. May import `_model` and
nothing else of the package; knows nothing about JAX. See docs/design/layout.md.
"""
