"""The panel: widgets in the kernel, and in `static` the code that runs in the browser.

It only calls methods of the session. May import `_session` and the rooms below. Only
`taxpr_jupyter/_panel.py` and the magics import it. The room `parts` has what the panel consists
of: search, injectors, states, the comparison.
"""
