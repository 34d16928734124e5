"""Which files are the user's, and which belong to libraries."""

import functools
import linecache
import os
import sysconfig

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._given import refuse_no_text
from taxpr._places import is_generated
from taxpr._source.own_modules import TAXPR, OwnModules

_FOLDERS = tuple(
    os.path.realpath(folder) + os.sep
    for folder in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *TAXPR,
    )
)
_PACKAGES = {"site-packages", "dist-packages"}


def is_user_file(file: str, eqn: JaxprEqn | None = None) -> bool:
    """Whether a file is the user's: not of Python, of an installed library or of taxpr itself.

    Args:
        file: A path, or a name such as ``<stdin>``, as in `__file__` and tracebacks.
        eqn: An equation of the program that is looked at. If that was traced with libraries among
            its ``names``, their files are the user's, too.

    Example:
        >>> import json
        >>> from taxpr import is_user_file
        >>> is_user_file("/home/ada/model.py"), is_user_file(json.__file__)
        (True, False)
    """
    refuse_no_text("is_user_file", file, "the path of a file")
    return is_users(file, own_of(eqn))


def own_of(eqn: JaxprEqn | None) -> OwnModules | None:
    """The libraries whose functions count as the user's in the program of an equation."""
    return _compat.said_of(eqn)


def is_users(file: str, own: OwnModules | None) -> bool:
    """Whether a file is the user's, or belongs to modules that count as such."""
    return _is_users(file) or (own is not None and own.has(file))


@functools.lru_cache(maxsize=4096)
def _is_users(file: str) -> bool:
    # A cell or a prompt has lines, what is made by exec has none. A "<string>" has those of
    # `python -c` since Python 3.13, be it the methods of a dataclass.
    if file.startswith("<"):
        known = file == "<string>" or is_generated(file)
        return not known and bool(linecache.getlines(file))
    real = os.path.realpath(file)
    # Of a user's own packages and of Debian's, sysconfig does not know the folders.
    return not real.startswith(_FOLDERS) and not is_installed(real)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package, and not to Python itself."""
    return not _PACKAGES.isdisjoint(file.split(os.sep))


def is_library_file(file: str, eqn: JaxprEqn | None = None) -> bool:
    """Whether a file belongs to Python, to an installed library or to taxpr.

    Code that a library writes, as attrs and beartype do, belongs to that library. For other code of
    `exec`, which has no file, neither this nor `is_user_file` is true.

    Args:
        file: A path, or a name such as ``<stdin>``, as in `__file__` and tracebacks.
        eqn: An equation of the program that is looked at, as for `is_user_file`.

    Example:
        >>> import json
        >>> from taxpr import is_library_file
        >>> is_library_file(json.__file__), is_library_file("<string>")
        (True, False)
    """
    refuse_no_text("is_library_file", file, "the path of a file")
    return of_library(file, own_of(eqn))


def of_library(file: str, own: OwnModules | None) -> bool:
    """As `is_library_file`, but for modules that count as the user's."""
    return is_generated(file) or (not file.startswith("<") and not is_users(file, own))
