"""The one door: a call as a call of a pure function of arrays.

`opened` takes a function and its arguments as its user calls it. It gives the function that is
traced, its arguments without what is no array, and for later calls `Door.take`, which takes other
arguments apart in the same way. `trace`, and all that builds on it, goes through here.

* What is no array (a text, a function, the activation in a model) is *static*: a `Static` node in
  its place, a part of the tree and not a leaf.
* An *object* whose arrays its library changes in place becomes a `Held` node, with the arrays by
  name. The traced function makes the object anew, and returns behind its result what has changed.
  States that are no arguments come first, in `Held` nodes of their own.

What a library's objects are, and how they are taken apart, its adaptor says (`libraries`): those of
flax nnx, brainstate, haiku and equinox are in `_libraries`, and a library registers its own by
`taxpr.register_library`. May import `_hops` and the rooms below it.
"""
