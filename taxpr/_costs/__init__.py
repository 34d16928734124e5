"""Count the operations of equations and the bytes that they move.

`flops` is the one table, by primitive; `costs` adds up what is nested; `placed_costs` says how
often each equation of a program runs. May import `_hops` and the rooms below.
"""
