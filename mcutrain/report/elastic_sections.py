"""The report on elastic training: what was trained when, and what nodes and tensors take."""

from __future__ import annotations

from mcutrain.report.charts import GAIN, INKS, PALE, Bar, Chart, names, numbers, si
from mcutrain.report.figures import (
    Figure,
    Key,
    NumberTable,
    Section,
    count,
    lines,
    percent,
    short,
)
from mcutrain.report.learning import ElasticChoices, NodeTime, Profile, TensorTime

ROW_PX, MOST_PX = 17, 1000
MOST_LABELS = 60
FAINTEST, LEFT_OUT = 0.35, 0.1
TOP_NODES = 15
UPDATE, BACKWARD, COUNTED, MODEL = INKS[0], INKS[4], INKS[0], PALE


def choices(found: ElasticChoices) -> Section:
    """A picture: tensors over time."""
    made, all_of_them = found.made, len(found.tensors)
    most = max((len(one.tensors) for one in made), default=0)
    least = min((len(one.tensors) for one in made), default=0)
    number = f"{most}" if least == most else f"{least} to {most}"
    return Section(
        "choices",
        "What was trained when",
        f"{len(made)} times {number} of {all_of_them} tensors were chosen, by what they had done "
        "for the loss in the steps before.",
        (_periods(found),),
        (
            NumberTable(
                "ElasticChoices",
                ("from sample", "tensors", "trained"),
                tuple(
                    (count(one.at + 1), count(len(one.tensors)), ", ".join(one.tensors))
                    for one in made
                ),
            ),
        ),
    )


def _periods(elastic: ElasticChoices) -> Figure:
    knows = any(one.importance for one in elastic.made)
    most = max((v for one in elastic.made for v in one.importance.values()), default=0) or 1.0
    cells = []
    for x, one in enumerate(elastic.made):
        chosen = set(one.tensors)
        for y, name in enumerate(elastic.tensors):
            value = one.importance.get(name)
            share = "" if value is None else f"{percent(value)} of what helped"
            is_in = name in chosen
            faint = 1.0 if value is None else FAINTEST + (1 - FAINTEST) * min(value / most, 1.0)
            cells.append(
                Bar(
                    (x - 0.46, x + 0.46),
                    (y - 0.42, y + 0.42),
                    GAIN if is_in else PALE,
                    lines((name, f"from sample {one.at + 1:,} on", _word(is_in), share)),
                    faint if is_in else LEFT_OUT,
                )
            )
    rows, height = [short(name) for name in elastic.tensors], ROW_PX * len(elastic.tensors)
    strong = ": the stronger the colour, the more it had helped" if knows else ""
    return Figure(
        "chart-choices",
        "Which tensors were trained from which sample on, the nearest to the loss at the bottom"
        f"{strong}. In the first steps of each period all are.",
        Chart(
            names("chosen at sample", [count(one.at + 1) for one in elastic.made], 12),
            names("", rows, MOST_LABELS),
            tuple(cells),
            min(max(height, 60), MOST_PX),
        ),
        (Key("trained", GAIN), Key("left out", PALE)),
        is_wide=True,
    )


def _word(is_trained: bool) -> str:
    return "trained" if is_trained else "left out"


def profile(timed: Profile) -> Section:
    """Return what tensors take, and where the instruction model is wrong."""
    whole = timed.forward + timed.backward + timed.update
    how = "as counted" if timed.is_counted else "by the instruction model"
    counted = [("counted" if timed.unit == "instructions" else timed.unit)] * timed.is_counted
    return Section(
        "profile",
        "What nodes and tensors take",
        f"{count(whole)} {timed.unit} a step{_where(timed)}, {how}: forward and loss "
        f"{percent(timed.forward / max(whole, 1))}, gradients "
        f"{percent(timed.backward / max(whole, 1))}, updates "
        f"{percent(timed.update / max(whole, 1))}.{_error(timed)}",
        (_tensors(timed), *([_model(timed)] if timed.is_counted else [])),
        (
            NumberTable(
                "Tensors",
                ("tensor", "its update", "the gradient up to it"),
                tuple((t.name, count(t.update), count(t.backward)) for t in timed.tensors),
            ),
            NumberTable(
                "Nodes",
                ("node", "kernel", "instructions, estimated", *counted),
                tuple(
                    (n.name, n.kernel, count(n.estimated), *([count(n.counted)] * len(counted)))
                    for n in timed.nodes
                ),
                2,
            ),
        ),
    )


def _where(found: Profile) -> str:
    return f" on {found.board}" if found.board else ""


def _error(found: Profile) -> str:
    if found.misplaced is None:
        return ""
    off = (
        "" if found.model_error is None else f" is off by {percent(found.model_error)} in all, and"
    )
    return (
        f" The instruction model{off} gives {percent(found.misplaced)} of it to other nodes than "
        "those that take it."
    )


def _tensors(timed: Profile) -> Figure:
    bars = []
    for y, tensor in enumerate(timed.tensors):
        says = _says(tensor, timed.unit)
        bars.append(Bar((0, tensor.update), (y, y + 0.4), UPDATE, says))
        bars.append(Bar((0, tensor.backward), (y - 0.4, y), BACKWARD, says))
    ends = [value for t in timed.tensors for value in (t.update, t.backward)]
    return Figure(
        "chart-tensors",
        "What each trained tensor takes, the nearest to the loss at the bottom: its update, and "
        "passing the gradient back as far as it needs.",
        Chart(
            numbers(timed.unit, (0, *ends), text=si, most=5),
            names("", [short(t.name) for t in timed.tensors], MOST_LABELS),
            tuple(bars),
            min(max(ROW_PX * len(timed.tensors), 60), MOST_PX),
        ),
        (Key("its update", UPDATE), Key("the gradient up to it", BACKWARD)),
    )


def _says(tensor: TensorTime, unit: str) -> str:
    return lines(
        (
            tensor.name,
            f"its update: {count(tensor.update)} {unit}",
            f"the gradient up to it: {count(tensor.backward)} {unit}",
        )
    )


def _model(found: Profile) -> Figure:
    estimated = sum(node.estimated for node in found.nodes)
    rate = sum(node.counted or 0 for node in found.nodes) / max(estimated, 1)
    most = sorted(found.nodes, key=lambda n: (-(n.counted or 0), n.name))[:TOP_NODES][::-1]
    bars = []
    for y, node in enumerate(most):
        says = _node_says(node, found.unit, rate)
        bars.append(Bar((0, node.counted or 0), (y, y + 0.4), COUNTED, says))
        bars.append(Bar((0, rate * node.estimated), (y - 0.4, y), MODEL, says))
    ends = [v for n in most for v in (n.counted or 0, rate * n.estimated)]
    return Figure(
        "chart-model",
        f"The {len(most)} nodes that take most, beside the instruction model's share of the whole.",
        Chart(
            numbers(found.unit, (0, *ends), text=si, most=5),
            names("", [short(n.name) for n in most], len(most)),
            tuple(bars),
            24 * len(most),
        ),
        (Key("counted", COUNTED), Key("by the model's shares", MODEL)),
    )


def _node_says(node: NodeTime, unit: str, rate: float) -> str:
    return lines(
        (
            node.name,
            node.kernel,
            f"{count(node.counted)} {unit}, by the model's shares {count(rate * node.estimated)}",
        )
    )
