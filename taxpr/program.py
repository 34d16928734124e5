"""The result types of `trace`, `inject`, `collect` and `uncurry`, and their parts.

And what is rarely typed: `dissolve_tags`, `until_error`.
"""

from taxpr._engine.collect import Last, Masked, Steps
from taxpr._programs.edit import dissolve_tags
from taxpr._programs.listing import Listing, SourceLine
from taxpr._programs.program import Injected, Program
from taxpr._programs.until import until_error
from taxpr._sites.site import Site
from taxpr._sites.skipped import Skipped
from taxpr._sites.values import Value
from taxpr._states.uncurry import Uncurried
from taxpr._variables.variable import Variable

__all__ = [
    "Injected",
    "Last",
    "Listing",
    "Masked",
    "Program",
    "Site",
    "Skipped",
    "SourceLine",
    "Steps",
    "Uncurried",
    "Value",
    "Variable",
    "dissolve_tags",
    "until_error",
]
