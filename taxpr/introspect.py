"""Functions to look at a program: its equations, their addresses, sources and tags.

For front ends and tools. `taxpr` itself has the functions that a user types to ask or to change
something.
"""

from taxpr._address import Address
from taxpr._answers.progress import stages_to
from taxpr._by_identity import ByIdentity
from taxpr._compat import Atom as Atom  # of JAX, for signatures
from taxpr._compat import JaxprEqn as JaxprEqn
from taxpr._compat import (
    Source,
    is_dropped,
    is_literal,
    is_recomputed,
    is_ref,
    scope_of,
    scopes_of,
    source_of,
    sources_of,
    transformations_of,
    var_names,
    with_settings,
)
from taxpr._compat import Var as Var
from taxpr._compat import callbacks as callbacks  # which JAX does not export
from taxpr._compat import is_jaxpr as is_jaxpr
from taxpr._compat import open_jaxpr as open_jaxpr
from taxpr._compat import pvary_p as pvary_p  # which JAX does not export
from taxpr._costs.costs import Cost, Costs, trips_of
from taxpr._costs.quantities import n_bytes, quantity
from taxpr._errors import a_type, warnings_to
from taxpr._hops.nested import Nested
from taxpr._hops.places import numbered
from taxpr._hops.table import injectable, is_hop, nested_jaxprs
from taxpr._places import file_text
from taxpr._primitives.tag_equation import is_tag, tag_avals, tag_params, tag_tree
from taxpr._primitives.unfinished import Failure, failure_of, is_unfinished
from taxpr._programs.divided import Division, Divisions, division_of, divisions
from taxpr._programs.edit import iter_tags
from taxpr._recent import Recent
from taxpr._sites.walk import iter_eqns
from taxpr._source.files import is_library_file, is_user_file
from taxpr._source.parsed import Parsed
from taxpr._source.statements import Statement, associative_scan_of, parsed_at, statements_of
from taxpr._states.stateful import states_of

__all__ = [
    "Address",
    "ByIdentity",
    "Cost",
    "Costs",
    "Division",
    "Divisions",
    "Failure",
    "Nested",
    "Parsed",
    "Recent",
    "Source",
    "Statement",
    "a_type",
    "associative_scan_of",
    "division_of",
    "divisions",
    "failure_of",
    "file_text",
    "injectable",
    "is_dropped",
    "is_hop",
    "is_library_file",
    "is_literal",
    "is_recomputed",
    "is_ref",
    "is_tag",
    "is_unfinished",
    "is_user_file",
    "iter_eqns",
    "iter_tags",
    "n_bytes",
    "nested_jaxprs",
    "numbered",
    "parsed_at",
    "quantity",
    "scope_of",
    "scopes_of",
    "source_of",
    "sources_of",
    "stages_to",
    "statements_of",
    "states_of",
    "tag_avals",
    "tag_params",
    "tag_tree",
    "transformations_of",
    "trips_of",
    "var_names",
    "warnings_to",
    "with_settings",
]
