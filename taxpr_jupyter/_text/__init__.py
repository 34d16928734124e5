"""Short texts for people.

Types, sizes, values, paths. The same in each process and on each machine.

May import `_errors` and `taxpr`, and no other room.
"""
