"""The names of taxpr 0.0.3 that have no better name here.

Parts of jaxprs, and jaxprs with PyTrees.

May import everything else; nothing imports it but `taxpr/__init__.py`.
"""
