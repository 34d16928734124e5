"""A picture as text, SVG and files, outside of the panel."""
