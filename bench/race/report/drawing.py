"""A picture as SVG text: a few shapes, readable on a light page and on a dark one."""

from __future__ import annotations

from html import escape

_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.faint { fill: #6e7781; font-size: 12px }
.end { text-anchor: end } .middle { text-anchor: middle }
.ours { fill: #1a7f37; stroke: #1a7f37 } .peer { fill: #8c959f; stroke: #8c959f } .missed { fill: #cf222e; stroke: #cf222e }
.axis { stroke: #d0d7de; fill: none } .goal { stroke: #24292f; stroke-width: 2 }
.line { fill: none; stroke-width: 2 }
.a { stroke: #0969da; fill: #0969da } .b { stroke: #1a7f37; fill: #1a7f37 }
.c { stroke: #bc4c00; fill: #bc4c00 } .d { stroke: #8250df; fill: #8250df }
text.a, text.b, text.c, text.d { stroke: none } path.a, path.b, path.c, path.d { fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9198a1 }
.ours { fill: #3fb950; stroke: #3fb950 } .peer { fill: #656c76; stroke: #656c76 } .missed { fill: #f85149; stroke: #f85149 }
.axis { stroke: #3d444d } .goal { stroke: #e6edf3 }
.a { stroke: #58a6ff; fill: #58a6ff } .b { stroke: #3fb950; fill: #3fb950 }
.c { stroke: #f0883e; fill: #f0883e } .d { stroke: #bc8cff; fill: #bc8cff }
}
"""


class Drawing:
    def __init__(self, width: int, title: str) -> None:
        self._width = width
        self._title = title
        self._shapes: list[str] = []
        self._bottom = 0.0
        self.text(12, 24, title, "title")

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        self._add(y + 6, f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>')

    def bar(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        size = f'width="{max(width, 1):.1f}" height="{height:.1f}"'
        self._add(
            y + height, f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="2" class="{kind}" stroke-width="0"/>'
        )

    def line(self, points: list[tuple[float, float]], kind: str) -> None:
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._add(max(y for _, y in points), f'<path d="M{path}" class="{kind}"/>')

    def dot(self, x: float, y: float, kind: str) -> None:
        self._add(y + 4, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="{kind}"/>')

    def svg(self) -> str:
        height = self._bottom + 12
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {height:.0f}" '
            f'width="{self._width}" height="{height:.0f}" role="img" aria-label="{escape(self._title)}">'
        )
        return "\n".join([head, f"<style>\n{_STYLE}</style>", *self._shapes, "</svg>"]) + "\n"

    def _add(self, bottom: float, shape: str) -> None:
        self._bottom = max(self._bottom, bottom)
        self._shapes.append(shape)
