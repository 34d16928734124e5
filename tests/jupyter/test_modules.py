"""Browser modules become one text, or the statement that cannot is named."""

import pytest

from taxpr_jupyter._output.modules import linked

A = """\
import { b } from "./b.js";
import {
  first,
  second as other,
} from "./more/b.js";
export default [b, first, other];
"""


def test_a_module_after_those_it_imports(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "a.js").write_text(A)
    (tmp_path / "b.js").write_text('import { first } from "./more/b.js";\nexport const b = first;')
    (tmp_path / "more/b.js").write_text(
        "export function first() { return import.meta; }\nexport async function second() {}"
    )
    assert (
        linked(tmp_path / "a.js")
        == """\
const b_0 = (() => {
function first() { return import.meta; }
async function second() {}
return { first, second };
})();
const b_1 = (() => {
const { first } = b_0;
const b = first;
return { b };
})();
const { b } = b_1;
const {
  first,
  second: other,
} = b_0;
export default [b, first, other];
"""
    )


COMMENTS = """\
// @ts-check
/**
 * What it is for.
 */
const at = "https://x"; // stays
/** @type {any} */ (at).go();
  /** One line. */
const all = `
  /* stays */`;
"""


def test_lines_that_are_a_comment_are_left_out(tmp_path):
    (tmp_path / "a.js").write_text(COMMENTS)
    kept = COMMENTS.splitlines(keepends=True)
    assert linked(tmp_path / "a.js") == "".join([*kept[4:6], *kept[7:]])


@pytest.mark.parametrize(
    "statement",
    [
        'import "./b.js";',
        'import b from "./b.js";',
        'import * as b from "./b.js";',
        'import { b } from "library";',
        'import { b } from "./b.js"',
        "import { b } from './b.js';",
        '  import { b } from "./b.js";',
        "export let b = 1;",
        "export { b };",
        'export * from "./b.js";',
        "export default b;",
    ],
)
def test_a_statement_that_is_not_understood(tmp_path, statement):
    (tmp_path / "a.js").write_text('import { c } from "./c.js";')
    (tmp_path / "b.js").write_text("export const b = 1;")
    (tmp_path / "c.js").write_text(f"// c\n{statement}\nexport const c = 1;")
    with pytest.raises(
        ValueError, match=r"^c\.js: taxpr_jupyter cannot put the statement"
    ) as error:
        linked(tmp_path / "a.js")
    assert repr(statement.strip()) in str(error.value)
