"""The session: one traced call, its changes and its runs. The panel and users call its methods.

A `Session` consists of parts, each with its own data, and delegates to them:

* `Store`: the program with its edits, their lock, and the listeners. All other parts use it, and
  change edits only through it.
* `Trials` traces injectors. `Editor` (tags, injectors), `Renderer` and `Runner` use it.
* `Renderer`: pictures, texts, code. `Navigator` (search, paths, folding) and `Runner` use it.
* `States`: the initial values of states. `Runner` (the runs) uses it.

No part knows the session. May import everything that is not a view. The session shows nothing
itself: the function that displays it is passed in.
"""
