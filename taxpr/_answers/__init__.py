"""Answers of questions: tables that show themselves, with small pictures.

`answer` has the base of all answers, `tables` and `charts` write them as text, HTML and SVG, and
`progress` says how far a question is and keeps what is done where it is stopped. May import
`_errors`.
"""
