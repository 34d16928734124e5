"""From what a layout engine writes to the SVG that is shown.

Reads it, places texts, adds styles; PNG and PDF.

May import `_layout`, `_model` and what is below.
"""
