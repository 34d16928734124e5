"""Pictures outside of the panel: a drawing, a comparison, the HTML page, files.

May import the rooms that draw and lay out; does not know sessions.
"""
