"""The report on work: instructions of a training step by node and by kind."""

from __future__ import annotations

from mcutrain.report.charts import INKS, Bar, Chart, Ruler, names, numbers, si
from mcutrain.report.content import Executed, Instructions
from mcutrain.report.figures import Figure, Key, NumberTable, Section, count, lines, plain, short
from mcutrain.report.memory_sections import stacked

TOP_NODES = 15


def instructions(counted: Instructions) -> Section:
    """Top nodes, and totals by kind."""
    nodes = sorted(counted.nodes, key=lambda n: (-n.count, n.name))
    kinds: dict[str, int] = {}
    for node in nodes:
        kinds[kind_of(node.operator)] = kinds.get(kind_of(node.operator), 0) + node.count
    totals = sorted(kinds.items(), key=lambda k: (-k[1], k[0]))
    measured = (
        "" if counted.measured is None else f"; {count(counted.measured)} were counted on the board"
    )
    return Section(
        "instructions",
        "Instructions of one training step",
        f"{count(counted.total)} estimated for the {counted.isa} kernels{measured}. "
        f"{counted.time}".rstrip(),
        (_kinds(totals, counted.total), _top(nodes[:TOP_NODES])) if nodes else (),
        (
            NumberTable(
                "By kind", ("kind", "instructions"), tuple((k, count(n)) for k, n in totals)
            ),
            NumberTable(
                f"All {len(nodes)} nodes",
                ("node", "operator", "instructions"),
                tuple((n.name, n.operator, count(n.count)) for n in nodes),
                2,
            ),
        ),
    )


def kind_of(operator: str) -> str:
    """Return what an operator of a training step is for, by its class's name."""
    if operator.endswith("GradInput") or operator == "GradientSum":
        return "gradients going back"
    if operator.endswith("GradWeight") or operator in ("BiasGradient", "ApplyUpdate"):
        return "updates of weights and biases"
    if operator in ("MergeColumns", "AddDifference", "SelectChannels"):
        return "copies for partly trained layers"
    return "forward and loss"


def _kinds(totals: list[tuple[str, int]], total: int) -> Figure:
    named = [(f"{kind}, {100 * number / max(total, 1):.1f} %", number) for kind, number in totals]
    return Figure(
        "chart-kinds",
        "Where the instructions of a step go.",
        Chart(
            numbers("instructions", (0, max(total, 1)), text=si, is_count=True),
            Ruler("", 0, 1),
            tuple(stacked(named, "instructions")),
            72,
        ),
        tuple(Key(name, INKS[i]) for i, (name, _) in enumerate(named)),
    )


def _top(nodes: list[Executed]) -> Figure:
    nodes = nodes[::-1]
    bars = [
        Bar(
            (0, n.count),
            (i - 0.4, i + 0.4),
            "c0",
            lines((n.name, plain(n.operator), f"{count(n.count)} instructions")),
        )
        for i, n in enumerate(nodes)
    ]
    return Figure(
        "chart-nodes",
        f"The {len(nodes)} nodes that take most.",
        Chart(
            numbers("instructions", (0, *(n.count for n in nodes)), text=si, most=5),
            names("", [short(n.name) for n in nodes], len(nodes)),
            tuple(bars),
            20 * len(nodes),
        ),
    )
