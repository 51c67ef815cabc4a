"""Facts as rows of text: the same in a terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mcutrain_host.dataclass import dataclass
from mcutrain_host.live.facts import NO_CLASS, BoardFacts, CurvePoint, LiveFacts, TestedAt
from mcutrain_host.text import printable


@dataclass(frozen=True)
class FactRow:
    """A fact: what it is of, and its text."""

    name: str
    text: str


def rows(facts: LiveFacts) -> tuple[FactRow, ...]:
    """What is known, a row for each fact, the most important first; what is not known has none."""
    board = facts.board
    found = (*_run(facts), *_cost(facts), *_memory(board), *_rest(facts), *_line(facts))
    return tuple(FactRow(*pair) for pair in found if pair[1])


def title(facts: LiveFacts) -> str:
    """The board, or where it is while it has not said its name."""
    return facts.board.board or facts.source


def share(facts: LiveFacts) -> float | None:
    """Return how far the run is, from 0 to 1; None if nobody knows where it ends."""
    return min(facts.position / facts.total, 1.0) if facts.total else None


def curve_texts(points: Sequence[CurvePoint]) -> tuple[str, str, str]:
    """What stands below a loss curve: its begin, its numbers, its end. points: one at least."""
    first, last, losses = points[0], points[-1], [point.loss for point in points]
    says = (
        f"loss {first.loss:.4f} at first, {last.loss:.4f} at last; "
        f"{min(losses):.4f} to {max(losses):.4f}"
    )
    return f"step {first.position:,}", says, f"step {last.position:,}"


def class_text(steps: int, right: int) -> str:
    """Return what was counted of a class."""
    return f"{steps:,} steps, {right:,} right" if steps else "no step"


def summary(facts: LiveFacts) -> str:
    """One line, for a file or a pipe."""
    parts = [f"{facts.position:,} samples learnt"]
    if facts.total is not None:
        parts[0] = f"{facts.position:,} of {facts.total:,} samples learnt"
    if facts.loss is not None:
        parts.append(f"loss {facts.loss:.4f}")
    if facts.accuracy is not None:
        parts.append(f"accuracy {_percent(facts.accuracy)} of {facts.predicted:,}")
    if facts.prediction not in (None, NO_CLASS) and facts.accuracy is None:
        parts.append(f"prediction {facts.prediction}")
    if facts.board.saves:
        parts.append(f"save {facts.board.saves}")
    if facts.board.frames is not None:
        parts.append(f"{facts.board.frames:,} frames, {facts.board.frames_refused or 0:,} damaged")
    return ", ".join((*parts, *([facts.doubt] if facts.doubt else [])))


def _run(facts: LiveFacts) -> Iterator[tuple[str, str]]:
    board = facts.board
    yield "board", f"{board.board} at {facts.source}" if board.board else facts.source
    yield "model", f"{board.model}, scheme {board.scheme}" if board.model else ""
    yield "run", facts.state
    yield "not reached", facts.doubt
    of = f" of {facts.total:,}, {_percent(facts.position / facts.total)}" if facts.total else ""
    yield "samples learnt", f"{facts.position:,}{of}"
    if facts.loss is not None:
        yield "loss of the last step", f"{facts.loss:.4f}"
    if facts.mean_loss is not None:
        yield f"mean loss of {facts.window:,} steps", f"{facts.mean_loss:.4f}"
    if facts.accuracy is not None:
        text = f"{_percent(facts.accuracy)}: {facts.right:,} of {facts.predicted:,}"
        yield f"accuracy in {facts.window:,} steps", text
    yield from _tests(facts.tests)


def _tests(tests: Sequence[TestedAt]) -> Iterator[tuple[str, str]]:
    """Return what the first and the last test said, by each measure."""
    names = dict.fromkeys(name for test in tests for name in test.measures)
    for measure, (what, said) in MEASURED.items():
        for name in (name for name in names if name.rpartition(" ")[2] == measure):
            output = printable(name.removesuffix(measure))
            values = [(t.measures[name], t.position) for t in tests if name in t.measures]
            shown = values if len(values) < 3 else (values[0], values[-1])
            yield f"{what} {output}".strip(), ", ".join(f"{said(v)} at {at:,}" for v, at in shown)


def _cost(facts: LiveFacts) -> Iterator[tuple[str, str]]:
    board = facts.board
    if board.step_cycles is not None:
        yield "training step", _cycles(board.step_cycles, board.clock_hz)
    if facts.per_second is not None:
        yield "speed", f"{facts.per_second:,.1f} steps a second"


def _memory(board: BoardFacts) -> Iterator[tuple[str, str]]:
    """Stack, and what wears the flash."""
    if board.stack_used_bytes is not None:
        of = "" if board.stack_bytes is None else f" of {board.stack_bytes:,}"
        yield "stack used", f"{board.stack_used_bytes:,}{of} bytes"
    if board.has_slots is False:
        yield "newest save", "none: the board has no slots, and forgets without power"
    elif board.saves is not None:
        yield "newest save", str(board.saves or "none")
    if board.slots_erased is not None:
        yield "erasures of a slot", f"{board.slots_erased:,}"


def _rest(facts: LiveFacts) -> Iterator[tuple[str, str]]:
    board = facts.board
    if board.sram_bytes is not None:
        yield "SRAM", f"{board.sram_bytes:,} bytes"
    if board.infer_cycles is not None:
        yield "inference", _cycles(board.infer_cycles, board.clock_hz)
    if facts.prediction is not None:
        text = "none" if facts.prediction == NO_CLASS else str(facts.prediction)
        yield "last prediction", text
    if board.saturations is not None:
        yield "saturated gradients", f"{board.saturations:,}"
    if board.remember and board.offered is not None:
        held = min(board.offered, board.remember)
        text = f"{held:,} of {board.offered:,}, room for {board.remember:,}"
        yield "samples remembered", text


def _line(facts: LiveFacts) -> Iterator[tuple[str, str]]:
    board = facts.board
    if board.frames is not None:
        counts = (board.frames, board.frames_refused or 0, board.repeated or 0)
        yield "frames taken, damaged, repeated", ", ".join(f"{count:,}" for count in counts)
    if facts.restarts:
        yield "restarts of the board", f"{facts.restarts:,}"


def _cycles(cycles: int, clock_hz: int | None) -> str:
    if not cycles:
        return "none yet"
    return f"{cycles:,} cycles" + (f", {1e3 * cycles / clock_hz:,.2f} ms" if clock_hz else "")


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


MEASURED: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "accuracy": ("test accuracy", _percent),
    "f1": ("test F1", _percent),
    "iou": ("test IoU", _percent),
    "auc": ("test AUC", "{:.4f}".format),
    "mae": ("test MAE", "{:.4g}".format),
    "r2": ("test R²", "{:.3f}".format),
    "loss": ("test loss", "{:.4g}".format),
}
"""Measures of a test: what they are called, and how they are written."""
