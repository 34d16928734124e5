"""Turn the raw SVG of a layout engine into the picture that is shown, or into PNG and PDF.

`raw` reads coordinates, `label_layout` places texts, `svg` writes the result. May import `_layout`,
`_model` and the rooms below them; knows nothing about programs.
"""
