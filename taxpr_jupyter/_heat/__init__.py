"""Colours by measured numbers: seconds and bytes, by the places and the lines of a program."""
