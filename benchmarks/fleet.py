"""Rounds of a fleet of simulated boards: bytes, accuracy, the same SHA-256 in any order.

    python benchmarks/fleet.py --boards 100 --rounds 10 --killed 0.2

With --coding: how many bytes a board's difference would take on its line, and the new base's to
the one before, each with a Rice code whose parameter is the best of its row.

Boards are the generated C; each has images of two classes of the demo's data (non-IID), of which a
share is killed at random in each round. Boards are averaged at once, in another order, and through
three gateways: the three states must be the same bytes. Beside the fleet: one board with all data.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

import numpy as np

from mcutrain import demo
from mcutrain.fleets import Contribution, FleetLayout, averaged, with_momentum
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate


@dataclass(frozen=True)
class Data:
    """Prepared samples. parts: which training samples each board has."""

    samples: Any
    labels: Any
    test_labels: Any
    parts: list[Any]

    @staticmethod
    def of(boards: int, images: int, is_iid: bool, seed: int) -> Data:
        """Two shards of sorted labels for each board, or drawn alike."""
        size = demo.Size(train=images, test=1000)
        split = demo.deployed(demo.upright(size))
        samples = prepare_samples(split, RunSettings(), model_input(demo.network()))
        labels, drawn = split.train.y[:], np.random.default_rng(seed)
        order = drawn.permutation(len(labels))
        if not is_iid:
            order = order[np.argsort(labels[order], kind="stable")]
        shards = np.array_split(order, 2 * boards)
        mixed = drawn.permutation(2 * boards)
        parts = [
            drawn.permutation(np.concatenate([shards[mixed[2 * i]], shards[mixed[2 * i + 1]]]))
            for i in range(boards)
        ]
        return Data(samples, labels, split.test.y[:], parts)


def total_of(parts: list[Contribution]) -> Contribution:
    """Added from the first to the last."""
    total = parts[0]
    for part in islice(parts, 1, None):
        total = total + part
    return total


def rice_bytes(rows: dict[str, int], differences: dict[str, Any]) -> int:
    """Of whole numbers by a Rice code, with 4 bits for the parameter of each row of a tensor."""
    bits = 0
    for name, values in differences.items():
        unsigned = np.where(values < 0, -2 * values - 1, 2 * values)
        for row in np.array_split(unsigned, rows[name]):
            bits += 4 + min(int((row >> k).sum()) + (k + 1) * row.size for k in range(16))
    return -(-bits // 8)


def main() -> None:
    """Print a table of rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1200, help="of all boards together")
    parser.add_argument("--killed", type=float, default=0.0, help="share of the boards, each round")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--rounding", default="stochastic")
    parser.add_argument("--iid", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--decay", type=float, default=1.0, help="of the rate, each round")
    parser.add_argument("--coding", action="store_true")
    asked = parser.parse_args()
    data = Data.of(asked.boards, asked.images, asked.iid, asked.seed)
    step = demo.training_step(demo.network(), asked.scheme)
    layout, simulator = FleetLayout(step), step.simulator(1)
    drawn = np.random.default_rng(asked.seed + 1)

    def accuracy(saved: bytes) -> float:
        simulator.load(saved)
        count = len(data.test_labels)
        logits = simulator.infer(data.samples.test(0, count)).reshape(count, -1)
        return float((logits.argmax(axis=1) == data.test_labels).mean())

    def learnt(begin: bytes, index: Any, number: int) -> bytes:
        rate = LearningRate.of(asked.lr * asked.decay**number)
        simulator.load(begin)
        x = data.samples.train(index, 0, 0)
        simulator.train(x, data.labels[index], [rate] * len(index))
        return simulator.save()

    base = layout.saved(simulator.save(), "the base")
    alone = base.raw
    count = sum(value.size for value in layout.read(base).values())
    print(f"state {len(base.raw):,} bytes, float32 weights {4 * count:,} bytes")
    print(f"before: {accuracy(base.raw):.1%}")
    print("round  boards  bytes of a board   of the sum  accuracy  all data on one  sha256")
    everything = np.concatenate(data.parts)
    velocity: dict[str, Any] = {}
    for number in range(asked.rounds):
        alive = [i for i in range(asked.boards) if drawn.random() >= asked.killed]
        parts = []
        for i in alive:
            state = layout.saved(learnt(base.raw, data.parts[i], number), "a state")
            one = Contribution.of(layout, base, state, f"board{i:04}", len(data.parts[i]))
            sent = one.to_bytes()
            parts.append((len(sent), Contribution.parse(sent, "what was sent")))
        added = [part for _, part in parts]
        gateways = [total_of(added[i::3]).to_bytes() for i in range(3) if added[i::3]]
        sums = (
            total_of(added),
            total_of(added[::-1]),
            total_of([Contribution.parse(raw, "a sum") for raw in gateways]),
        )
        moves = [with_momentum(one, velocity, asked.momentum) for one in sums]
        if asked.momentum:
            velocity, sums = moves[0][1], tuple(move for move, _ in moves)
        made = {averaged(layout, base, one, asked.rounding, number) for one in sums}
        assert len(made) == 1, "an order of boards matters"
        new = made.pop()
        alone = learnt(alone, drawn.permutation(everything), number)
        sizes = [size for size, _ in parts]
        print(
            f"{number + 1:5}  {len(alive):6}  {min(sizes):7,} … {max(sizes):6,}  "
            f"{len(sums[0].to_bytes()):10,}  {accuracy(new):8.1%}  {accuracy(alone):15.1%}  "
            f"{sha256(new).hexdigest()[:16]}"
        )
        before, base = layout.read(base), layout.saved(new, "the base")
        if asked.coding:
            rows = {name: len(step.plan.training.state[name]) for name in before}
            coded = [rice_bytes(rows, one.differences) for one in added]
            moved = {name: value - before[name] for name, value in layout.read(base).items()}
            print(
                f"  on the line {min(coded):,} … {max(coded):,}, base {rice_bytes(rows, moved):,}"
            )


if __name__ == "__main__":
    main()
