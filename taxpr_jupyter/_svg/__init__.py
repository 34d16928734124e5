"""Write a picture that is laid out as the SVG that is shown, or as PNG and PDF.

`label_layout` places texts, `svg` writes the result. May import `_layout`, `_model` and the rooms
below them; knows nothing about programs.
"""
