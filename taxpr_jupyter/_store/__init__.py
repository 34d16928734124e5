"""The program with its edits, which the parts of a session share.

* `Store` holds both, their lock, and the listeners. The parts change edits only through it.
* `Tracer` traces the program again with changes of its source.
* `States` knows the initial values of states.

May import `_edits` and the rooms below.
"""
