"""Functions kept from taxpr 0.0.3: parts of jaxprs, and jaxprs with the PyTrees of their arguments.

May import every other room. Only `taxpr/__init__.py` imports this one.
"""
