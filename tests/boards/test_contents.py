"""What a board keeps outlives power cuts at any instruction, whatever states and latents hold.

`MCUTRAIN_STRESS=1 pytest tests/boards/test_contents.py -s` cuts the power 1,000 times and prints
how often in each case; without it, a handful of times in a few of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from mcutrain_host.build import build
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import HostError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, Selecting
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.codegen.firmware import SAVED_HEADER_BYTES
from mcutrain.cost.elastic import estimated_times
from mcutrain.features.elastic.selector import Periods, TensorSelector
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.compiled import CompiledSimulator
from mcutrain.simulation.replay import with_replays
from mcutrain.sparse import parse_scheme
from mcutrain.target import PAGE_BYTES, Target, load_target
from tests.boards.projects import RATE, SEED
from tests.boards.stress import boards_with_power_cuts, end_power_cuts, taught
from tests.boards.test_faults import IS_STRESS
from tests.protocol.test_ring import LATENT_ENTRY, STATE_ENTRY, entry
from tests.simulation.networks import residual_network

LATENT_SIZE = 28
"""Of the network's images, so that a latent has 980 bytes, and three pages lie behind its first."""
REMEMBER, REPLAY, PERIODS = 3, 1, Periods(round(0.85 * 65536), 8)
Array = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Case:
    """board: with slots of so many pages, or its own. ring: of latents. part: that it has."""

    board: str
    slot_pages: int = 0
    ring: bool = False
    part: str = "whole"
    elastic: bool = False
    swap: bool = False
    longest: int = 4_000_000
    steps: int = 32

    @property
    def target(self) -> Target:
        board = load_target(self.board)
        size = self.slot_pages * PAGE_BYTES or board.slot_bytes
        unit = size if board.erase_bytes == board.slot_bytes else board.erase_bytes
        return replace(board, slot_bytes=size, erase_bytes=unit)

    @property
    def order(self) -> list[int]:
        """The sample of each step."""
        replay = REPLAY if self.ring else 0
        new = np.arange(self.steps // (1 + replay))
        return [int(i) for i in with_replays(new, replay, REMEMBER)]


CASES = {
    "remember": Case("nucleo-f446re", ring=True),
    "remember, full slots": Case("nucleo-f303re", 24, ring=True),
    "remember, blocks": Case("rpi-pico", 32, ring=True, longest=12_000_000),
    "tail": Case("nucleo-f303re", 24, ring=True, part="tail"),
    "elastic": Case("nucleo-f446re", elastic=True, longest=8_000_000),
    "elastic, one record": Case("nucleo-f303re", 8, elastic=True, longest=8_000_000),
    "elastic, remember": Case("nucleo-f303re", 32, ring=True, elastic=True, longest=8_000_000),
    "swap": Case("nucleo-f446re", swap=True, longest=8_000_000),
    "remember, checked words": Case("nucleo-h743zi", 24, ring=True),
    "elastic, checked words": Case("nucleo-h743zi", 8, elastic=True, longest=8_000_000),
    "swap, elastic, one record": Case(
        "nucleo-f446re", 4, elastic=True, swap=True, longest=8_000_000
    ),
}
CUTS = 1000 if IS_STRESS else 21


@cache
def step_of(case: Case) -> TrainingStep:
    if case.part == "tail":
        return prepare(residual_network(size=LATENT_SIZE), "last:2", part="tail")
    if case.elastic or case.swap:
        size = LATENT_SIZE if case.ring else 16
        scheme = "last:4" if case.ring else "last:6"
        scheme = "2:0.67,3:0.8,4:1,5:0.5,bias:6" if case.swap else scheme
        rule = "drawn" if case.swap else ""
        bits = replace(parse_scheme(scheme), residual_bits=4, head_residual_bits=8, bias_bits=32)
        return prepare(residual_network(size=size), bits, elastic=case.elastic, swap=rule)
    return prepare(residual_network(size=LATENT_SIZE), "last:2")


def simulator_of(case: Case) -> CompiledSimulator:
    """Of what the board is given: samples, or latents."""
    step = step_of(case)
    if case.ring and case.part != "tail":
        return step.latent_simulator(find_latent(step.plan), SEED)
    return step.simulator(SEED)


def input_bytes(case: Case) -> int:
    step = step_of(case)
    if case.ring and case.part != "tail":
        return find_latent(step.plan).size_bytes
    return step.plan.training.input_type.size_bytes


def looks_like_a_log(case: Case, number: int) -> bytes:
    """Behind the first page lie a newer state, which is whole, and a latent of the ring."""
    size, state = input_bytes(case), step_of(case).simulator(SEED + 1 + number).save()
    inside = entry(STATE_ENTRY, 0, 2**30 + number, state) + entry(LATENT_ENTRY, 0, 0, bytes(size))
    first = np.random.default_rng(number).bytes(PAGE_BYTES - 32)
    return (first + inside).ljust(size, b"\xff")[:size]


CONTENTS: dict[str, Callable[[Case, int], bytes]] = {
    "all 0xFF": lambda case, number: b"\xff" * input_bytes(case),
    "all 0": lambda case, number: bytes(input_bytes(case)),
    "drawn": lambda case, number: np.random.default_rng(number).bytes(input_bytes(case)),
    "looks like a log": looks_like_a_log,
}


def first_state(case: Case, byte: int) -> bytes:
    """All that is trained is one byte again and again."""
    raw = step_of(case).simulator(SEED).save()
    header, begin = raw[:20], raw[24:36]  # 12 bytes count what was learnt
    body = begin + bytes([byte]) * (len(raw) - 36)
    return header + zlib.crc32(header + body).to_bytes(4, "little") + body


def simulated(case: Case, x: Array, y: list[int], first: bytes | None) -> bytes:
    """The state after all steps, without a power cut."""
    simulator, step = simulator_of(case), step_of(case)
    if first is not None:
        simulator.load(first)
    selector = None
    if case.elastic:
        times = estimated_times(step.plan, case.target.isa)
        selector = TensorSelector(step.plan, times, PERIODS)
    looks: list[bytes] = []
    for position, i in enumerate(case.order):
        place = position % PERIODS.every
        if case.swap and place == 0:
            simulator.resample()
        if selector is not None and place == 0:
            simulator.select(selector.all)
        if selector is not None and place in selector.looks:
            looks.append(simulator.save())
        elif selector is not None and place == 2 * PERIODS.look:
            after = simulator.save()
            simulator.select(selector.choose(position, (*looks, after)).tensors)
            looks = []
        simulator.train(x[i : i + 1], y[i : i + 1], [RATE])
    return simulator.save()


@cache
def project(root: Path, name: str) -> Path:
    case, step = CASES[name], step_of(CASES[name])
    times = estimated_times(step.plan, case.target.isa) if case.elastic else None
    interface = Interface(remember=REMEMBER if case.ring else 0, elastic=times)
    folder = root / f"contents-{name.replace(', ', '-').replace(' ', '-')}"
    step.firmware(case.target, interface).write(folder)
    build(folder)
    return folder


def cases() -> list[tuple[str, str, int | None, int]]:
    """Name, content, the byte that the first state is made of, and how many power cuts."""
    every = [
        (name, content, byte)
        for i, name in enumerate(CASES)
        for k, content in enumerate(CONTENTS)
        if content != "looks like a log" or CASES[name].ring
        for byte in (None if CASES[name].swap else (None, 0xFF, 0)[(i + k) % 3],)
    ]
    if not IS_STRESS:
        checked = next(each for each in every if each[0] == "remember, checked words")
        every = [*(every[i] for i in (3, 7, 14, 17, 21, -1)), checked]
    share, more = divmod(CUTS, len(every))
    return [(*each, share + (i < more)) for i, each in enumerate(every)]


@pytest.mark.draws(3)
@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize(("name", "content", "byte", "cuts"), cases())
def test_no_content_makes_a_power_cut_change_a_bit(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    name: str,
    content: str,
    byte: int | None,
    cuts: int,
) -> None:
    case = CASES[name]
    saved_pages = -(-(step_of(case).plan.kept_bytes + SAVED_HEADER_BYTES) // PAGE_BYTES)
    assert "one record" not in name or case.slot_pages // (1 + saved_pages) == 1
    folder = project(tmp_path_factory.getbasetemp(), name)
    bodies = [CONTENTS[content](case, number) for number in range(case.steps)]
    x, y = np.array([np.frombuffer(b, np.int8) for b in bodies]), [i % 4 for i in range(case.steps)]
    shape = step_of(case).plan.training.input_type.shape
    first = None if byte is None else first_state(case, byte)
    source = None if first is None else tmp_path / "first.mcts"
    if source is not None and first is not None:
        source.write_bytes(first)
    is_latent = case.ring and case.part != "tail"
    expected = simulated(case, x if is_latent else x.reshape(-1, *shape[1:]), y, first)
    selecting = Selecting(PERIODS.share_q16, PERIODS.every, PERIODS.look)
    new = case.steps // (1 + REPLAY if case.ring else 1)
    for device, link, number in boards_with_power_cuts(folder, cuts, case.longest):
        state = tmp_path / f"{number}.mcts"
        taught(
            device,
            new,
            save_every=3,
            state=state,
            of=(x, np.array(y)),
            ring=(REPLAY, REMEMBER) if case.ring else (0, 0),
            selecting=selecting if case.elastic else None,
            manifest=BoardProject.read(folder).manifest,
            resample_every=PERIODS.every if case.swap else 0,
            latents=is_latent,
            source=source,
        )
        end_power_cuts(device, link)
        assert device.read_state() == expected == state.read_bytes()
        link.machine.power_cut()
        link.machine.power_on()
        device.identify()
        assert device.read_state() == expected, "what was saved last"


def learn(device: Device, samples: list[bytes], position: int) -> None:
    """All samples from a position on, and the choices that are due."""
    selecting = Selecting(50_000, PERIODS.every, PERIODS.look)
    for number in range(position, len(samples)):
        if selecting.is_due(number):
            device.select(selecting)
        device.send_sample(samples[number])
        device.train(number, number, Rate(RATE.mult_q31, RATE.shift))


@pytest.mark.draws(1)
@pytest.mark.parametrize("program", [0, 1, 500])
def test_a_run_goes_on_after_a_power_cut_in_the_save_behind_a_choice(
    tmp_path_factory: pytest.TempPathFactory, program: int
) -> None:
    """Where a slot holds one state: that from before the windows is still there."""
    name, drawn = "elastic, one record", np.random.default_rng(0)
    samples = [drawn.bytes(input_bytes(CASES[name])) for _ in range(4)]
    machine = load_machine(project(tmp_path_factory.getbasetemp(), name), LoopbackLink(), seed=1)
    device = Device(DirectLink(machine), Patience(0.001, attempts=3, work_seconds=0.01))
    device.reset(SEED)
    learn(device, samples, 0)
    expected = device.read_state()
    machine.cut_during("program", program)
    with pytest.raises(HostError):
        device.save()
    machine.cut_at(None)
    machine.power_on()
    assert device.identify().position == 0, "the choice is not saved"
    learn(device, samples, 0)
    assert device.save().position == len(samples)
    machine.power_cut()
    machine.power_on()
    assert device.identify().position == len(samples)
    assert device.read_state() == expected
