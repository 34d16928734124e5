"""The program object: a function traced once, to be looked at, changed and called."""

from taxpr._programs.program import Injected, Program

__all__ = ["Injected", "Program"]
