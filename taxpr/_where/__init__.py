"""Selectors: the meaning of `where`, in every function that takes one.

A selector means *tags* or *values*. Functions that act at tags (`find_tags`, `inject`, `plant`,
`collect`, `until`, `grad_at`, `sweep`, `patch`) take the selected tags, and put a tag on a value
that has none. Functions of values (`find_values`, `tag_at`, `watch`, `flow`) take the result of a
tag as a value. Some selectors *name* places, and mean the same ones in all functions:

* a text: a tag of that name; else a variable; else an address, or the name of an input or output.
  If there are a tag and a variable, or a variable and an address, that hold different values, it is
  refused. A glob means the tags that fit; if none fits the variables; else the addresses. The names
  that results have, such as ``"h#1"`` and ``"∂ h"``, mean what has them;
* `var` and `cotangent`: variables; an `Address`: the place; a `Site`, a dict of params: tags.

The others *describe* places. Functions of tags look for tags, functions of values for values:

* a primitive: what it makes; `scope` and `line`: what was made there; a predicate: what it is true
  of, ``(site)`` or ``(address, eqn)``;
* None and ``"*"``: all.

A list means each of its selectors, which must find something; `maybe` need not; `each` is for
`inject`, `sweep` and `patch`, and selects iterations.

`meaning` says what texts mean, `select` finds the places of a selector, for all functions. May
import `_variables` and the rooms below; does not change a program.
"""
