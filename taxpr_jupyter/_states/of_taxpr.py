"""Make a call that uses `taxpr.State` pure, by `taxpr.uncurry`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr
from taxpr.libraries import PureCode, like
from taxpr_jupyter._states.model import PureCall


def pure_call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> PureCall:
    """A call without static arguments of a function that uses a `taxpr.State`, by `taxpr.uncurry`.

    Raises:
        StateError: If the result of a use of a state could be wrong.
        RefusedError: If a state is used in an equation that cannot be injected.
    """
    pure, states = taxpr.uncurry(fun, *args, **kwargs)

    def tag_writes() -> taxpr.Program:
        tagged = taxpr.program.Uncurried(fun, args, kwargs, tag_writes=True)
        return taxpr.trace(like(fun)(tagged))(states, *args, **kwargs)

    return PureCall(
        fun=like(fun)(pure),
        states=states,
        written=frozenset(name for name, uses in pure.uses.items() if uses.written),
        args=tuple(args),
        kwargs=dict(kwargs),
        library="taxpr",
        code=PureCode,
        write=pure.write,
        tag_writes=tag_writes,
    )
