"""The panel.

Widgets of the kernel, and in `static` what runs in the browser. Everything that it does, the
session does.

May import `_session` and what is below; nothing but `taxpr_jupyter/_panel.py` and the magics import
it.
"""
