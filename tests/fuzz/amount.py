"""How many random programs, and where they begin.

TAXPR_FUZZ        how many programs, over all tests (``make fuzz N=...``); by default 150,
                  and with ALL=1 and the newest jax 2000
TAXPR_FUZZ_SEED   where to begin
"""

import os

import jax

_MANY = os.environ.get("ALL") == "1" and jax.__version_info__ >= (0, 12)
PROGRAMS = int(os.environ.get("TAXPR_FUZZ", 2000 if _MANY else 150))
SEED = int(os.environ.get("TAXPR_FUZZ_SEED", 0))
