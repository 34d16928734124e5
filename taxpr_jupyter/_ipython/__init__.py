"""The magics ``%taxpr`` and ``%%taxpr``: parse the line, call `panel`, return the session.

May import `_session`, `_view` and `_panel`. Nothing else needs IPython.
"""
