"""A panel in a page without Jupyter, which is quick: this process is its kernel."""

import json
import time
from typing import get_type_hints

from browser.panel_start import PAGE, START

from taxpr_jupyter._messages.panel_traits import Traits
from taxpr_jupyter._view.widget import view_for


class PanelPage:
    """A panel, shown in a page; one for each page.

    Args:
        page: Of playwright.
        session: Of the panel.
        tab: The name of the tab to open.
        answers: Whether the panel in this process gets what the page sends, and answers.

    Attributes:
        panel: The element of the tab.
    """

    def __init__(self, page, session, tab="Picture", *, answers=True):
        self.page, self.session, self.answers = page, session, answers
        self.view, self._sent = view_for(session), []
        self.root = page.locator(".taxpr-panel")
        self.panel = page.get_by_role("tabpanel", name=tab)
        self.inspected = page.locator(".tx-inspector .tx-address")
        assert self.view.wait(60)
        page.expose_function("kernel", self._kernel)
        page.set_content(PAGE.format(css=self.view.graph._css))
        page.evaluate(START, [str(self.view.graph._esm), self._traits()])
        page.get_by_role("tab", name=tab).click()
        self.take_sent()

    def _traits(self):
        traits = {name: getattr(self.view.graph, name) for name in get_type_hints(Traits)}
        return json.loads(json.dumps(traits))

    def _kernel(self, what, content):
        if what == "send":
            self._sent.append(content)
        if not self.answers:
            return {}
        if what == "send":
            self.view.graph._handle_custom_msg(content, [])
        else:
            self.view.graph.set_state(content)
        assert self.view.wait(60)
        give_up = time.monotonic() + 60
        while self.view.jobs.tasks():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        with self.view.jobs.lock:
            return self._traits()

    def take_sent(self):
        """The messages of the page since the last time."""
        self.page.evaluate("idle()")
        sent, self._sent = self._sent, []
        return sent

    def look(self):
        """Lets the page hear of changes that it did not ask for."""
        self.page.evaluate("look()")
        self.page.evaluate("idle()")

    def line(self, text):
        """The row of the tab with this text."""
        return self.panel.get_by_role("row").filter(has=self.page.get_by_text(text, exact=True))

    def code(self, text):
        """The text itself."""
        return self.panel.get_by_text(text, exact=True)

    def node(self, address):
        """The element of the picture."""
        return self.page.locator(f'.tx-stage svg [data-address="{address}"]').first
