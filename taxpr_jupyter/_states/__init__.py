"""Functions with state as pure ones: `taxpr.State`, and states of other libraries."""
