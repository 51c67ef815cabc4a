"""What a round costs a fleet of 10^3 to 10^6 boards: bytes, seconds, the server's memory, flash.

    python benchmarks/fleet_cost.py

Constants are measured on this computer with the demo's network under `fashion-sparse`: the bytes
of a gateway's sum, the seconds to pack, read and add one, what a board's name costs a server. The
table is computed from them, and measured beside it up to --measured boards. Gateways have
--gateway boards each. A board's line is a UART of 115,200 baud: its base, samples and state.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mcutrain import demo
from mcutrain.fleets import Contribution, FleetLayout
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import load_target

BAUD_BYTES = 115_200 / 10
FRAMES = 170_601 / 146_600
"""Bytes on a board's line for each of base, samples and state: docs/fleets.md, "What travels"."""
SAMPLES = 120
SAVES = 2
"""Of a board in a round: the base, and what it learnt."""


@dataclass(frozen=True)
class Constants:
    """state_bytes, samples_bytes: of a board. sum_bytes: of a gateway without names; name_bytes: of
    a board's name in it. pack, read, add: seconds for a sum; name: for a board that is known when
    a sum is added. kept: bytes of a server for a sum; kept_name: for a board.
    """

    state_bytes: int
    samples_bytes: int
    sum_bytes: float
    name_bytes: float
    pack: float
    read: float
    add: float
    name: float
    kept: float
    kept_name: float


def named(one: Contribution, first: int, count: int) -> Contribution:
    """The same numbers, of other boards."""
    return replace(one, boards=tuple(f"board-{i:07}" for i in range(first, first + count)))


def sum_of_boards() -> tuple[Contribution, int]:
    """What ten boards learnt, and the bytes of a state."""
    step = demo.training_step(demo.network(), "fashion-sparse")
    layout, simulator = FleetLayout(step), step.simulator(1)
    split = demo.deployed(demo.upright(demo.Size(train=1200, test=10)))
    samples = prepare_samples(split, RunSettings(), model_input(demo.network()))
    base = layout.saved(simulator.save(), "the base")
    total: Contribution | None = None
    for board in range(10):
        index = np.arange(SAMPLES * board, SAMPLES * (board + 1))
        simulator.load(base.raw)
        rates = [LearningRate.of(0.02)] * SAMPLES
        simulator.train(samples.train(index, 0, 0), split.train.y[index], rates)
        state = layout.saved(simulator.save(), "a state")
        one = Contribution.of(layout, base, state, f"{board}", SAMPLES)
        total = one if total is None else total + one
    assert total is not None
    return total, len(base.raw)


def served(one: Contribution, gateways: int, each: int) -> tuple[float, int]:
    """Seconds to read and add sums of gateways, and the most bytes that they took."""
    files = [named(one, i * each, each).to_bytes() for i in range(gateways)]
    started = time.process_time()
    total = None
    for raw in files:
        part = Contribution.parse(raw, "a sum")
        total = part if total is None else total + part
    seconds = time.process_time() - started
    tracemalloc.start()
    total = Contribution.parse(files[0], "a sum")
    for raw in files[1:]:
        total = total + Contribution.parse(raw, "a sum")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, most


def timed(what: Any, times: int = 20) -> float:
    """The seconds of the fastest of several calls."""
    found = []
    for _ in range(times):
        started = time.process_time()
        what()
        found.append(time.process_time() - started)
    return min(found)


def measured() -> tuple[Contribution, Constants]:
    """All constants."""
    ten, state_bytes = sum_of_boards()
    large, small = named(ten, 0, 10_000), named(ten, 10_000, 10)
    raw, other = small.to_bytes(), named(ten, 20_000, 10)
    names = (timed(lambda: large + small, 5) - timed(lambda: small + other)) / 10_000
    kept = [served(ten, 2, each)[1] for each in (10, 10_010)]
    kept_name = (kept[1] - kept[0]) / 20_000
    many = len(named(ten, 0, 1_010).to_bytes())
    name_bytes = (many - len(raw)) / 1_000
    size = 28 * 28
    return (
        ten,
        Constants(
            state_bytes,
            SAMPLES * size,
            len(raw) - 10 * name_bytes,
            name_bytes,
            timed(small.to_bytes, 3),
            timed(lambda: Contribution.parse(raw, "a sum")),
            timed(lambda: small + other),
            names,
            kept[0] - 20 * kept_name,
            kept_name,
        ),
    )


def main() -> None:
    """Print constants and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gateway", type=int, default=100, help="boards of each")
    parser.add_argument("--measured", type=int, default=10_000, help="boards")
    parser.add_argument("--board", default="nucleo-f446re")
    asked = parser.parse_args()
    ten, one = measured()
    line = FRAMES * (2 * one.state_bytes + one.samples_bytes)
    print(
        f"state {one.state_bytes:,} bytes; a sum {one.sum_bytes:,.0f} bytes and "
        f"{one.name_bytes:.1f} for each name; packed in {one.pack:.3f} s, read in {one.read:.4f}, "
        f"added in {one.add:.5f} and {1e9 * one.name:.0f} ns for each name; kept "
        f"{one.kept:,.0f} bytes and {one.kept_name:.0f} for each name"
    )
    target = load_target(asked.board)
    saves, erasures = target.saves(one.state_bytes), target.erasures
    if saves is None or erasures is None:
        raise SystemExit(f"{asked.board} has no slots that wear")
    print(
        f"a board's line {line:,.0f} bytes, {line / BAUD_BYTES:.0f} s; {SAVES} saves of "
        f"{saves:,} that {asked.board} outlives: {saves // SAVES:,} rounds, "
        f"{SAVES * erasures / saves:.3g} erasures of a slot in each"
    )
    print("boards  gateways  to gateways  s of one  to server  s of server  its bytes  measured")
    for boards in (10**3, 10**4, 10**5, 10**6):
        gateways = boards // asked.gateway
        sent = gateways * one.sum_bytes + boards * one.name_bytes
        seconds = gateways * (one.read + one.add) + one.name * boards * gateways / 2
        kept = one.kept + boards * one.kept_name
        told = ""
        if boards <= asked.measured:
            found, most = served(ten, gateways, asked.gateway)
            told = f"{found:.2f} s, {most:,} bytes"
        print(
            f"{boards:9,} {gateways:7,} {boards * line:15,.0f} "
            f"{asked.gateway * line / BAUD_BYTES:8,.0f} {sent:15,.0f} {seconds:10.2f} "
            f"{kept:13,.0f}  {told}",
            flush=True,
        )


if __name__ == "__main__":
    main()
