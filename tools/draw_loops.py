"""Draws the pictures of docs/loops.md: `python tools/draw_loops.py` writes docs/pictures/*.svg.

Numbers are those of examples/decay.onnx.txt for x = 1 and w = 0.5. Colours follow the page, dark or
light; nothing is so small that it cannot be read on a telephone.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #24292f; text-anchor: middle }
.small { font-size: 13px } .left { text-anchor: start } .right { text-anchor: end }
rect { stroke-width: 1.5; rx: 5px } path { fill: none; stroke-width: 1.75 }
rect.forward { fill: #d3f1ec; stroke: #0b8a7b } path.forward { stroke: #0b8a7b }
rect.backward { fill: #ffe3cc; stroke: #c25a12 } path.backward { stroke: #c25a12 }
rect.kept { fill: #e4e1f7; stroke: #6a5acd } path.kept { stroke: #6a5acd; stroke-dasharray: 4 3 }
rect.dropped { fill: none; stroke: #8b949e; stroke-dasharray: 4 3 } path.plain { stroke: #8b949e }
text.forward { fill: #076358 } text.backward { fill: #9a430a } text.kept { fill: #4b3ca7 }
text.dropped, text.plain { fill: #6b7480 }
.head-forward { fill: #0b8a7b } .head-backward { fill: #c25a12 } .head-kept { fill: #6a5acd }
.head-plain { fill: #8b949e }
@media (prefers-color-scheme: dark) {
text { fill: #e2e6ea }
rect.forward { fill: #12403b; stroke: #3cc4b2 } path.forward { stroke: #3cc4b2 }
rect.backward { fill: #4d2c14; stroke: #f09a5b } path.backward { stroke: #f09a5b }
rect.kept { fill: #322d57; stroke: #a79bf0 } path.kept { stroke: #a79bf0 }
text.forward { fill: #7fe0d2 } text.backward { fill: #f7b98a } text.kept { fill: #c4bbf7 }
text.dropped, text.plain { fill: #9aa4ae }
.head-forward { fill: #3cc4b2 } .head-backward { fill: #f09a5b } .head-kept { fill: #a79bf0 }
}
"""
WIDTH = 560
KINDS = ("forward", "backward", "kept", "plain")


class Picture:
    """A picture of boxes, arrows and texts; places are in pixels from the upper left corner."""

    def __init__(self, height: int, title: str) -> None:
        self.height, self.title, self.parts = height, title, list[str]()

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write a text around (x, y); `kind` has its colour, and "small", "left" or "right"."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>')

    def box(
        self, x: float, y: float, text: str, kind: str, width: float = 64, high: int = 34
    ) -> None:
        """Draw a box around (x, y)."""
        corner = f'x="{x - width / 2:g}" y="{y - high / 2:g}"'
        self.parts.append(f'<rect {corner} width="{width:g}" height="{high:g}" class="{kind}"/>')
        self.text(x, y + 5, text, kind)

    def arrow(self, points: list[tuple[float, float]], kind: str, label: str = "") -> None:
        """Draw an arrow through points, with a label above the middle of its first part."""
        way = "M" + " L".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<path d="{way}" class="{kind}" marker-end="url(#{kind})"/>')
        if label:
            (x, y), (to_x, to_y) = points[:2]
            self.text((x + to_x) / 2, (y + to_y) / 2 - 6, label, f"{kind} small")

    def to_svg(self) -> str:
        """Return the picture as the text of a file."""
        heads = "".join(
            f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" style="stroke: none" class="head-{kind}"/></marker>'
            for kind in KINDS
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{heads}</defs>",
            *self.parts,
            "</svg>\n",
        ]
        return "\n".join(lines)


def chain() -> Picture:
    """Draw three operators in a row, and the chain rule below them."""
    picture = Picture(170, "The chain rule: slopes are multiplied from the end to the beginning")
    values = ["x = 3", "a = 6", "b = 36", "loss = 37"]
    slopes = ["24", "12", "1", "1"]
    for i, (value, slope) in enumerate(zip(values, slopes, strict=True)):
        x = 42 + 154 * i
        picture.text(x + (14 if i == 3 else 0), 45, value, "forward")
        picture.text(x, 145, slope, "backward")
        if i == 3:
            break
        picture.box(x + 77, 40, ["· 2", "square", "+ 1"][i], "forward", 62)
        picture.box(x + 77, 140, ["· 2", "· 2a", "· 1"][i], "backward", 62)
        picture.arrow([(x + 77, 57), (x + 77, 122)], "kept" if i == 1 else "plain")
        picture.arrow([(x + 30, 40), (x + 45, 40)], "forward")
        picture.arrow([(x + 108, 40), (x + 122, 40)], "forward")
        picture.arrow([(x + 138, 140), (x + 109, 140)], "backward")
        picture.arrow([(x + 46, 140), (x + 17, 140)], "backward")
    picture.text(282, 95, "a is needed again", "kept small left")
    return picture


def trip() -> Picture:
    """Draw one trip of the loop, and its way back."""
    picture = Picture(200, "One trip: it multiplies; the way back needs what it multiplied")
    picture.text(4, 55, "the trip", "forward left")
    picture.text(4, 150, "its way back", "backward left")
    picture.box(320, 50, "v · w", "forward", 100, 40)
    picture.box(320, 145, "rule of Mul", "backward", 100, 44)
    picture.arrow([(150, 50), (268, 50)], "forward", "v, w")
    picture.arrow([(370, 50), (480, 50)], "forward", "next = v · w")
    picture.arrow([(530, 145), (372, 145)], "backward", "s, the slope of next")
    picture.arrow([(270, 135), (130, 135)], "backward", "slope of v: s · w")
    picture.arrow([(270, 158), (130, 158)], "backward")
    picture.text(200, 178, "slope of w: s · v", "backward small")
    picture.arrow([(320, 70), (320, 121)], "kept")
    picture.text(330, 100, "v and w are needed again", "kept small left")
    return picture


def tape() -> Picture:
    """Draw four trips, their tape, and the reverse loop."""
    picture = Picture(350, "Four trips write a tape; the reverse loop reads it from its end")
    states = ["1", "0.5", "0.25", "0.125", "0.0625"]
    slopes = ["0.0078", "0.0156", "0.0313", "0.0625", "0.125"]
    for i, (state, slope) in enumerate(zip(states, slopes, strict=True)):
        x = 40 + 120 * i
        picture.text(x, 74, state, "forward")
        picture.text(x, 264, slope, "backward")
        if i == 4:
            break
        picture.box(x + 60, 70, "· w", "forward", 44)
        picture.box(x + 60, 160, state, "kept", 60)
        picture.box(x + 60, 260, "back", "backward", 50)
        picture.arrow([(x + 60, 87), (x + 60, 142)], "kept")
        picture.arrow([(x + 60, 177), (x + 60, 242)], "kept")
        picture.arrow([(x + 60, 277), (x + 60, 304)], "backward")
        picture.text(x + 60, 320, "0.0156", "backward small")
    picture.text(6, 26, "Loop: v ← v · 0.5, while v > 0.1", "forward left")
    picture.text(6, 130, "the tape", "kept left")
    picture.text(6, 222, "way back", "backward left")
    picture.text(554, 26, "loss = v²", "right")
    picture.text(280, 344, "slope of w: all four added up, 0.0625", "backward")
    return picture


def nested() -> Picture:
    """Draw a loop in a loop: the inner one runs again on the way back."""
    picture = Picture(275, "The inner loop runs again on the way back, and writes its tape then")
    for i in range(3):
        x = 110 + 170 * i
        picture.box(x, 70, "", "forward", 140, 50)
        picture.text(x, 40, f"outer trip {i}", "forward small")
        for j in range(3):
            picture.box(x - 42 + 42 * j, 70, "", "forward", 28, 22)
        picture.box(x, 130, "its state", "kept", 90, 28)
        picture.arrow([(x, 95), (x, 115)], "kept")
        picture.arrow([(x, 145), (x, 172)], "kept")
        picture.box(x, 205, "", "backward", 140, 64)
        for j in range(3):
            picture.box(x - 42 + 42 * j, 192, "", "kept", 28, 20)
            picture.box(x - 42 + 42 * j, 220, "", "backward", 28, 20)
        if i < 2:
            picture.arrow([(x + 70, 70), (x + 100, 70)], "forward")
            picture.arrow([(x + 100, 205), (x + 70, 205)], "backward")
    picture.text(
        280, 264, "back: each trip runs again and writes a tape, then goes backward", "plain small"
    )
    return picture


def memory() -> Picture:
    """Draw what is held of sixteen trips in each of three ways."""
    picture = Picture(260, "What is held of sixteen trips: all of each, the state of each, or four")
    rows = [
        ("keep", "all that the way back reads, of each trip", lambda i: "kept", 30),
        ("recompute", "the state of each trip; one more run of the body", lambda i: "kept", 13),
        ("checkpoint", "the state of every 4th trip, and of 4 trips at a time", _held, 13),
    ]
    for row, (name, tells, kind, high) in enumerate(rows):
        _row(picture, 30 + 82 * row, name, tells, kind, high)
    return picture


def _row(
    picture: Picture, y: float, name: str, tells: str, kind: Callable[[int], str], high: int
) -> None:
    picture.text(6, y + 5, name, "left")
    picture.text(110, y + 40, tells, "plain small left")
    for i in range(16):
        picture.box(122 + 28 * i, y, "", kind(i), 20, high)


def _held(trip: int) -> str:
    return "kept" if trip % 4 == 0 or trip > 12 else "dropped"


def implicit() -> Picture:
    """Draw an iteration to a solution, and the gradient there."""
    picture = Picture(200, "The gradient of a solution needs the solution alone, not the way to it")
    for i in range(5):
        x = 50 + 92 * i
        picture.box(x, 60, f"z{'₀₁₂₃₄'[i]}", "forward" if i == 4 else "dropped", 50)
        if i < 4:
            picture.arrow([(x + 25, 60), (x + 65, 60)], "plain")
    picture.text(232, 26, "z ← f(z, u), until it stays: z = f(z, u)", "forward")
    picture.arrow([(418, 77), (418, 122)], "kept")
    picture.text(430, 105, "z alone", "kept small left")
    picture.box(418, 142, "w ← (∂f/∂z)ᵀ w + v, until it stays", "backward", 262)
    picture.arrow([(287, 142), (150, 142)], "backward", "(∂f/∂u)ᵀ w")
    picture.text(90, 147, "slope of u", "backward")
    picture.text(418, 188, "v: slope of z, from the loss", "backward small")
    return picture


PICTURES = {draw.__name__: draw for draw in (chain, trip, tape, nested, memory, implicit)}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().to_svg(), encoding="utf-8")
