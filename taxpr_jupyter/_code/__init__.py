"""Write Python code that does what a session does, without the session.

May import `_edits`, `_runs` and `_states`.
"""
