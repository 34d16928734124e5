"""The message for an error of a Python callback in a compiled program.

JAX reports it as an error of XLA, with the traceback as text.
"""

import re
import types
from collections.abc import Iterable, Iterator
from typing import Any

from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._tracing.closure_key import functions_of
from taxpr_jupyter._tracing.tracebacks import is_ours

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def callback_message(error: BaseException, sites: Iterable[SiteRow]) -> str:
    """The error with its line, and the tags whose injectors have such a callback; may be empty."""
    text = str(error).strip()
    frames = [found.groups() for found in _FRAME.finditer(text) if not is_ours(found[1])]
    if "callback" not in text or not frames:
        return ""
    *_, (_, line, name) = frames
    places = {(file, function) for file, _, function in frames}
    tags = [
        site.title
        for site in sites
        if site.injector
        and places & {*_codes(site.injector.source), *_codes(site.injector.injector)}
    ]
    whose = f" of the injector at the tag {' or '.join(tags)}" if tags else ""
    return f"A callback{whose} raised {text.splitlines()[-1]} (line {line} of {name})"


def _codes(source: Any) -> Iterator[tuple[str, str]]:
    """File and name of the functions that run, and of the functions defined in them."""
    todo = [function.__code__ for function in functions_of(source)]
    while todo:
        code = todo.pop()
        yield code.co_filename, code.co_name
        todo += [const for const in code.co_consts if isinstance(const, types.CodeType)]
