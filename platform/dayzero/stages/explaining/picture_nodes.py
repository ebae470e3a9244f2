"""The placement part of a plan's picture: nodes as boxes, the domains between them around them, ranks coloured by stage."""

from collections import defaultdict

from dayzero.domain.plan import ParallelPlan, Placement
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.explaining.svg import LINE, MARGIN, SMALL, TEXT, WIDTH, Box, Drawing, wrapped
from dayzero.stages.planning.placement import by_node, nested, node_devices, position_of, ranges

MOST_NODES = 24


def draw_placement(drawing: Drawing, plan: ParallelPlan, profile: PlatformProfile, places: tuple[Placement, ...]) -> None:
    """Nodes in rows, inside the domains that hold several of them."""
    drawing.write(MARGIN, "Placement", size=TEXT, weight="600")
    if plan.degrees.pp > 1:
        _stages(drawing, plan)
    size = node_devices(profile) or len(places)
    said = [f"framed: tensor-parallel groups of {plan.degrees.tp}"] if plan.degrees.tp > 1 else []
    said += [f"dashed: {domain.name}" for domain in nested(profile) if domain.devices < size][:1]
    for line in wrapped("; ".join(said), LINE):
        drawing.write(MARGIN, line, kind="dim")
    _Nodes(drawing, plan, profile, places, size).draw()


def _stages(drawing: Drawing, plan: ParallelPlan) -> None:
    x = float(MARGIN)
    drawing.y += SMALL
    for stage in range(min(plan.degrees.pp, 8)):
        layers = f" (layers {plan.stage_layers[stage][0]}-{plan.stage_layers[stage][1] - 1})" if plan.stage_layers else ""
        x = drawing.legend(x, f"stage {stage}{layers}", f"--s{stage % 8}")
    drawing.y += SMALL * 0.8
    if plan.degrees.pp > 8:
        drawing.write(MARGIN, f"{plan.degrees.pp} stages: the colours come again after eight", kind="dim")


class _Nodes:
    """The nodes of a placement, as cells of ranks."""

    CELL = 38.0

    def __init__(self, drawing: Drawing, plan: ParallelPlan, profile: PlatformProfile, places: tuple[Placement, ...],
                 size: int) -> None:  # fmt: skip
        self.drawing, self.plan, self.places, self.size = drawing, plan, places, size
        self.every = by_node(places)
        self.domains = nested(profile)
        self.columns = min(size, 8 if size <= 32 else 16, max(1, plan.degrees.world))
        room = WIDTH - 2 * MARGIN - 12 * 2
        self.a_row = max(1, int((room + 16) // (max(self.CELL * self.columns, 110) + 32))) if self.columns <= 8 else 1
        if self.columns <= 8 and len(self.every) > 1:
            self.a_row = max(2, self.a_row)
        inner = (room - 16 * (self.a_row - 1)) / self.a_row - 16
        self.cell = min(self.CELL, inner / self.columns)
        self.wide = max(self.cell * self.columns, 100) + 16

    def draw(self) -> None:
        held: dict[tuple[int, int] | None, list[int]] = defaultdict(list)
        drawn = self._drawn()
        for node in drawn:
            held[self._around(self.every[node])].append(node)
        for key, nodes in held.items():
            self._domain(key, nodes)
        if len(drawn) < len(self.every):
            rest = tuple(node for node in self.every if node not in set(drawn))
            said = ranges(rest)
            said = said if len(said) <= 22 else f"{said[:21]}…"
            self.drawing.write(MARGIN, f"and {len(rest)} more nodes like these: {said}", kind="dim")

    def _drawn(self) -> list[int]:
        """All nodes while they are few; else as many of each stage."""
        if len(self.every) <= MOST_NODES:
            return list(self.every)
        stages: dict[int, list[int]] = defaultdict(list)
        for node, ranks in self.every.items():
            stages[position_of(ranks[0], self.plan.degrees).pp].append(node)
        each = max(1, MOST_NODES // len(stages))
        return sorted(node for nodes in stages.values() for node in nodes[:each])[:MOST_NODES]

    def _around(self, ranks: list[int]) -> tuple[int, int] | None:
        """The smallest domain that is larger than a node, by level and index; None where none is known."""
        for level, domain in enumerate(self.domains):
            if domain.devices > self.size:
                return level, self.places[ranks[0]].domains[level]
        return None

    def _domain(self, key: tuple[int, int] | None, nodes: list[int]) -> None:
        drawing = self.drawing
        top = drawing.y
        if key is not None:
            domain = self.domains[key[0]]
            drawing.y += 6
            named = domain.name if len(domain.name) <= 34 else f"{domain.name[:33]}…"
            drawing.write(MARGIN + 10, f"{named} {key[1]} ({domain.devices} devices)", kind="dim")
        drawing.y += 4
        for first in range(0, len(nodes), self.a_row):
            row = nodes[first : first + self.a_row]
            heights = [self._node(node, self.every[node], index) for index, node in enumerate(row)]
            drawing.y += max(heights) + 12
        if key is not None:
            drawing.box(Box(MARGIN, top, WIDTH - 2 * MARGIN, drawing.y - top), "domain", radius=10)
            drawing.y += 12

    def _node(self, node: int, ranks: list[int], index: int) -> float:
        drawing = self.drawing
        x, y = MARGIN + 12 + index * (self.wide + 16), drawing.y
        inner = [domain for domain in self.domains if 1 < domain.devices < self.size]
        rows = -(-len(ranks) // self.columns)
        height = 30 + rows * (self.cell + 6) + 8
        drawing.box(Box(x, y, self.wide, height), "box", radius=8)
        drawing.label(x + 8, y + 21, f"node {node}")
        for place, rank in enumerate(ranks):
            self._rank(rank, x + 8 + place % self.columns * self.cell, y + 30 + place // self.columns * (self.cell + 6))
        self._outlines(ranks, x + 8, y + 30, self.plan.degrees.tp, "group", 1.0)
        for domain in inner[:1]:
            self._outlines(ranks, x + 8, y + 30, domain.devices, "pair", 4.0)
        return height

    def _rank(self, rank: int, x: float, y: float) -> None:
        at = position_of(rank, self.plan.degrees)
        said = f"rank {rank}: tp {at.tp}, stage {at.pp}, replica {at.dp}" + (
            f", expert rank {at.ep}" if self.plan.degrees.ep > 1 else ""
        )
        self.drawing.box(Box(x + 2, y + 2, self.cell - 4, self.cell - 4), "", fill=f"--s{at.pp % 8}", radius=4, said=said)
        size = max(10, round(min(SMALL - 2, self.cell * 0.5 if rank < 100 else self.cell * 0.42)))
        self.drawing.label(x + self.cell / 2, y + self.cell / 2 + size * 0.36, str(rank), size=size, anchor="middle")

    def _outlines(self, ranks: list[int], x: float, y: float, together: int, kind: str, inset: float) -> None:
        """A frame around each run of so many ranks in a row of cells."""
        if together <= 1:
            return
        runs: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, rank in enumerate(ranks):
            key = rank // together if kind == "group" else index // together
            runs[key, index // self.columns].append(index % self.columns)
        for (_, row), cells in runs.items():
            self.drawing.box(Box(x + cells[0] * self.cell + inset, y + row * (self.cell + 6) + inset,
                                  len(cells) * self.cell - 2 * inset, self.cell - 2 * inset), kind, radius=5)  # fmt: skip
