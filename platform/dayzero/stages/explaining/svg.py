"""SVG that grows downwards, built as a tree, so that every text is escaped.

Colours are variables with a light and a dark set; each picture has a title and a description for readers who do not see it.
Nothing in it is loaded or run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from dayzero.stages.bundle.escape import clean

WIDTH = 720
"""Units of a picture's width: at a phone's 360 pixels the smallest text is 10 pixels."""

MARGIN, TEXT, SMALL = 20, 25, 21
LINE = 56
"""Characters of the smaller text on one line."""

STYLE = """
svg { font-family: system-ui, sans-serif; --ink: #1f2328; --dim: #59636e; --paper: #ffffff; --line: #8c959f;
  --soft: #f3f5f7; --limit: #cf222e;
  --weights: #2f6fde; --redundant_experts: #1b9aaa; --state: #2da44e; --activations: #d4a72c; --logits: #a475f9;
  --expert_buffers: #56b6c2;
  --communication_buffers: #e08a3c; --reserve: #8c959f; --gradients: #d1485b; --master_weights: #1e4e9c;
  --moments: #1a7f37; --adapters: #bf3989; --gradient_copies: #a40e26;
  --s0: #7fb2ff; --s1: #8fd6a4; --s2: #f2d06b; --s3: #d3b4ff; --s4: #f5b58a; --s5: #8fdbe3; --s6: #f3a0bd;
  --s7: #c6d37a; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --dim: #9198a1; --paper: #0d1117; --line: #656c76;
  --soft: #161b22; --limit: #ff7b72;
  --weights: #4f8dfd; --redundant_experts: #39c5cf; --state: #3fb950; --activations: #e3b341; --logits: #b392f0;
  --expert_buffers: #76e3ea;
  --communication_buffers: #f0a35e; --reserve: #6e7681; --gradients: #ff7b72; --master_weights: #79b0ff;
  --moments: #56d364; --adapters: #f778ba; --gradient_copies: #ffa198;
  --s0: #1f4e96; --s1: #1d6333; --s2: #7a5b0c; --s3: #5b3a99; --s4: #86481a; --s5: #14606b; --s6: #86325a;
  --s7: #566217; } }
text { fill: var(--ink); } .dim { fill: var(--dim); } .paper { fill: var(--paper); } .box { fill: var(--soft);
  stroke: var(--line); }
.domain { fill: none; stroke: var(--dim); stroke-dasharray: 6 4; }
.pair { fill: none; stroke: var(--ink); stroke-dasharray: 3 3; } .group { fill: none; stroke: var(--ink);
  stroke-width: 2; }
.limit { stroke: var(--limit); stroke-width: 3; stroke-dasharray: 8 5; } .track { fill: var(--soft);
  stroke: var(--line); }
"""
"""Letters of contrast 4.5 and more on their ground, in both sets;
  items beyond the known ones take the colour of the reserve."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle from its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Drawing:
    """A picture that grows downwards; `y` is where the next part begins.

    `name` keeps the ids of several pictures on one page apart; a `bare` one stands on a page that has the style for all.
    """

    def __init__(self, title: str, description: str, *, name: str = "", bare: bool = False) -> None:
        self._bare = bare
        self.root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
        self.root.set("aria-labelledby", f"{name}title {name}description")
        self._child("title", clean(title), id=f"{name}title")
        self._child("desc", clean(description), id=f"{name}description")
        if not bare:
            self._child("style", STYLE)
        self.ground = self._child("rect", "", x="0", y="0", width="100%", height="100%")
        self.ground.set("class", "paper")
        self.y: float = MARGIN
        for line in wrapped(title, 40):
            self.write(MARGIN, line, size=TEXT + 2, weight="600")

    def text(self) -> str:
        """The document; its size follows what was drawn, and a page may scale it."""
        height = round(self.y + MARGIN)
        self.root.set("viewBox", f"0 0 {WIDTH} {height}")
        self.root.set("width", "100%")
        if self._bare:
            self.root.set("class", "plot")
        else:
            self.root.set("style", f"max-width:{WIDTH}px;height:auto")
        return ElementTree.tostring(self.root, encoding="unicode") + "\n"

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """A line through the points."""
        self._child("polyline", "", points=" ".join(f"{number(x)},{number(y)}" for x, y in points)).set("class", kind)

    def dot(self, x: float, y: float, radius: float, kind: str, said: str) -> None:
        """A dot; `said` is shown where somebody points at it."""
        child = self._child("circle", "", cx=number(x), cy=number(y), r=number(radius))
        child.set("class", kind)
        ElementTree.SubElement(child, "title").text = clean(said)

    def line(self, x: float, top: float, bottom: float, kind: str) -> None:
        """A line from above downwards."""
        child = self._child("line", "", x1=number(x), x2=number(x), y1=number(top), y2=number(bottom))
        child.set("class", kind)

    def legend(self, x: float, said: str, fill: str) -> float:
        """A coloured square and its meaning, on the next line where this one is full; where the next one begins."""
        wide = 46 + 11.5 * len(said)
        if x + wide - 14 > WIDTH - MARGIN:
            x, self.y = float(MARGIN), self.y + SMALL * 1.5
        self.box(Box(x, self.y - 15, 18, 18), "", fill=fill, radius=3)
        self.label(x + 24, self.y, said)
        return x + wide

    def _child(self, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
        child = ElementTree.SubElement(self.root, tag, attributes)
        child.text = text or None
        return child

    def write(self, x: float, text: str, *, size: int = SMALL, kind: str = "", weight: str = "400") -> None:
        """A line of text below what was drawn last."""
        self.y += size
        self.label(x, self.y, text, size=size, kind=kind, weight=weight)
        self.y += size * 0.45

    def label(self, x: float, y: float, text: str, *, size: int = SMALL, kind: str = "", anchor: str = "start",
              weight: str = "400") -> None:  # fmt: skip
        """A text whose baseline is at y."""
        child = self._child("text", clean(text), x=number(x), y=number(y))
        child.set("font-size", str(size))
        for name, value, usual in (("class", kind, ""), ("text-anchor", anchor, "start"), ("font-weight", weight, "400")):
            if value != usual:
                child.set(name, value)

    def box(self, at: Box, kind: str, *, fill: str = "", radius: int = 0, said: str = "") -> None:
        """A rectangle; `said` is shown where somebody points at it."""
        child = self._child("rect", "", x=number(at.x), y=number(at.y), width=number(at.width), height=number(at.height))
        if kind:
            child.set("class", kind)
        if fill:
            child.set("fill", f"var({fill})")
        if radius:
            child.set("rx", str(radius))
        if said:
            ElementTree.SubElement(child, "title").text = clean(said)


def number(value: float) -> str:
    """A coordinate as SVG writes it."""
    return f"{value:.1f}".removesuffix(".0")


def wrapped(text: str, most: int) -> list[str]:
    """The text in lines of at most so many characters."""
    lines, line = [], ""
    for word in clean(text).split():
        if line and len(line) + len(word) + 1 > most:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
        while len(line) > most:
            lines.append(line[:most])
            line = line[most:]
    return [*lines, line] if line else lines
