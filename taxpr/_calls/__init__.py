"""The way in for all calls: a call as a call of a pure function of arrays.

`opened` takes a function and its arguments as its user calls it. It gives the function that is
traced, its arguments without what is no array, and for later calls `Door.take`, which takes other
arguments apart in the same way. `trace`, and all that builds on it, goes through here.

* A value that is no array (a text, a function, the activation in a model) is *static*: a `Static`
  node in its place, a part of the tree and not a leaf.
* An *object* whose arrays its library changes in place becomes a `Held` node, with the arrays by
  name. The traced function makes the object anew, and returns the changes behind its result. States
  that are no arguments come first, in `Held` nodes of their own.

The adaptor of a library (`libraries`) knows its objects, and how to take them apart: `_libraries`
has the adaptors of flax nnx, brainstate, haiku and equinox, and a library registers its own by
`taxpr.register_library`. May import `_hops` and the rooms below it.
"""
