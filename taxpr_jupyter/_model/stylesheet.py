"""The style sheets of our SVG.

A page can change the colours by setting the CSS variables

    --taxpr-text, --taxpr-muted, --taxpr-line, --taxpr-control, --taxpr-cluster,
    --taxpr-state, --taxpr-failed-fill, --taxpr-failed-line,
    --taxpr-KIND-fill and --taxpr-KIND-line for each kind of node, and for "choice",
    --taxpr-backward-KIND-fill for kinds of nodes in a backward pass,
    --taxpr-heat-0 to --taxpr-heat-6 for nodes that are coloured by cost,
    --taxpr-kernel-0 to --taxpr-kernel-5, --taxpr-alone and --taxpr-removed for nodes as XLA has
    compiled them.

Without them it is readable on a light and on a dark page, also as an image of its own.
"""

import re
from collections.abc import Mapping

from taxpr_jupyter._model import theme
from taxpr_jupyter._model.kinds import HeatKind

# Fonts whose characters are as wide as `_dot` reckons, or narrower.
FONTS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono','Courier New',monospace"

_SHAPES = ("rect", "path")

FITS = "max-width:100%;height:auto"


def css(heat: HeatKind | None) -> str:
    """The style sheet; every rule only for our own SVG, for a page reads it as its own."""
    rules = {
        "": FITS,
        "text": _colour("fill", "text", theme.TEXT),
        ".cluster text,.edge text": _colour("fill", "muted", theme.MUTED),
        ".cluster text": "font-weight:600",
        ".edge text,.badge text,.small text": f"font-size:{theme.SMALL}px",
        ".node text:first-of-type,.node .b": "font-weight:600",
        ".node .code": f"font-size:{theme.CODE}px",
        ".small.small text": "font-weight:400",
        ".cluster rect": "stroke-width:0.8px;"
        + _colour("fill", "cluster", theme.CLUSTER)
        + _colour("stroke", "line", theme.LINE),
        ".cluster.deep rect": "fill:none",
        ".edge path": "fill:none;stroke-width:0.8px;" + _colour("stroke", "line", theme.LINE),
        ".edge .tip": "stroke:none;" + _colour("fill", "line", theme.LINE),
        ".edge.residual path": "stroke-width:.5px",
        ".edge .twin.input text,.edge .twin.state text": _colour("fill", "text", theme.TEXT),
        ".edge .twin rect": "fill:none;stroke-width:.8px;stroke-dasharray:3 2;"
        + _colour("stroke", "line", theme.LINE),
        ".edge.seed path": "stroke-dasharray:1.5 2.5;stroke-width:1.2px",
        ".edge.back path": "stroke-dasharray:4 3",
        ".edge.control path": "stroke-dasharray:1.5 2.5;stroke-width:1.5px;"
        + _colour("stroke", "control", theme.CONTROL),
        ".edge.control .tip": "stroke:none;" + _colour("fill", "control", theme.CONTROL),
    }
    for kind, dashes in (("read", "none"), ("write", "5 3")):
        rules[f".edge.{kind} path"] = f"stroke-width:1.2px;stroke-dasharray:{dashes};" + _colour(
            "stroke", "state", theme.STATE
        )
        rules[f".edge.{kind} .tip"] = "stroke:none;" + _colour("fill", "state", theme.STATE)
    rules[".cluster.function rect"] = "stroke-dasharray:1 3"
    for kind, look in theme.LOOKS.items():
        node = f".node.{kind}" if kind != "choice" else ".choice.choice"
        # A twin of what is given looks as its node that stands elsewhere.
        twin = f",.edge .twin.{kind} rect" if kind in theme.GIVEN else ""
        rules[f"{node} rect,{node} path{twin}"] = (
            _colour("fill", f"{kind}-fill", look.fill)
            + _colour("stroke", f"{kind}-line", look.line)
            + f"stroke-width:{look.border:g}px"
        )
    for kind, fill in theme.BACKWARD_FILLS.items():
        node = f".node.{kind}.backward"
        rules[f"{node} rect,{node} path"] = _colour("fill", f"backward-{kind}-fill", fill)
    rules[".node.effect.effect rect,.node.effect.effect path"] = "stroke-width:2px"
    rules[".node.plumbing.plumbing rect"] = f"fill-opacity:{theme.PLUMBING_OPACITY}"
    rules[".node.precision.precision rect,.node.precision.precision path"] = (
        f"stroke-width:{theme.PRECISION_BORDER}px;" + _colour("stroke", "control", theme.CONTROL)
    )
    left = ",".join(f".node.{mark}.{mark} {tag}" for mark in ("rest", "unused") for tag in _SHAPES)
    rules[left] = _colour("fill", "literal-fill", theme.REST_FILL) + _colour(
        "stroke", "line", theme.LINE
    )
    rules[".node.unused text"] = _colour("fill", "muted", theme.MUTED)
    failed = _colour("stroke", "failed-line", theme.FAILED_LINE)
    rules[".node.failed.failed rect,.node.failed.failed path"] = (
        _colour("fill", "failed-fill", theme.FAILED_FILL)
        + failed
        + f"stroke-width:{theme.FAILED_BORDER}px"
    )
    ended = f"{failed}stroke-width:{theme.ENDED_BORDER}px"
    rules[".cluster.failed rect"] = ended
    rules[".cluster.unfinished rect"] = f"{ended};stroke-dasharray:5 3"
    rules[".stub rect,.stub path,.again rect,.added rect,.added path,.rest rect"] = (
        "stroke-dasharray:4 2"
    )
    # As specific as those for marks, and after them: a cost has its colour on every node.
    for name, fill in fills(heat):
        node = f".node.{name}.{name}"
        rules[f"{node} rect,{node} path,rect.{name}"] = _colour("fill", name, fill)
    if heat == "compiled":
        rules[".node.moved.moved rect,.node.moved.moved path"] = (
            f"stroke-width:{theme.MOVED_BORDER}px;" + _colour("stroke", "control", theme.CONTROL)
        )
    if heat:
        rules |= {
            ".legend text": _colour("fill", "muted", theme.MUTED),
            ".legend rect": "stroke-width:.5px;" + _colour("stroke", "line", theme.LINE),
        }
    return _sheet(rules)


def fills(heat: HeatKind | None) -> list[tuple[str, str]]:
    """The colours of nodes by the names of their classes, as a legend shows them."""
    if heat is None:
        return []
    if heat == "compiled":
        return list(theme.AS_COMPILED.items())
    return [(f"heat-{step}", fill) for step, fill in enumerate(theme.HEATS)]


def comparison_css() -> str:
    """The rules for marks of a comparison, below an element of the class ``compared``."""
    rules: dict[str, str] = {}
    for mark, look in theme.CHANGES.items():
        at, fill = f".compared .node.{mark}", _colour("fill", f"{mark}-fill", look.fill)
        border = _colour("stroke", f"{mark}-line", look.line)
        border += f"stroke-width:{look.border:g}px;stroke-dasharray:{look.dashes or 'none'}"
        rules[f"{at} rect,{at} path"] = fill + border
        rules[f".compared .cluster.{mark} rect"] = border
    rules[".compared .node.same text"] = _colour("fill", "muted", theme.MUTED)
    rules[".side-title"] = "font-size:13px;font-weight:600;" + _colour("fill", "muted", theme.MUTED)
    rules[".between"] = "fill:none;stroke-width:.6px;stroke-dasharray:2 4;" + _colour(
        "stroke", "line", theme.LINE
    )
    rules[".legend text"] = "text-anchor:start;" + _colour("fill", "muted", theme.MUTED)
    return _sheet(rules)


def _sheet(rules: Mapping[str, str]) -> str:
    return "".join(
        f"{','.join(f'.taxpr-svg {part}'.strip() for part in selector.split(','))}{{{body}}}"
        for selector, body in rules.items()
    )


def _colour(what: str, name: str, value: str) -> str:
    # Twice, because not every program that shows SVG knows CSS variables.
    return f"{what}:{value};{what}:var(--taxpr-{name},{value});"


def for_converters(svg: str) -> str:
    """Our SVG for programs that know less of CSS than browsers, such as cairosvg.

    They take a variable for a wrong colour, `auto` for no height at all, a colour with an alpha for
    one without, and of several fonts only the first; and they draw a box for a space without width.
    """
    style, end, rest = svg.partition("</style>")
    style = re.sub(r"(?:fill|stroke):var\([^()]*\);", "", style).replace(FITS, "", 1)
    style = re.sub(r"#([0-9a-f]{8})\b", lambda match: _rgba(bytes.fromhex(match[1])), style)
    return style + end + rest.replace(FONTS, "monospace", 1).replace("&amp;\u200b", "&amp;")


def _rgba(parts: bytes) -> str:
    *colour, alpha = parts
    return f"rgba({','.join(map(str, colour))},{alpha / 255:.3g})"
