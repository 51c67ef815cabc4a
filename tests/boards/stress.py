"""Training on a virtual board that loses its power or sits on a bad cable."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from mcutrain_host import trainer
from mcutrain_host.client import Device, Patience
from mcutrain_host.manifest import Manifest
from mcutrain_host.protocol import Identity, Rate, Selecting, Step
from mcutrain_host.state import StateTable
from mcutrain_host.trainer import Settings, Training
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import FaultyLink, LinkFaults, LoopbackLink
from mcutrain_host.virtual.machine import Machine

from tests.boards.projects import RATE, SEED, Lessons, lessons

IMPATIENT = Patience(answer_seconds=0.001, attempts=1000, work_seconds=60)
"""A DirectLink gives all there is at once, so waiting brings nothing."""
CUTS_PER_RUN = 50


class CuttingLink(DirectLink):
    """Cuts the board's power at random instructions, and gives it back."""

    def __init__(self, machine: Machine, cuts: int, longest: int, seed: int) -> None:
        super().__init__(machine)
        self.left, self.longest = cuts, longest
        self.random = random.Random(seed)
        self.cuts = self.in_flash_operation = 0
        self._plan()

    def _plan(self) -> None:
        if self.left > 0:
            self.left -= 1
            now = self.machine.instructions
            self.machine.cut_at(now + self.random.randrange(1, self.longest))

    def read(self, seconds: float) -> bytes:
        data = super().read(seconds)
        if not self.machine.powered:
            self.cuts += 1
            self.machine.power_on()
            self._plan()
        return data


@dataclass
class Record:
    """A log that keeps, and a watch that says nothing."""

    lines: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        self.lines.append((event, position, facts))

    def close(self) -> None:
        pass

    def connected(self, identity: Identity, first: int) -> None:
        pass

    def tested(self, done: int, of: int) -> None:
        pass

    def trained(self, step: Step, label: int) -> None:
        pass

    def transferred(self, what: str, done: int, of: int) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

    def positions(self) -> list[int]:
        """After each step that the host knows of."""
        return [position for event, position, _ in self.lines if event == "step"]


def taught(
    device: Device,
    count: int,
    save_every: int,
    state: Path,
    of: Lessons | None = None,
    ring: tuple[int, int] = (0, 0),
    selecting: Selecting | None = None,
    manifest: Manifest | None = None,
    first: int = 0,
    resample_every: int = 0,
    latents: bool = False,
    source: Path | None = None,
) -> Record:
    """Train the first `count` lessons, the demo's unless said, from the initial weights.

    ring: remembered samples that are replayed after each, and how many are remembered. selecting,
    manifest: of a board that chooses what it trains. first: steps that the board has done before,
    from whose weights it goes on. resample_every: steps from one draw of columns to the next.
    latents: the lessons are latents. source: a state to begin with.
    """
    x, y = of or lessons()
    replay, remember = ring
    record = Record()

    def sample(step: int) -> tuple[bytes, int]:
        return x[step // (1 + replay)].tobytes(), int(y[step // (1 + replay)])

    settings = Settings(
        firmware=device.identify().firmware,
        seed=SEED,
        state=state,
        save_every=save_every,
        reconnect_seconds=30.0,
        elastic=None if manifest is None else manifest.elastic,
        table=StateTable() if manifest is None else manifest.table,
        begin=trainer.Begin.BOARD if source is None else trainer.Begin.FILE,
        source=source,
    )
    plan = trainer.Lessons(
        total=first + count * (1 + replay),
        sample_at=lambda i: sample(i - first),
        rate_at=lambda i: Rate(RATE.mult_q31, RATE.shift),
        tests=0,
        test_at=lambda i: (b"", 0),
        replay=replay,
        remember=remember,
        selecting=selecting,
        latents=latents,
        first=first,
        resample_every=resample_every,
    )
    Training(device, plan, settings, record, record).run()
    return record


def boards_with_power_cuts(
    folder: Path, cuts: int, longest: int
) -> Iterator[tuple[Device, CuttingLink, int]]:
    """Fresh boards of a project, each with its number, until power has failed so often in all."""
    done = number = 0
    while done < cuts:
        number += 1
        device, link = with_power_cuts(folder, min(CUTS_PER_RUN, cuts - done), longest, number)
        yield device, link, number
        done += link.cuts
    print(f"{folder.name}: {done} power cuts in {number} runs")


def end_power_cuts(device: Device, link: CuttingLink) -> None:
    """No more of them. The last may have come behind the last step."""
    link.machine.cut_at(None)
    device.identify()


def with_power_cuts(folder: Path, cuts: int, longest: int, seed: int) -> tuple[Device, CuttingLink]:
    """A board whose power fails `cuts` times, each within `longest` instructions of the last."""
    machine = load_machine(folder, LoopbackLink(), seed=seed)
    link = CuttingLink(machine, cuts, longest, seed)
    return Device(link, IMPATIENT), link


def on_a_bad_cable(folder: Path, faults: LinkFaults, seed: int) -> Device:
    """A board whose bytes get lost, changed and doubled both ways."""
    link = FaultyLink(LoopbackLink(), faults, faults, seed)
    return Device(DirectLink(load_machine(folder, link, seed=seed)), IMPATIENT)


def bad_cables(folder: Path) -> Iterator[tuple[Device, FaultyLink]]:
    """Fresh boards of a project without end, each behind a cable with other faults."""
    faults = LinkFaults(drop=0.001, corrupt=0.001, double=0.001)
    for seed in count(1):
        device = on_a_bad_cable(folder, faults, seed)
        yield device, device.link.machine.link
