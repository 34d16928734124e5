"""Find what the user's rules for derivatives made."""

import inspect

import jax

from taxpr import introspect

_CALL = inspect.unwrap(jax.custom_vjp.__call__).__code__
_INNER = 20  # frames: those of JAX within a call with a rule are fewer


def is_of_rule(eqn: introspect.JaxprEqn) -> bool:
    """Whether a rule that the user gave to `jax.custom_vjp` made an equation of a backward pass.

    JAX gives to such equations the traceback of the call; the rule itself is not in it.
    """
    traceback = eqn.source_info.traceback
    codes = traceback.raw_frames()[0][:_INNER] if traceback else ()
    if id(_CALL) not in map(id, codes):  # this is asked of all equations
        return False
    files = (code.co_filename for code in codes)
    own = next((k for k, file in enumerate(files) if introspect.is_user_file(file, eqn)), 0)
    # A function of JAX may call one with a rule, too.
    return any(code is _CALL for code in codes[max(own - 2, 0) : own])
