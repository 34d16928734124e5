"""Write short texts for people: types, sizes, values, paths. They are equal in all processes.

May import `_errors` and `taxpr`, and no other room.
"""
