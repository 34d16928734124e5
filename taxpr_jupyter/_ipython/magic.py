"""The magics ``%taxpr`` and ``%%taxpr``: parse the line, make a session, return it."""

import contextlib
import importlib
import keyword
import linecache
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import Bool, Float, Int, Unicode

from taxpr.questions import Compiles, compiles
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.measured import asked_for
from taxpr_jupyter._ipython import bodiless, complete, verbs
from taxpr_jupyter._ipython import cell as _cell
from taxpr_jupyter._ipython import options as _options
from taxpr_jupyter._layout.layout import TIMEOUT
from taxpr_jupyter._model.kinds import ASKED_KINDS, MEASURED_KINDS, MeasuredKind, checked_heat
from taxpr_jupyter._panel import open_session
from taxpr_jupyter._runs.released import KEPT_BYTES
from taxpr_jupyter._session.cells import CELLS
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._tracing.trace import static_words
from taxpr_jupyter._tracing.tracebacks import for_the_user
from taxpr_jupyter._tree.fold import BUDGET
from taxpr_jupyter._view import interrupts

_WHY = "why"  # in the place of a call


def _all_options(method: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the method the options of the table, for the parser and for help."""
    for option in reversed(_options.OPTIONS):
        method = argument(option.flag, **option.settings)(method)
    return method


@magics_class
class TaxprMagics(Magics):
    """The magics of taxpr_jupyter. Settings: ``%config TaxprMagics``."""

    shell: Any  # for type checkers, to which it may be None

    budget = Int(BUDGET, help="About how many nodes to show.").tag(config=True)
    timeout = Float(TIMEOUT, help="Seconds that a layout may take.").tag(config=True)
    text = Bool(False, help="Show text and a table of the tags, no picture.").tag(config=True)
    kept_bytes = Float(
        KEPT_BYTES, help="How large the results of runs before the last one may be, in bytes."
    ).tag(config=True)
    device = Unicode("", help="Where Run runs, such as cpu:0; empty: JAX's default.").tag(
        config=True
    )

    @no_var_expand
    @line_cell_magic
    @magic_arguments("%taxpr")
    @_all_options
    @argument("call", nargs="*", help="the call; in a cell its last expression when left out")
    def taxpr(self, line: str, cell: str | None = None) -> Any:
        """Trace a call, without making it, and show its program with its tags.

        ``%taxpr f(x)`` takes one call. ``%%taxpr`` runs its cell up to the last
        expression, which must be a call; ``%%taxpr f(x)`` runs the whole cell and then
        takes the call on its first line. The result is a session: a panel in a
        notebook, text elsewhere. A ``;`` at the end shows nothing, as usual.

        ``%%taxpr why`` runs its cell, and ``%taxpr why f(x)`` its line, and says what
        was traced and compiled in it, and why: see `taxpr.compiles`.

        The other words act on the session that a cell opened last, or on the session
        that ``--name`` says. ``%taxpr inject --help`` tells more of one:

        * ``%taxpr tag WHERE [NAME]``: tag a value.
        * ``%taxpr inject WHERE INJECTOR [PARAM=VALUE ...]``: attach an injector to it.
        * ``%taxpr edit WHERE = EXPRESSION``: give a line another right-hand side.
        * ``%taxpr watch [VARIABLE]``: run, and keep the values of variables.
        * ``%taxpr run``: run with the injectors, beside the untouched program.
        * ``%taxpr find_nan``: find the first value that is not finite.
        """
        with for_the_user(self.shell):
            words, text = _options.split(line)
            # A user may have a function of this name: `%taxpr why (x)` is a call of it.
            called = _WHY in self.shell.user_ns and text.removeprefix(_WHY).lstrip()[:1] == "("
            if not words and text.split()[:1] == [_WHY] and not called:
                return self._why(text.removeprefix(_WHY), cell)
            if verb := verbs.verb_of(text):
                return self._verb(verb, words, text.removeprefix(verb), cell)
            if _options.HELP in words:
                usage = self.taxpr.parser.format_help()  # type: ignore[attr-defined]
                print(usage.removeprefix("::").lstrip())  # colons for documents
                return None
            try:
                options = self.taxpr.parser.parse_args(words)  # type: ignore[attr-defined]
            except UsageError as error:
                raise PanelError(f"{error} (%taxpr? shows the options)") from None
            if options.name is not None and not _is_name(options.name):
                raise PanelError(f"--name needs the name of a variable, not {options.name!r}")
            if cell is None:
                verbs.refuse_other_words(text, self.shell.user_ns)
            call = self._call(text, cell)
            session = self._session(call, options)
            if options.name is not None:
                self.shell.user_ns[options.name] = session
        return None if (text or cell or "").rstrip().endswith(";") else session

    def _verb(self, verb: str, words: list[str], text: str, cell: str | None) -> Any:
        """Do one of `verbs` in the session that is meant."""
        more, text = _options.split(text)
        pairs = [word.partition("=") for word in [*words, *more]]
        given = {flag: value for flag, _, value in pairs}
        if _options.HELP in given:
            print(verbs.help_of(verb))
            return None
        if cell is not None:
            raise PanelError(f"%%taxpr {verb} takes no cell: write `%taxpr {verb}` in a line")
        known = ["--name", *["--device"] * verbs.VERBS[verb].runs]
        if unknown := next((flag for flag in given if flag not in known), None):
            raise PanelError(f"%taxpr {verb} takes no {unknown}, but {' and '.join(known)}")
        session = verbs.session_of(given.get("--name"), self.shell.user_ns)
        bare = text.rstrip().removesuffix(";")
        device = given.get("--device")
        result = verbs.do(verb, verbs.VerbCall(session, bare.strip(), self.shell.user_ns, device))
        return result if bare == text.rstrip() else None

    def _why(self, text: str, cell: str | None) -> Compiles:
        """The traces and compiles in a cell, or in the line of the magic."""
        if text.strip() and cell is not None:
            raise PanelError(f"%%taxpr {_WHY} takes the cell, and nothing in its line.")
        if not text.strip() and not cell:
            raise PanelError(f"%taxpr {_WHY} needs a statement: %taxpr {_WHY} f(x)")
        with compiles() as log:
            if cell is None:
                _cell.run(text.strip(), self.shell, _caller(self.shell))
            else:
                body = _cell.transformed(cell, self.shell)
                _cell.run(body, self.shell, _place(self.shell, cell, body))
        return log.compiles

    def _call(self, text: str, cell: str | None) -> _cell.CapturedCall:
        """The call that line and cell ask for, after running what precedes it."""
        magic = "%taxpr" if cell is None else "%%taxpr"
        caller = _caller(self.shell)
        if cell is None:
            return _cell.run_to_call(text, self.shell, caller, magic=magic)
        body = _cell.transformed(cell, self.shell)
        place = _place(self.shell, cell, body)
        if not text:
            return _cell.run_to_call(body, self.shell, place, magic=magic)
        _cell.run(body, self.shell, place)
        return _cell.run_to_call(text, self.shell, caller, magic=magic)

    def _session(self, call: _cell.CapturedCall, options: Any) -> Session:
        numbers, names = static_words(options.static)
        checked_heat(options.heat or None, ASKED_KINDS)
        measured: list[MeasuredKind] = [kind for kind in MEASURED_KINDS if kind == options.heat]
        session = open_session(
            call.fun,
            call.args,
            call.kwargs,
            shell=self.shell,
            call=call.text,
            namespace=self.shell.user_ns,
            static_argnums=numbers,
            static_argnames=names,
            budget=self.budget if options.budget is None else options.budget,
            timeout=self.timeout if options.timeout is None else options.timeout,
            device=options.device or self.device or None,
            text_only=options.text or self.text,
            heat=None if measured else options.heat or None,
            kept_bytes=self.kept_bytes,
            names=_options.asked_names(options.names),
        )
        for kind in measured:
            session.ask(asked_for(kind))
            session.heat = kind
        for address in options.unfold:
            session.unfold(address)
        for address in options.fold:
            session.fold(address)
        return session


def load(shell: Any) -> None:
    """Registers the magics and the completion of their options.

    A kernel also imports the panel, in the background: the first panel need not wait for that.
    """
    shell.register_magics(TaxprMagics)
    complete.add(shell)
    bodiless.add(shell)
    if getattr(shell, "kernel", None) is not None:
        threading.Thread(target=_import_panel, name="taxpr imports", daemon=True).start()


def _import_panel() -> None:
    """Imports ipywidgets and anywidget; without them, opening a panel says what is missing."""
    with contextlib.suppress(Exception):
        importlib.import_module("taxpr_jupyter._view.widget")


def unload(shell: Any) -> None:
    """Undoes `load`. Sessions stay as they are."""
    complete.remove(shell)
    bodiless.remove(shell)
    manager = shell.magics_manager
    ours = manager.registry.pop(TaxprMagics.__name__, None)
    for kind in ("line", "cell"):
        manager.magics[kind].pop("taxpr", None)
    shell.configurables[:] = [found for found in shell.configurables if found is not ours]
    CELLS.clear()
    interrupts.forget()


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _caller(shell: Any) -> _cell.CodePosition:
    """The line of the user's cell that called the magic."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is not shell.user_global_ns:
        frame = frame.f_back
    if frame is None:
        return _cell.CodePosition("<taxpr>")
    return _cell.CodePosition(frame.f_code.co_filename, frame.f_lineno - 1)


def _place(shell: Any, cell: str, body: str) -> _cell.CodePosition:
    """The position of a cell magic's body. From now on tracebacks show the cell as typed."""
    head = _head(shell, cell)
    filename = _caller(shell).filename
    if "run_cell_magic(" in linecache.getline(filename, 1):
        text = head + body
        entry = (len(text), None, text.splitlines(keepends=True), filename)
        # IPython 7 restores entries from a cache of its own.
        for cache in (linecache.cache, getattr(linecache, "_ipython_cache", {})):
            cache[filename] = entry
    else:
        filename = shell.compile.cache(head + body, shell.execution_count)
    return _cell.CodePosition(filename, head.count("\n"))


def _head(shell: Any, cell: str) -> str:
    """The text that the user typed before the body of the cell magic, if the shell has it."""
    get_parent = getattr(shell, "get_parent", None)
    message = (get_parent() if get_parent else None) or {}
    for raw in (message.get("content", {}).get("code"), shell.history_manager.input_hist_raw[-1]):
        whole = f"{raw}\n"
        if raw and "%%" in raw and whole.endswith(cell):
            return whole[: len(whole) - len(cell)]
        if raw and "%%" in raw and raw.endswith(cell):
            return raw[: len(raw) - len(cell)]
    return "%%taxpr\n"
