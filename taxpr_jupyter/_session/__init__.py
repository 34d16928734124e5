"""The session: one traced call, its changes and its runs. The panel and users call its methods.

A `Session` consists of parts, each with its own data, and delegates to them:

* `Store`, `Tracer` and `States`, see `_store`. All other parts use them.
* `Trials` traces injectors. `Editor` (tags, injectors), `Renderer` and `Runner` use it.
* `Renderer`: pictures, texts, code. `Navigator` (search, paths, folding) and `Runner` use it.
* `Runner` runs, and `Asker` asks questions.

No part knows the session. May import everything that is not a view. The session shows nothing
itself: the function that displays it is passed in.
"""
