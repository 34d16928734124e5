"""The types of all data that Python and a browser exchange: in the panel, and in a saved page.

`make lint` writes them as TypeScript (`tools/messages.py`) and checks the browser's modules
with them. Knows nothing else.
"""
