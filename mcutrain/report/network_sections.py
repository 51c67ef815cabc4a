"""The report on the network: what of it is trained, and what training each part contributes."""

from __future__ import annotations

from mcutrain.report.charts import (
    GAIN,
    LOSS,
    PALE,
    Bar,
    Chart,
    Line,
    Mark,
    Ruler,
    names,
    numbers,
)
from mcutrain.report.content import NetworkNode
from mcutrain.report.figures import (
    Figure,
    Key,
    NumberTable,
    Section,
    count,
    lines,
    percent,
    plain,
    points,
    short,
)
from mcutrain.report.learning import Analysis, GainTable

SHARE_OF_ACCURACY = ("accuracy", "probability")
"""Measures whose gains are differences of shares, shown in points."""


def network(nodes: tuple[NetworkNode, ...]) -> Section:
    """Return what is trained, layer by layer."""
    layers = [n for n in nodes if n.layer is not None]
    weights, biases = sum(n.share > 0 for n in layers), sum(n.trains_bias for n in layers)
    macs = sum(n.macs for n in nodes)
    return Section(
        "network",
        "The network and what is trained",
        f"{len(layers)} layers with weights, {count(macs)} multiplications per sample. Trained are "
        f"weights of {weights} of them and the biases of {biases}; the rest stays as it was.",
        (_trained(layers),) if layers else (),
        (_nodes(nodes),),
    )


def _trained(layers: list[NetworkNode]) -> Figure:
    shares, biases = [], []
    for i, n in enumerate(layers):
        says = lines(
            (
                n.name,
                f"{plain(n.operator)} → {'×'.join(map(str, n.output))}",
                f"{count(n.macs)} MACs, {count(n.weights)} weights",
                f"weights trained: {percent(n.share, 0)}, bias "
                + ("trained" if n.trains_bias else "frozen"),
            )
        )
        # as high as the plot, so that a layer without trained weights says something too
        shares.append(Bar((i - 0.5, i + 0.5), (0, 106), "c0", says, 0.0))
        shares.append(Bar((i - 0.4, i + 0.4), (0, 100 * n.share), "c0", says))
        ink, shape = ("c1", "disc") if n.trains_bias else (PALE, "ring")
        biases.append(Mark(i, -8, ink, says, shape))
    labels = ["head" if n.is_head else str(n.layer) for n in layers]
    shown = tuple((float(y), str(y)) for y in (0, 25, 50, 75, 100))
    return Figure(
        "chart-network",
        "One bar per layer, from the input on the left to the head on the right. Layers are "
        "numbered as update schemes count them.",
        Chart(
            names("layer", labels),
            Ruler("trained, %", -16, 106, shown),
            (*shares, *biases),
            220,
        ),
        (
            Key("share of input channels whose weights are trained", "c0"),
            Key("bias trained", "c1", "disc"),
            Key("bias frozen", PALE, "ring"),
        ),
        is_wide=True,
    )


def _nodes(nodes: tuple[NetworkNode, ...]) -> NumberTable:
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
    return NumberTable(f"All {len(nodes)} nodes", columns, rows, 4)


def analysis(measured: Analysis) -> Section:
    """Bias curve and heat map by the first measure; every measure in the table."""
    measure, gain = next(iter(measured.gains.items()), ("", GainTable((), {})))
    return Section(
        "contributions",
        "What training each part contributes",
        f"Found by {measured.method}, measured as {measure}"
        + (" in points (100 points are all test samples)" if measure in SHARE_OF_ACCURACY else "")
        + ". More is better; a choice of parts is expected to add up.",
        (_bias_curve(measure, gain, measured.layers), *_heat(measure, gain, measured.layers))
        if gain.bias
        else (),
        tuple(_gains(name, table, measured.layers) for name, table in measured.gains.items()),
    )


def _scaled(measure: str, gain: float) -> float:
    return 100 * gain if measure in SHARE_OF_ACCURACY else gain


def _unit(measure: str) -> str:
    return f"gain in {measure}" + (", points" if measure in SHARE_OF_ACCURACY else "")


def _bias_curve(measure: str, gain: GainTable, layers: tuple[str, ...]) -> Figure:
    first = ["only the head", *(f"from {short(n, 40)} on" for n in reversed(layers))]
    places = tuple((float(k), _scaled(measure, g)) for k, g in enumerate(gain.bias))
    marks = [
        Mark(k, y, "c1", f"last {k:g} biases, {what}\n{y:.4g}")
        for (k, y), what in zip(places, first, strict=True)
    ]
    return Figure(
        "chart-bias",
        "What is gained by training the last k biases beside the head, for every k. Where the "
        "curve is flat, more biases only cost memory.",
        Chart(
            numbers("biases trained, counted from the end", range(len(places)), is_count=True),
            numbers(plain(_unit(measure)), [y for _, y in places]),
            (Line(places, "c1", 2), *marks),
            240,
        ),
    )


def _heat(measure: str, gain: GainTable, layers: tuple[str, ...]) -> tuple[Figure, ...]:
    shares = sorted({share for w in gain.weights.values() for share in w}, key=float)
    if not shares:
        return ()
    numbered = sorted(gain.weights, key=int)
    found = [
        (x, y, _scaled(measure, gain.weights[i][share]))
        for y, share in enumerate(shares)
        for x, i in enumerate(numbered)
        if share in gain.weights[i]
    ]
    best, worst = max(v for _, _, v in found), min(v for _, _, v in found)
    most = max(best, -worst, 0.0) or 1.0
    cells = [
        Bar(
            (x - 0.5, x + 0.5),
            (y - 0.5, y + 0.5),
            GAIN if value >= 0 else LOSS,
            f"layer {numbered[x]}, {short(layers[int(numbered[x])], 40)}\n"
            f"{100 * float(shares[y]):.3g} % of its weights: {value:+.4g}",
            0.04 + 0.96 * min(abs(value / most), 1.0),
        )
        for x, y, value in found
    ]
    rows = [f"{100 * float(share):.3g} %" for share in shares]
    unit = " points" if measure in SHARE_OF_ACCURACY else ""
    return (
        Figure(
            "chart-weights",
            "What training a share of one layer's weights adds to training the biases from that "
            "layer on: the stronger the colour, the more.",
            Chart(
                names("layer", numbered),
                names("share of weights", rows, 20),
                tuple(cells),
                min(240, 30 + 40 * len(shares)),
            ),
            (
                *([Key(f"gains, up to {best:+.4g}{unit}", GAIN)] if best > 0 else []),
                *([Key(f"loses, up to {worst:+.4g}{unit}", LOSS)] if worst < 0 else []),
            ),
        ),
    )


def _gains(measure: str, gain: GainTable, layers: tuple[str, ...]) -> NumberTable:
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
    return NumberTable(
        _unit(measure).capitalize(),
        (*columns, *(f"{100 * float(s):.3g} % of its weights" for s in shares)),
        rows,
        2,
    )
