"""The session.

One traced call, its changes and its runs, by methods that the panel and people use alike.

May import everything that is not a view. It shows nothing itself.
"""
