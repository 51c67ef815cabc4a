"""The report on the network: what of it is trained, and what training each part contributes."""

from __future__ import annotations

from mcutrain.report.content import NetworkNode
from mcutrain.report.figures import (
    COLOURS,
    DIVERGING,
    PALE,
    Figure,
    Key,
    Section,
    Table,
    axis,
    count,
    figure,
    percent,
    plain,
    points,
    short,
    some_ticks,
)
from mcutrain.report.learning import Analysis, GainTable

SHARE_OF_ACCURACY = ("accuracy", "probability")
"""Measures whose gains are differences of shares, shown in points."""


def network(nodes: tuple[NetworkNode, ...]) -> Section:
    """What is trained, layer by layer."""
    layers = [n for n in nodes if n.layer is not None]
    weights, biases = sum(n.share > 0 for n in layers), sum(n.trains_bias for n in layers)
    macs = sum(n.macs for n in nodes)
    return Section(
        "network",
        "The network and what is trained",
        f"{len(layers)} layers with weights, {count(macs)} multiplications per image. Trained are "
        f"weights of {weights} of them and the biases of {biases}; the rest stays as it was.",
        (_trained(layers),) if layers else (),
        (_nodes(nodes),),
    )


def _trained(layers: list[NetworkNode]) -> Figure:
    names = ["head" if n.is_head else str(n.layer) for n in layers]
    facts = [
        [
            short(n.name, 60),
            plain(n.operator),
            "×".join(map(str, n.output)),
            count(n.macs),
            count(n.weights),
            percent(n.share, 0),
            "trained" if n.trains_bias else "frozen",
        ]
        for n in layers
    ]
    hover = (
        "<b>%{customdata[0]}</b><br>%{customdata[1]} → %{customdata[2]}<br>%{customdata[3]} MACs, "
        "%{customdata[4]} weights<br>weights trained: %{customdata[5]}, bias %{customdata[6]}"
        "<extra></extra>"
    )
    shares = {
        "type": "bar",
        "x": names,
        "y": [100 * n.share for n in layers],
        "customdata": facts,
        "hovertemplate": hover,
        "marker": {"color": COLOURS[0]},
    }
    biases = {
        "type": "scatter",
        "mode": "markers",
        "x": names,
        "y": [-7] * len(layers),
        "customdata": facts,
        "hovertemplate": hover,
        "marker": {
            "size": 8,
            "color": [COLOURS[1] if n.trains_bias else "#ffffff" for n in layers],
            "line": {"color": [COLOURS[1] if n.trains_bias else PALE for n in layers], "width": 1},
        },
    }
    return figure(
        "chart-network",
        "One bar per layer, from the input on the left to the head on the right. Layers are "
        "numbered as update schemes count them.",
        [shares, biases],
        280,
        [
            Key("share of input channels whose weights are trained", COLOURS[0]),
            Key("bias trained", COLOURS[1], "disc"),
            Key("bias frozen", PALE, "ring"),
        ],
        xaxis=axis(
            "layer", type="category", showgrid=False, tickangle=0, tickvals=some_ticks(names)
        ),
        yaxis=axis("trained, %", range=[-14, 106], tickvals=[0, 25, 50, 75, 100], zeroline=True),
    )


def _nodes(nodes: tuple[NetworkNode, ...]) -> Table:
    rows = tuple(
        (
            "head" if n.is_head else "" if n.layer is None else str(n.layer),
            n.name,
            n.operator,
            "×".join(map(str, n.output)),
            count(n.macs or None),
            count(n.weights or None),
            percent(n.share or None, 1),
            "yes" if n.trains_bias else "",
        )
        for n in nodes
    )
    columns = ("layer", "name", "operator", "output", "MACs", "weights", "trained", "bias")
    return Table(f"All {len(nodes)} nodes", columns, rows, 4)


def analysis(found: Analysis) -> Section:
    """Bias curve and heat map by the first measure; every measure in the table."""
    measure, gain = next(iter(found.gains.items()), ("", GainTable((), {})))
    return Section(
        "contributions",
        "What training each part contributes",
        f"Found by {found.method}, measured as {measure}"
        + (" in points (100 points are all test images)" if measure in SHARE_OF_ACCURACY else "")
        + ". More is better; a choice of parts is expected to add up.",
        (_bias_curve(measure, gain, found.layers), *_heat(measure, gain, found.layers))
        if gain.bias
        else (),
        tuple(_gains(name, table, found.layers) for name, table in found.gains.items()),
    )


def _scaled(measure: str, gain: float) -> float:
    return 100 * gain if measure in SHARE_OF_ACCURACY else gain


def _unit(measure: str) -> str:
    return f"gain in {measure}" + (", points" if measure in SHARE_OF_ACCURACY else "")


def _bias_curve(measure: str, gain: GainTable, layers: tuple[str, ...]) -> Figure:
    first = ["only the head", *(f"from {short(n, 40)} on" for n in reversed(layers))]
    return figure(
        "chart-bias",
        "What is gained by training the last k biases beside the head, for every k. Where the "
        "curve is flat, more biases only cost memory.",
        [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(range(len(gain.bias))),
                "y": [_scaled(measure, g) for g in gain.bias],
                "customdata": first,
                "marker": {"color": COLOURS[1], "size": 6},
                "line": {"color": COLOURS[1], "width": 2},
                "hovertemplate": "last %{x} biases, %{customdata}<br>%{y:.4~g}<extra></extra>",
            }
        ],
        300,
        xaxis=axis("biases trained, counted from the end", rangemode="tozero"),
        yaxis=axis(plain(_unit(measure))),
    )


def _heat(measure: str, gain: GainTable, layers: tuple[str, ...]) -> tuple[Figure, ...]:
    shares = sorted({share for w in gain.weights.values() for share in w}, key=float)
    if not shares:
        return ()
    numbers = sorted(gain.weights, key=int)
    values = [
        [
            None if share not in gain.weights[i] else _scaled(measure, gain.weights[i][share])
            for i in numbers
        ]
        for share in shares
    ]
    most = max((abs(v) for row in values for v in row if v is not None), default=0) or 1
    heat = {
        "type": "heatmap",
        "x": numbers,
        "y": [f"{100 * float(share):.3g} %" for share in shares],
        "z": values,
        "zmin": -most,
        "zmax": most,
        "xgap": 1,
        "ygap": 1,
        "colorscale": DIVERGING,
        "colorbar": {"thickness": 10, "len": 1, "outlinewidth": 0},
        "customdata": [[short(layers[int(i)], 40) for i in numbers] for _ in shares],
        "hovertemplate": "layer %{x}, <b>%{customdata}</b><br>%{y} of its weights: %{z:.4~g}"
        "<extra></extra>",
    }
    return (
        figure(
            "chart-weights",
            "What training a share of one layer's weights adds to training the biases from that "
            "layer on. Blue gains, red loses.",
            [heat],
            260,
            xaxis=axis(
                "layer", type="category", showgrid=False, tickangle=0, tickvals=some_ticks(numbers)
            ),
            yaxis=axis("share of weights", type="category", showgrid=False),
        ),
    )


def _gains(measure: str, gain: GainTable, layers: tuple[str, ...]) -> Table:
    def text(value: float | None) -> str:
        if value is None:
            return ""
        return points(value) if measure in SHARE_OF_ACCURACY else f"{value:.4g}"

    shares = sorted({share for w in gain.weights.values() for share in w}, key=float)
    n = len(layers)
    rows = tuple(
        (
            str(i),
            layers[i],
            text(gain.bias[n - i]),
            *(text(gain.weights.get(str(i), {}).get(share)) for share in shares),
        )
        for i in range(n)
    )
    columns = ("layer", "name", "biases from here on")
    return Table(
        _unit(measure).capitalize(),
        (*columns, *(f"{100 * float(s):.3g} % of its weights" for s in shares)),
        rows,
        2,
    )
