"""A compiled call: each XLA instruction with its equations, statement and variable.

`stamped` writes a number into the name stack of each equation of a program; XLA hands it on to the
instructions that it makes of the equation. `compile_call` traces and compiles a call with these
numbers, and `hlo` reads the text of the compiled program:

    call = compile_call(fun, args, kwargs)
    call.hlo            the instructions of the optimized program, as `hlo.HloModule`
    call.equations(one) the addresses of the equations that an instruction computes
    call.executable     what JAX compiled, with `memory_analysis()` and the like

`attribution` says for an address, in the user's words, which variable or statement that is:

    Attributions(call.program).of(address)

The compiled program is the user's: names of scopes change no instruction. An instruction without a
number is XLA's own, such as a copy. May import `_questions` and the rooms below.
"""
