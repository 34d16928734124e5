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
              address; or a glob of each, such as ``"block_*"``, ``"*:scan/*"``. Of a variable or
              a value it means the tags on it;
            * a `Site`, of this program or one that it was made from;
            * a dict of params that must be equal;
            * a primitive: tags on what its equations return, such as `jax.lax.sin_p`. Of
              `jax.lax.scan_p` these are the results of scans, not what is inside of them;
            * `scope` or `line`; of a `Program` whose variables are known a `var`;
            * a predicate on sites, such as ``lambda site: not site.recomputed``;
            * None or ``"*"``: all;
            * a list of these, each of which must find something;
            * `maybe` around any of them, where nothing need be found.

            All that it selects is listed here. What can only be looked at (`Site.refusal` says
            why) `inject`, `collect` and the like treat in one of two ways. A selector that *names*
            tags, by a name, an address, a `Site` or params, is refused, so that nothing that was
            asked for is lost. One that *describes* them, None and all the others, passes over
            these, and `Program.skipped` says how many and why; it is refused where nothing else
            is left. Tags that never fire, see `Site.idle`, are passed over by a name, too.

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
        where: A selector of values: a text, as for `find_tags`, which means what a tag of that
            name returns; else what a variable held; else the value at an address such as
            ``"3:scan/body/4:sin.0"``, or without ``.0`` where the equation has one result.
            ``"in0"`` is an input, ``"const0"`` a closed-over value, ``"out0"`` what is an output;
            of a `Program` their names will do, such as ``"params['w']"``. A `Site` or params, for
            what tags return; a primitive, such as `jax.lax.sin_p`, for all that it makes; `scope`
            or `line`; of a `Program` whose variables are known a `var`; a predicate ``(address,
            eqn) -> bool`` on what equations make; a list of these; a `maybe`. None and ``"*"``
            mean all.

    Raises:
        AddressError: If an address is of no value; it names what is near.
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
        where: A selector of values, see `find_values`; all that it selects is tagged. Where a tag
            could not be injected, as in a kernel, an address, a tag's name or a `Site` tags the
            value nevertheless, to be looked at; any other selector passes over it, unless nothing
            else is left, and `Program.skipped` says why.
        **params: What the tags carry, as for `tag`. With several values a ``name`` becomes the
            name of all of their tags.

    Returns:
        A program, or jaxpr, of the same type. The addresses of all equations, inputs and
        values stay. A tag stands first after what makes the value.

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
