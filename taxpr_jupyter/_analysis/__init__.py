"""What can be known of a program before it is drawn.

Its places, how values flow, costs, names, equal parts.

May import `_text`. Nothing in here knows of pictures.
"""
