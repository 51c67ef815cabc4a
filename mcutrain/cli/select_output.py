"""What `mcutrain select` prints and writes."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import IN_PERCENT, percent, say, show_json, show_prose, show_table
from mcutrain.cli.training import placing
from mcutrain.functions.files import write_all
from mcutrain.report.learning import ACCURACY

if TYPE_CHECKING:
    from mcutrain.functions.choosing import Choice, LevelsBeside
    from mcutrain.functions.selecting import BudgetSweep, TrainedSelection
    from mcutrain.selection.cost import Limits
    from mcutrain.selection.result import Selection
    from mcutrain.target import Target

WITH_HEAD = (*IN_PERCENT, "loss")
"""Measures that have a value for the head alone; the others only rank."""


def write(found: Selection, facts: Mapping[str, Any], folder: Path) -> None:
    """scheme.toml and selection.json, both or none. facts: what else selection.json has."""
    values = {**facts, **found.to_dict()}
    text = json_format.dumps(values, indent=2, ensure_ascii=False) + "\n"
    write_all(folder, {"scheme.toml": found.scheme.to_toml(), "selection.json": text})


def write_report(choice: Choice, found: Selection, folder: Path) -> None:
    """report.html and report.json, of the step that was selected."""
    from mcutrain.pipeline import prepare
    from mcutrain.report.collect import collect, command_line
    from mcutrain.report.folder import with_selection
    from mcutrain.report.write import write as write_both

    with placing() as report:
        step = prepare(choice.graph, found.scheme, choice.options, report=report)
    content = replace(collect(step, choice.target), commands=(command_line(),))
    path = write_both(with_selection(content, found, choice.contributions), folder)
    say(f"The report is {path}")


def show_selection(
    selection: Selection, facts: Mapping[str, Any], target: Target | None, json: bool
) -> None:
    """The scheme, what it should gain, what it takes, and what stands in the way of more."""
    if json:
        show_json({**facts, **selection.to_dict()})
        return
    depth = selection.scheme.bias_depth
    show_prose(
        f"{facts['model']}, {facts['classes']} {facts['learns']}: train the head, "
        f"the last {depth} biases" + (", and weights of" if selection.layers else "")
    )
    if selection.layers:
        _show_layers(selection)
    if selection.modules:
        _show_modules(selection)
    if selection.published is not None:
        show_prose(
            f"published as {selection.published}, and the best of the finalists when trained, not "
            "by the analysis:"
        )
    show_prose(_gains(selection))
    _show_costs(selection, target)
    if selection.share is not None:
        show_prose(
            f"  {selection.share:>12g} {'':6}of its time in the mean, as `train --elastic` takes it"
        )
    if selection.binding:
        show_prose(f"  more is kept away by {selection.binding}")
    is_guess = selection.measure not in WITH_HEAD and "finalists" not in facts
    if is_guess and selection.binding.startswith("nothing"):
        show_prose(
            "  (gradients are a guess: --finalists 4 --data DIR trains the best by each measure)"
        )
    if selection.next is not None:
        more = _amount(selection.measure, selection.next.more_gain)
        by = f"with {selection.next.more_bytes:,} bytes more"
        show_prose(f"  {by}: +{more}, {', '.join(selection.next.changes)}")


def show_levels(found: LevelsBeside, limits: Limits) -> None:
    """Which levels of a proxy cascade fit, and what the program takes with them."""
    kept, left_out = found.levels.kept, found.levels.left_out
    texts = [", ".join(map(str, levels)) for levels in ((0, *kept), left_out)]
    took = [f"{found.measured.sram_bytes:,} bytes of SRAM"]
    if limits.flash_bytes is not None:
        took.append(f"{found.measured.flash_bytes:,} of flash")
    if not kept:
        show_prose("  no level of the cascade but the whole front fits beside the scheme")
        return
    others = f"; {texts[1]} do{'es' * (len(left_out) == 1)} not" if left_out else ""
    show_prose(f"  levels {texts[0]} of the cascade fit, with {' and '.join(took)}{others}")


def _show_layers(selection: Selection) -> None:
    from mcutrain.selection.result import share_text
    from mcutrain.sparse.scheme import USUAL_BIAS_BITS

    rows = [
        [
            layer.index,
            layer.name,
            share_text(layer.share),
            f"+{_amount(selection.measure, layer.gain)}",
            layer.state_bytes,
            layer.residual_bits,
        ]
        for layer in selection.layers
    ]
    columns = ("layer", "name", "share", "gain", "state bytes", "residual bits")
    shown = len(columns) - (not selection.scheme.layer_residual_bits)
    show_table(columns[:shown], [row[:shown] for row in rows], left=2, names=(1,))
    kept = selection.scheme.bias_bits
    biases = "" if kept == USUAL_BIAS_BITS else f" and {kept} of each bias"
    own = selection.scheme.layer_residual_bits
    bits = "residual bits" if own else f"{selection.scheme.residual_bits} residual bits"
    show_prose(f"with {bits}{biases}; the biases gain "
         f"{_amount(selection.measure, selection.bias_gain)}")  # fmt: skip


def _show_modules(found: Selection) -> None:
    rows = [
        [m.name, m.channels or None, f"+{_amount(found.measure, m.gain)}", m.state_bytes]
        for m in found.modules
    ]
    show_prose("and these modules; the model's others are left out:")
    show_table(("module", "channels", "gain", "state bytes"), rows, left=1, names=(0,))
    if found.measure not in WITH_HEAD:
        say(
            "mcutrain: note: modules overlap, so together they gain less than the sum; "
            "--finalists 4 trains this choice and the best one without modules"
        )


def _gains(selection: Selection) -> str:
    """Return what is expected, and the proof."""
    from mcutrain.selection.contribution import is_joint

    proof = "proved to be the largest possible by this analysis"
    if not selection.optimal:
        most = _amount(selection.measure, selection.bound)
        proof = f"not proved to be the largest, which is at most {most}"
    if not selection.is_bound:
        proof = "not proved to be the largest: sums over modules exceed the truth somewhere"
    if is_joint(selection.measure):
        if selection.optimal and selection.is_bound:
            proof += f" but for {selection.bound - selection.gain:.2g}"
        return (
            f"{selection.measure}: {selection.gain:.4g}, {proof}; a gain is what is lost without it"
        )
    if selection.measure not in WITH_HEAD:
        return f"sum of {selection.measure}: {selection.gain:.4g}, {proof}"
    return (
        f"contributions add up to {_amount(selection.measure, selection.gain)} of "
        f"{selection.measure} over the {_amount(selection.measure, selection.head)} of the head "
        f"alone (trained together they overlap); {proof}"
    )


def _show_costs(found: Selection, target: Target | None) -> None:
    from mcutrain.cost.time import time_of

    took = found.measured
    flash = "flash, linked" if took.was_built else "flash, estimated (rather more than it is)"
    rows = [("sram_bytes", "SRAM" if target is not None else "arena and state", "bytes")]
    if target is not None and not target.is_hosted:
        rows += [
            ("flash_bytes", flash, "bytes"),
            ("instructions", "instructions of a step, estimated", ""),
        ]
    for name, title, unit in rows:
        limit = getattr(found.limits, name)
        of = "" if limit is None else f" of {limit:,}, {found.free[name]:,} free"
        show_prose(f"  {getattr(took, name):>12,} {unit:6}{title}{of}")
    time = None if target is None else time_of(took.instructions, target)
    if time is not None:
        show_prose(f"  {time.ms:>12,.0f} ms    for a step{time.bounds}, by {time.rests_on}")


def _amount(measure: str, value: float) -> str:
    return percent(value) if measure in IN_PERCENT else f"{value:.4g}"


def show_points(sweep: BudgetSweep, json: bool) -> None:
    """A row for each budget."""
    if json:
        show_json(sweep.to_dict())
        return
    rows: list[list[object]] = []
    for point in sweep.points:
        selection = point.found
        if selection is None:
            rows.append([point.budget, None, None, None, None, "too small", None])
            continue
        rows.append(
            [
                point.budget,
                selection.measured.sram_bytes,
                f"+{_amount(selection.measure, selection.gain)}",
                None if point.trained is None else _reached(sweep.reached, point.trained),
                selection.scheme.bias_depth,
                len(selection.layers),
                "*" if point.is_pareto else "",
            ]
        )
    columns = (
        "budget",
        "SRAM",
        f"sum of {sweep.measure}",
        "trained" if sweep.reached == ACCURACY else f"trained, {sweep.reached}",
        "biases",
        "weights",
        "Pareto",
    )
    show_table(columns, rows, left=0)
    show_prose(
        "The sum adds up what each part gains alone. Trained together they overlap, so it "
        "only ranks schemes; --train says what they reach."
    )


def show_finalists(trained: TrainedSelection) -> None:
    """A row for each scheme that was trained, the best first."""
    rows = []
    for finalist in trained.finalists:
        selection = finalist.proposal.selection
        rows.append(
            [
                finalist.proposal.reading,
                _reached(trained.measure, finalist.accuracy),
                "" if finalist.learning_rate is None else f"{finalist.learning_rate:g}",
                selection.measured.sram_bytes,
                selection.scheme.bias_depth,
                len(selection.layers),
            ]
        )
    show_table(("best by", trained.measure, "lr", "SRAM", "biases", "weights"), rows)
    show_prose(
        f"trained on {trained.trained_samples:,} samples, {trained.measure} on "
        f"{trained.held_out_samples:,} other training samples; the first is selected"
    )


def _reached(measure: str, value: float) -> str:
    """Return what a trained scheme reached, as compare says it."""
    return percent(value) if measure == ACCURACY else f"{value:.4f}"
