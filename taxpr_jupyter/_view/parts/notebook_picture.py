"""The picture that is saved with the notebook follows the panel."""

from __future__ import annotations

import threading

from taxpr_jupyter._errors import LOG
from taxpr_jupyter._output.saved import renew
from taxpr_jupyter._svg.in_cells import for_outputs
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import Jobs

AFTER = 0.5  # seconds without another picture: who moves a slider makes many


class NotebookPicture:
    """Renews the outputs beside a panel soon after its picture or its last run is another one.

    A notebook that is opened without its kernel shows these. JupyterLab and Notebook know them
    until the page is loaded again; then they keep what they have until the cell runs.

    Args:
        graph: The panel, which has the picture.
        jobs: Knows the session.
        model_id: By which `saved.publish` has named the outputs.
    """

    def __init__(self, graph: Graph, jobs: Jobs, model_id: str) -> None:
        self._graph = graph
        self._jobs = jobs
        self._model_id = model_id
        self._timer: threading.Timer | None = None
        self._written = "", ""

    def published(self) -> None:
        """Notes that the cell has published the picture that the panel has now."""
        self._written = self._graph.svg, self._run()

    def changed(self) -> None:
        """Renews them `AFTER` this, if nothing changes again before."""
        self.close()
        self._timer = threading.Timer(AFTER, self._renew)
        self._timer.daemon = True  # the end of Python waits for no picture
        self._timer.start()

    def close(self) -> None:
        """Does nothing that is still to be done."""
        if self._timer is not None:
            self._timer.cancel()

    def _renew(self) -> None:
        graph = self._graph
        now = graph.svg, self._run()
        if self._jobs.closed or not graph.svg or now == self._written:
            return
        words = " ".join(["The picture as the panel had it when the notebook was saved.", now[1]])
        try:
            if renew(for_outputs(graph.svg), self._model_id, words.strip()):
                self._written = now
            else:
                self.changed()  # once more, when the cell that captures outputs has ended
        except Exception:  # it is on a thread of its own, and the panel itself is well
            LOG.warning("The picture in the notebook is an older one", exc_info=True)

    def _run(self) -> str:
        """A sentence about the run that the results show; empty without one."""
        results = self._graph.results
        if "title" not in results:
            return ""
        words = [results["title"], *results["changes"]]
        said = results["headline"] or results["status"]
        return f"{', '.join(words)}: {said}."
