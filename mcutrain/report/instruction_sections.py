"""The report on work: instructions of a training step by node and by kind."""

from __future__ import annotations

from mcutrain.report.content import Executed, Instructions
from mcutrain.report.figures import (
    COLOURS,
    INK,
    Figure,
    Key,
    Section,
    Table,
    axis,
    count,
    figure,
    plain,
    short,
)

TOP_NODES = 15


def instructions(found: Instructions) -> Section:
    """Top nodes, and totals by kind."""
    nodes = sorted(found.nodes, key=lambda n: (-n.count, n.name))
    kinds: dict[str, int] = {}
    for node in nodes:
        kinds[kind_of(node.operator)] = kinds.get(kind_of(node.operator), 0) + node.count
    totals = sorted(kinds.items(), key=lambda k: (-k[1], k[0]))
    measured = (
        "" if found.measured is None else f"; {count(found.measured)} were counted on the board"
    )
    return Section(
        "instructions",
        "Instructions of one training step",
        f"{count(found.total)} estimated for the {found.isa} kernels{measured}. At one instruction "
        f"per clock, a chip at 100 MHz takes {found.total / 100e3:,.0f} ms.",
        (_kinds(totals, found.total), _top(nodes[:TOP_NODES])) if nodes else (),
        (
            Table("By kind", ("kind", "instructions"), tuple((k, count(n)) for k, n in totals)),
            Table(
                f"All {len(nodes)} nodes",
                ("node", "operator", "instructions"),
                tuple((n.name, n.operator, count(n.count)) for n in nodes),
                2,
            ),
        ),
    )


def kind_of(operator: str) -> str:
    """What an operator of a training step is for, by its class's name."""
    if operator.endswith("GradInput") or operator == "GradientSum":
        return "gradients going back"
    if operator.endswith("GradWeight") or operator in ("BiasGradient", "ApplyUpdate"):
        return "updates of weights and biases"
    if operator in ("MergeColumns", "SelectChannels"):
        return "copies for partly trained layers"
    return "forward and loss"


def _kinds(totals: list[tuple[str, int]], total: int) -> Figure:
    return figure(
        "chart-kinds",
        "Where the instructions of a step go.",
        [
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "y": [""],
                "x": [number],
                "marker": {"color": COLOURS[i], "line": {"color": "#ffffff", "width": 1}},
                "hovertemplate": f"{kind}<br>%{{x:,}}, {100 * number / max(total, 1):.1f} %"
                "<extra></extra>",
            }
            for i, (kind, number) in enumerate(totals)
        ],
        130,
        [Key(kind, COLOURS[i]) for i, (kind, _) in enumerate(totals)],
        barmode="stack",
        bargap=0.1,
        xaxis=axis("instructions", tickformat="~s", nticks=8),
        yaxis=axis(showticklabels=False, showgrid=False),
    )


def _top(nodes: list[Executed]) -> Figure:
    nodes = nodes[::-1]
    return figure(
        "chart-nodes",
        f"The {len(nodes)} nodes that take most.",
        [
            {
                "type": "bar",
                "orientation": "h",
                "y": list(range(len(nodes))),
                "x": [n.count for n in nodes],
                "customdata": [[short(n.name, 60), plain(n.operator)] for n in nodes],
                "marker": {"color": COLOURS[0]},
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{x:,}"
                "<extra></extra>",
            }
        ],
        60 + 22 * len(nodes),
        xaxis=axis("instructions", tickformat="~s", nticks=5),
        yaxis=axis(
            tickvals=list(range(len(nodes))),
            ticktext=[short(n.name, 28) for n in nodes],
            showgrid=False,
            zeroline=False,
            tickfont={"size": 11, "color": INK},
        ),
    )
