"""What share of a step's instructions an elastic step executes, against the share it was to take.

    .venv/bin/python benchmarks/elastic_time.py
    .venv/bin/python benchmarks/elastic_time.py --wall

For each share tensors are chosen as a board does, by importances drawn at random, three times; a
board's ELF file then trains a step with each choice on the virtual board, which counts. Full steps
and forward passes are counted the same way. The mean step of a period, with the twentieths that
train everything, follows from these. Without --model the demo's network, whose last 18 layers are
trained. --count takes the times from `mcutrain profile --count`, in the place of the model. --wall
measures this computer in the boards' place: times as `mcutrain profile --here` finds them, steps in
the C that `simulate` runs, with the front, full ones and ones with a choice in turn; the fastest of
ROUNDS rounds of each counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.protocol import Rate, Selecting
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table

from mcutrain import demo, prepare
from mcutrain.codegen import Interface
from mcutrain.cost.counting import count_instructions
from mcutrain.cost.elastic import elastic_times, estimated_times
from mcutrain.cost.profile import NANOSECONDS
from mcutrain.cost.timing import time_here
from mcutrain.features.elastic.selector import Periods
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse.elastic import ElasticTimes, choose
from mcutrain.target import load_target

BOARDS = ("stm32f746g-disco", "mps2-an386", "rpi-pico")
SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DRAWS = 3
EVERY = 1000
RATE = Rate(1 << 30, -4)
SETTLING_STEPS = 2
ROUNDS, ROUND_STEPS = 400, 2


def main() -> None:
    """Print a table, a row for each share and board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="last:18")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--boards", nargs="+", default=BOARDS)
    parser.add_argument("--optimize", default="-O3")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--choice", action="store_true", help="what a choice itself takes, too")
    parser.add_argument("--wall", action="store_true", help="on this computer's clock")
    options = parser.parse_args()
    step = prepare(load(options.model), options.scheme, classes=options.classes, elastic=True)
    table = Table("board", "share ρ", "tensors", "by the model", "executed", "off by")
    if options.wall:
        for row in on_the_clock(step):
            table.add_row(*row)
        Console().print(table)
        return
    for board in options.boards:
        for row in measured(step, board, options.optimize, options.count):
            table.add_row(*row)
    Console().print(table)
    if options.choice:
        for board in options.boards:
            print(f"{board}: {choice(step, board, options.optimize):,} instructions of a choice")


def measured(
    step: TrainingStep, board: str, optimize: str, count_nodes: bool
) -> list[tuple[str, ...]]:
    """Rows of the table."""
    # the flash of the smaller boards has no room for slots beside all that this trains
    target = load_target(board).without_slots()
    times = estimated_times(step.plan, target.isa)
    if count_nodes:
        times = elastic_times(step.plan.training, count_instructions(step, target))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(target).write(folder)
        build(folder, None, optimize)
        device = Device(DirectLink(load_machine(folder, LoopbackLink())))
    x = np.random.default_rng(0).integers(-128, 128, device.identify().input_bytes, np.int8)
    count = len(step.plan.training.elastic)
    reference = step.reference(1)

    def executed(tensors: tuple[int, ...]) -> int:
        """Instructions of a step, with gradients whose exponents have settled."""
        device.reset(1)
        for position in range(SETTLING_STEPS):
            device.send_sample(x.tobytes())
            device.train(0, position, RATE)
        reference.load(device.read_state())
        reference.select(tensors)
        device.write_state(reference.save())
        device.send_sample(x.tobytes())
        return device.train(0, SETTLING_STEPS, RATE).cycles

    full = executed(tuple(range(count)))
    return rows_of(step, times, board, lambda chosen: executed(chosen) / full)


def on_the_clock(step: TrainingStep) -> list[tuple[str, ...]]:
    """Rows of the table for this computer."""
    times = elastic_times(step.plan.training, time_here(step), NANOSECONDS)
    simulator, random = step.simulator(1), np.random.default_rng(0)
    shape = (ROUND_STEPS, *step.input_type.shape[1:])
    x = random.integers(-128, 128, shape).astype(np.int8)
    labels = np.arange(ROUND_STEPS) % step.plan.training.classes
    rates = [LearningRate(RATE.mult_q31, RATE.shift)] * ROUND_STEPS
    everything = tuple(range(len(step.plan.training.elastic)))

    def seconds(chosen: tuple[int, ...]) -> float:
        simulator.select(chosen)
        begin = time.perf_counter()
        simulator.train(x, labels, rates)
        return time.perf_counter() - begin

    def share(chosen: tuple[int, ...]) -> float:
        pairs = [(seconds(chosen), seconds(everything)) for _ in range(ROUNDS)]
        part, full = np.min(pairs, axis=0)
        return part / full

    share(everything)
    return rows_of(step, times, "this computer", share)


def rows_of(
    step: TrainingStep, times: ElasticTimes, board: str, measure: Callable[[tuple[int, ...]], float]
) -> list[tuple[str, ...]]:
    """A row for each share. measure: of a step with a choice, the share of a full one's time."""
    count, whole = len(step.plan.training.elastic), times.forward + times.problem.backward_time
    rows = []
    for share in SHARES:
        periods = Periods(round(share * 65536), EVERY)
        found = []
        for draw in range(DRAWS):
            importance = np.random.default_rng(draw).integers(1, 1 << 20, count).tolist()
            budget = periods.budget(times.forward, times.problem.backward_time)
            if budget < times.problem.least_time:
                break
            chosen = choose(times.problem, importance, budget)
            model = times.forward + taken(times.problem, chosen)
            found.append((len(chosen), _mean(periods, model / whole), measure(chosen)))
        if not found:
            rows.append((board, f"{share}", "0", "less than the last layer needs", "", ""))
            continue
        means = np.mean(found, axis=0)
        total = _mean(periods, means[2])
        rows.append(
            (
                board,
                f"{share}",
                f"{means[0]:.0f} of {count}",
                f"{means[1]:.3f}",
                f"{total:.3f}",
                f"{100 * (total / share - 1):+.1f} %",
            )
        )
    return rows


def choice(step: TrainingStep, board: str, optimize: str) -> int:
    """Instructions of SELECT where it chooses: the importances, and the tensors."""
    target = load_target(board)
    names = Interface(elastic=estimated_times(step.plan, target.isa))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(target, names).write(folder)
        build(folder, None, optimize)
        machine = load_machine(folder, LoopbackLink())
        device = Device(DirectLink(machine))
    x = np.random.default_rng(0).integers(-128, 128, device.identify().input_bytes, np.int8)
    selecting = Selecting(round(0.7 * 65536), 60, 3)
    for position in range(device.reset(1), 2 * selecting.look):
        if selecting.is_due(position):
            device.select(selecting)
        device.send_sample(x.tobytes())
        device.train(0, position, RATE)
    before = machine.instructions
    device.select(selecting)
    return machine.instructions - before


def _mean(periods: Periods, share: float) -> float:
    """Mean cost of a period's steps, if steps with a selection cost this share."""
    looks = 2 * periods.look / periods.every
    return looks + (1 - looks) * share


def taken(problem, chosen: tuple[int, ...]) -> int:
    """Time of a backward pass for these tensors."""
    reach = min(r.time for r in problem.reaches if set(chosen) <= set(r.tensors))
    return reach + sum(problem.update_times[k] for k in chosen)


if __name__ == "__main__":
    main()
