"""How a session shows itself: a panel in a notebook, a picture without a browser, text."""

import sys
from typing import Any

from taxpr_jupyter._errors import LOG, one_line
from taxpr_jupyter._output.shell import SVG, running_shell, shows
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._svg.in_cells import for_outputs

_LINES = 100  # of the program in an output; `session.text()` shows all


def widget(session: Session) -> Any:
    """The widget of the panel by itself, for marimo, which shows no boxes of ipywidgets."""
    return _panel_of(session).alone()


def _panel_of(session: Session) -> Any:
    from taxpr_jupyter._view.widget import view_for  # heavy: ipywidgets

    return view_for(session)


def mimebundle(session: Session, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata for IPython: always text, a picture and a panel where they can be shown."""
    shell = running_shell()
    plain = session.text_only or not shows(shell, SVG)
    color = shell is not None and not shows(shell, SVG) and sys.stdout.isatty()
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    notes = list(session.notes)
    if not plain:
        no_panel = ""
        if getattr(shell, "kernel", None) is not None:
            # First, since the browser reads the code of the panel while the picture is laid out.
            try:
                data, metadata = _panel_of(session).as_output()
            except Exception as error:  # a panel that fails must not take the picture with it
                LOG.warning("There is no panel for %r", session, exc_info=True)
                no_panel = f"There is no panel: {one_line(error)}"
        svg = session.svg()
        notes += filter(None, [session.layout_note, no_panel])
        if svg is not None:
            data[SVG] = for_outputs(svg)
    parts = [session.text(color=color, limit=_LINES), session.tags_table(color=color), *notes]
    data["text/plain"] = "\n\n".join(part for part in parts if part)
    return data, metadata
