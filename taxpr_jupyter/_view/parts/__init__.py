"""Parts of the panel: each fills some traits of `Graph`, and takes some messages of the browser.

A part gets the session, and the object that shows its traits; a new tab whose data is slow, or that
takes messages, is a module here. May import `_view`; only `widget.py` and `showing.py` import a
part.
"""
