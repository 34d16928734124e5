"""Put a forward pass and its backward pass side by side, when both are laid out.

`pair` finds them, `turned` turns the backward one upside down, `aligned` gives both room so that
partners are at one height, `side_by_side` does it all and draws the lines between. Imports
`_layout`; only `arranged` imports it.
"""
