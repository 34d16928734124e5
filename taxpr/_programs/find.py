"""Functions that take a program or a jaxpr: find tags and values, add tags."""

from typing import Any

from taxpr._errors import AddressError, refuse_function
from taxpr._programs.edit import tag_values
from taxpr._programs.program import SAY_WHICH, Program
from taxpr._sites.criteria import Selector
from taxpr._sites.site import Site
from taxpr._sites.values import Value
from taxpr._sites.walk import find_sites
from taxpr._where.meaning import OfJaxpr
from taxpr._where.select import select


def find_tags(program: Any, where: Selector = None) -> list[Site]:
    """The tags of a program or jaxpr, in program order, through every nested jaxpr.

    Args:
        program: A `Program`, or an open or closed jaxpr.
        where: A selector:

            * a text: the name of a tag; else of a variable, if the program knows them; else an
              address; or a glob of each, such as ``"block_*"``, ``"*:scan/*"``. The name of a
              variable or a value means the tags on it;
            * a `Site` of this program, or of an earlier version of it;
            * a dict of params that must be equal;
            * a primitive, such as `jax.lax.sin_p`: tags on the results of its equations. For
              `jax.lax.scan_p` these are the results of scans, not the values inside;
            * `scope` or `line`; in a `Program` whose variables are known, a `var`;
            * a predicate on sites, such as ``lambda site: not site.recomputed``;
            * None or ``"*"``: all;
            * a list of these, each of which must find something;
            * `maybe` around any of them, if it may find nothing.

            This function lists all selected tags. Some tags cannot be injected (`Site.refusal` says
            why). In `inject`, `collect` and the like, selecting such a tag by its name, address,
            `Site` or params is an error. Other selectors, also None, skip it; `Program.skipped`
            lists it and why. It is an error if nothing else is selected. A name also skips tags
            that never fire, see `Site.idle`.

    Raises:
        SelectorError: If a selector matches nothing; it names what is near.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import find_tags, tag, trace
        >>> def f(xs):
        ...     return jax.lax.map(lambda x: tag(jnp.sin(x), name="s"), xs)
        >>> [site] = find_tags(trace(f)(jnp.ones(5)), "s")
        >>> site.address, site.trips
        ('0:scan/body/t0', 5)
    """
    if isinstance(program, Program):
        return program.tags(where)
    refuse_function("find_tags", program)
    return find_sites(program) if where is None else select(OfJaxpr(program), where, Site).found


def find_values(program: Any, where: Selector = None) -> list[Value]:
    """The values of a program or jaxpr, in program order, tagged or not.

    Args:
        program: A `Program`, or an open or closed jaxpr.
        where: A selector of values: a text, as for `find_tags`, which means the result of a tag of
            that name; else the values of a variable; else the value at an address such as
            ``"3:scan/body/4:sin.0"``, or without ``.0`` if the equation has one result. ``"in0"``
            is an input, ``"const0"`` a closed-over value, ``"out0"`` an output; a `Program` also
            knows their names, such as ``"params['w']"``. A `Site` or params, for the results of
            tags; a primitive, such as `jax.lax.sin_p`, for all its results; `scope` or `line`; in a
            `Program` whose variables are known, a `var`; a predicate ``(address, eqn) -> bool`` on
            the results of equations; a list of these; a `maybe`. None and ``"*"`` mean all.

    Raises:
        AddressError: If no value has the address; it names similar ones.
        SelectorError: If another selector matches nothing; it names what is near.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import find_values, trace
        >>> program = trace(lambda x: jnp.sin(jax.jit(jnp.sin)(x)))(0.5)
        >>> [value.address for value in find_values(program, jax.lax.sin_p)]
        ['0:jit/call/0:sin.0', '1:sin.0']
    """
    if isinstance(program, Program):
        return select(program, where, Value).found
    refuse_function("find_values", program)
    return select(OfJaxpr(program), where, Value).found


def tag_at(program: Any, where: Selector, /, **params: Any) -> Any:
    """Put tags on values of a traced program, without editing its source.

    Args:
        program: A `Program`, or a jaxpr.
        where: A selector of values, see `find_values`; it tags all selected values. If a tag could
            not be injected, as in a kernel, then an address, a tag's name or a `Site` tags the
            value nevertheless, for inspection; any other selector skips it, unless nothing else is
            selected, and `Program.skipped` says why.
        **params: The params of the tags, as for `tag`. With several values, all tags get the same
            ``name``.

    Returns:
        A program, or jaxpr, of the same type. The addresses of all equations, inputs and values
        stay. A tag comes directly after the equation that makes the value.

    Raises:
        AddressError: If there is no such value.
        SelectorError: If another selector matches nothing; it names what is near.
        TagError: If the value is no array, or a param is not hashable.
        RefusedError: If a value is in a jaxpr that its equation keeps hidden.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import scale, tag_at, trace
        >>> program = trace(lambda x: jnp.sin(x) + 1)(0.5)
        >>> program = tag_at(program, jax.lax.sin_p, name="s").inject(scale(0.0), where="s")
        >>> program(program.ctx, 0.5)[0]
        Array(1., dtype=float32, weak_type=True)
    """
    if isinstance(program, Program):
        return program.tag_at(where, **params)
    refuse_function("tag_at", program)
    if where is None:
        raise AddressError(SAY_WHICH)
    return tag_values(program, select(OfJaxpr(program), where, Value, change=True).found, params)
