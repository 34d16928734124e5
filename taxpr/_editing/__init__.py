"""`edit`: a function with a variable, or another function that it calls, changed while it runs.

A listener is told of each line that runs (`taxpr._watching.frames`). After a line that binds the
variable it puts the changed value into the frame's local, so that all that follows computes with
it: derivatives, loops and libraries included. Imports injectors and variables, nothing above them.
"""
