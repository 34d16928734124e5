"""`panel`: the magic as a plain function, and the code that both share."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._draw import shown_until_error
from taxpr_jupyter._output.shell import running_shell
from taxpr_jupyter._session.cells import CELLS
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._tracing.call_names import call_text
from taxpr_jupyter._tracing.tracebacks import for_the_user


def panel(
    fun: Callable[..., Any],
    *,
    name: str | None = None,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    **options: Any,
) -> Callable[..., Session]:
    """A function that takes the arguments of ``fun`` and gives a session instead of calling it.

    Strings and functions among the arguments are static without being named.

    Args:
        fun: The function to look at. It is traced, not run.
        name: Its name in the panel.
        static_argnums: Positions of arguments that are not traced, as in `jax.jit`.
        static_argnames: Names of arguments that are not traced, as in `jax.jit`.
        **options: ``budget``, ``timeout``, ``device``, ``heat``, ``kept_bytes`` and ``names``
            of `Session`.

    Returns:
        The function from arguments to the session.

    Raises:
        PanelError: When it is called: if an option or an argument cannot be used.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter import panel
        >>> session = panel(jnp.sin)(1.0)
        >>> session.name
        'sin'
    """
    # The names of the arguments, and functions to inject, are looked up where `panel` stands.
    namespace = sys._getframe(1).f_globals

    def call(*args: Any, **kwargs: Any) -> Session:
        shell = running_shell()
        with for_the_user(shell, sys._getframe(1)):
            return open_session(
                fun,
                args,
                kwargs,
                shell=shell,
                call=call_text(fun, args, kwargs, namespace),
                namespace=namespace,
                name=name,
                static_argnums=static_argnums,
                static_argnames=static_argnames,
                **options,
            )

    return call


def open_session(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    shell: Any,
    **options: Any,
) -> Session:
    """A session for the running cell, in place of the one that the cell had."""
    # Else the garbage collector would go again and again through all that JAX keeps.
    with shown_until_error(shell, options.get("text_only", False)), without_collection():
        session = Session(fun, args, kwargs, **options)
    CELLS.enter(session, shell)
    return session
