"""The errors and warnings of taxpr.

All errors derive from `TaxprError`, and from the builtin one that a caller would think of first.
"""

from taxpr._errors import (
    AddressError,
    ArgumentError,
    DroppedRuleWarning,
    InjectorError,
    NonfiniteError,
    RefusedError,
    SameNoiseWarning,
    SelectorError,
    SharedValueWarning,
    StaleDerivativeWarning,
    StateError,
    TagError,
    TaxprError,
    UnobservedWarning,
    UnusedNamesWarning,
)

__all__ = [
    "AddressError",
    "ArgumentError",
    "DroppedRuleWarning",
    "InjectorError",
    "NonfiniteError",
    "RefusedError",
    "SameNoiseWarning",
    "SelectorError",
    "SharedValueWarning",
    "StaleDerivativeWarning",
    "StateError",
    "TagError",
    "TaxprError",
    "UnobservedWarning",
    "UnusedNamesWarning",
]
