"""Rewrite a program: run handlers at chosen tags, and thread a context to them.

`plan` turns the chosen tags into a tree, and `thread` rewrites each jaxpr on the way. The entries
in `_hops` rewrite higher-order equations. The engine knows no particular injector. May import
`_sites`, `_hops`, `_primitives`, `_jaxprs`.
"""
