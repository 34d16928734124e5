"""`CodeNames`: the names in generated code: of the notebook, of modules, and its own."""

import builtins
import inspect
import keyword
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._code.imports import free_names, import_line
from taxpr_jupyter._text.short import aval_text, shortened, visible
from taxpr_jupyter._tracing.call_names import expression, fresh
from taxpr_jupyter._tracing.closure_key import functions_of, names_read
from taxpr_jupyter._tracing.sources import source_text

_FIRST = "# Define these names first, as the notebook has them:"
_CHANGED = ", as it was when it was traced: the notebook has another one now"
_WIDTH = 60
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class CodeNames:
    """The names in one piece of generated code.

    Args:
        namespace: The present names of the notebook.
        named: The objects that the names of the user's call meant when it was traced.
        given: Objects without a name in the notebook, by their names in the call.
        call: The call.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        named: Mapping[str, Any],
        given: Mapping[str, Any],
        call: str,
    ) -> None:
        self._namespace = namespace
        self._changed = {k for k, v in named.items() if namespace.get(k) is not v}
        self._known = {**namespace, **named}
        self._given = given
        self._of_call = frozenset(free_names(call))
        self._made: dict[str, tuple[Any, str]] = {}
        self._modules: dict[str, str] = {}
        # Placeholders, until `choose_own` knows which names are read.
        self.own: Callable[[str], str] = "_of_taxpr_{}".format

    def expression(self, value: Any) -> str | None:
        """Python for a value in names of the notebook, or None."""
        made = next((name for name, (found, _) in self._made.items() if found is value), None)
        return made or expression(value, self._known)

    def kinds(self) -> list[taxpr.injectors.InjectorKind]:
        """The injector kinds of taxpr and of the notebook."""
        ready = taxpr.ready_injectors().values()
        return [
            *ready,
            *(x for x in self._known.values() if isinstance(x, taxpr.injectors.InjectorKind)),
        ]

    def is_bound(self, name: str, value: Any) -> bool:
        """Whether the code can use this name for this value."""
        return bool(name) and name in self._known and self._known[name] is value

    def named(self, value: Any, base: str, what: str) -> str:
        """Python for a value; a new name, like ``base``, if the notebook has none for it.

        Args:
            value: The value.
            base: The beginning of the new name.
            what: A description, for the list of names to define.
        """
        known = self.expression(value)
        if known is None:
            known = self._free(base if base.isidentifier() else "value", value)
            self._made[known] = value, what
        return known

    def module(self, name: str, alias: str = "") -> str:
        """The name of a module that is loaded, such as ``np``; the head imports it."""
        if name not in self._modules:
            thing = sys.modules[name]
            alias = alias or name
            own = [key for key, value in self._known.items() if value is thing]
            first = next((one for one in (alias, name) if self._is_free(one, thing)), None)
            self._modules[name] = first or (own[0] if own else self._free(alias, thing))
            self._known[self._modules[name]] = thing
        return self._modules[name]

    def choose_own(self, body: str, sources: Iterable[Any]) -> None:
        """Choose names for the code's own variables that nothing else uses.

        Args:
            body: The code, written with the names that `own` has given so far.
            sources: The functions of the user that run in it, whose globals stay as they are.
        """
        taken = {*free_names(body), *self._of_call}
        for source in sources:
            taken |= names_read(source, self._namespace)
        self.own = lambda name: fresh(name, lambda one: one not in taken)

    def head(self, body: str, config: Mapping[str, Any]) -> list[str]:
        """The lines before the code: imports, settings of JAX, names to define."""
        imports, first = [], []
        settings = [
            f"{self.module('jax')}.config.update({name!r}, {value!r})"
            for name, value in config.items()
        ]
        for name in free_names("\n".join((*settings, body))):
            value, text = self._meaning(name)
            if line := import_line(name, value):
                imports.append(line)
            elif text is not None:
                first.append(visible(f"#   {name}: {text}" if text else f"#   {name}"))
        first = [_FIRST, *first] if first else []
        imports = sorted(set(imports), key=lambda line: (line.startswith("from"), line))
        return [line for part in (imports, settings, first) if part for line in (*part, "")]

    def _meaning(self, name: str) -> tuple[Any, str | None]:
        """The object of a name and its description; the latter is None for a builtin."""
        if name in self._made:
            value, what = self._made[name]
            return value, f"{described(value)}, {what}"
        if name in self._given:
            return self._given[name], f"{described(self._given[name])}, given to `panel`"
        if name in self._known:
            value = self._known[name]
            return value, described(value) + (_CHANGED if name in self._changed else "")
        return None, None if hasattr(builtins, name) else ""

    def _is_free(self, name: str, thing: Any) -> bool:
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
            return False
        if name in self._made or (name in self._of_call and name not in self._known):
            return False
        return self._known.get(name, thing) is thing

    def _free(self, base: str, thing: Any) -> str:
        return fresh(base, lambda name: self._is_free(name, thing))


def described(value: Any) -> str:
    """A value in a few words.

    Example:
        >>> import numpy as np
        >>> described(np.zeros((3, 2), "float32")), described({"w": np.zeros(3), "b": 1.0})
        ('f32[3,2]', 'dict of 2 arrays')
    """
    if isinstance(value, _PLAIN):
        return shortened(repr(value), _WIDTH)
    if isinstance(value, taxpr.injectors.Injector):
        return f"injector {shortened(repr(value), _WIDTH)}"
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"{shortened(str(value), _WIDTH)}, only a shape: give an array to run it"
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return _array_text(value)
    # Some libraries wrap functions in objects with methods of their own.
    function = None if isinstance(value, type) else next(functions_of(inspect.unwrap(value)), None)
    if function is not None:
        code = function.__code__
        source = introspect.Source(code.co_filename, code.co_firstlineno, code.co_name)
        place = source_text(source).rpartition(" in ")[0]
        cls = type(inspect.unwrap(value))
        if vars(cls).get("__call__") is function:
            return f"{cls.__name__} with the method __call__ of {place}"
        kind = "kind of injector" if isinstance(value, taxpr.injectors.InjectorKind) else "function"
        return f"{kind} of {place}"
    if isinstance(value, type):
        return "class"
    leaves = jax.tree.leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return type(value).__name__
    return f"{type(value).__name__} of {len(leaves)} array{'s' * (len(leaves) != 1)}"


def _array_text(value: Any) -> str:
    try:
        return aval_text(jax.typeof(value))
    except TypeError:  # NumPy has dtypes that JAX has not
        return f"{value.dtype}{list(value.shape)}"
