"""A cell with an edited line that runs again and again has a panel that answers each time."""

from browser.notebook_page import NotebookPage, expect, notebook
from browser.programs import IMPORTS

CELL = """\
%%taxpr --name p
def f(x):
    y = jnp.sin(x)
    return y.sum()

f(jnp.ones(3))
"""


def test_a_panel_of_a_cell_that_ran_again_answers(page, server):
    book = NotebookPage(page, server.in_lab(notebook(IMPORTS, CELL)))
    book.run(0)
    book.run(1)
    panel = book.panel(1)
    panel.root.get_by_role("tab", name="Source").click()
    source = panel.root.get_by_role("tabpanel", name="Source")
    line = source.get_by_role("row").filter(has=page.get_by_text("    y = jnp.sin(x)", exact=True))
    line.locator(".tx-of-line").dblclick()
    field = source.get_by_role("textbox", name="Right-hand side")
    field.fill("jnp.cos(x)")
    field.press("Enter")
    for number in range(1, 4):
        expect(source.get_by_text("edited", exact=True)).to_be_visible()
        book.run(1)
        expect(source.get_by_text("edited", exact=True)).to_be_visible()
        panel.run_button.click()
        expect(panel.results.locator("h3")).to_contain_text(f"Run {number} on")
        expect(panel.results.get_by_label("Outputs", exact=True)).to_contain_text("1.62091")
