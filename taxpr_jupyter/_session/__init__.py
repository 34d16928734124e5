"""The session.

One traced call, its changes and its runs, by methods that the panel and people use alike.

A `Session` consists of parts, each with its own data, and hands on to them what it is asked:

* `Store`: the program with its edits, their lock, who is told of changes. All other parts use it,
  and change edits in no other way.
* `Trials` traces injectors. `Editor` (tags, injectors), `Renderer` and `Runner` use it.
* `Renderer`: pictures, texts, code. `Navigator` (search, paths, folding) and `Runner` use it.
* `States`: what states begin with. `Runner` (the runs) uses it.

No part knows the session. May import everything that is not a view. It shows nothing itself: how
it is displayed is handed in.
"""
