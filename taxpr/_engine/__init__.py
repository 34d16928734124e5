"""Rewrites a program.

Plans what is to be done where, and threads a context through every nested jaxpr on the way.

`inject` is the entrance. What an equation needs is asked of its entry in `_hops`. The engine knows
no particular injector. May import `_sites`, `_hops`, `_primitives`, `_jaxprs`.
"""
