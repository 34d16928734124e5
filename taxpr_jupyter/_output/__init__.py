"""Pictures outside of the panel: a drawing, a comparison, the HTML page, files.

May import everything that draws and lays out, and nothing of sessions.
"""
