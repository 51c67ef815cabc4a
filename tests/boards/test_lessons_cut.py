"""Power cuts in every write of what a board is told, with slots that are full again and again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pytest
from mcutrain_host.build import build
from mcutrain_host.client import Patience
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.protocol import Status

from mcutrain.target import load_target
from tests.boards.test_learning import (
    CLASSES,
    LOUD,
    PLAIN,
    RING,
    SECONDS,
    OnChip,
    carry_out,
    plan,
    step_of,
    twin,
)

SLOT_BYTES = 0x1000
"""A sector: full behind some lessons."""
TOLD = 12


@cache
def small(root: Path, remember: int) -> Path:
    """A Pico with little flash for states."""
    target = replace(load_target("rpi-pico"), slot_bytes=SLOT_BYTES)
    folder = root / f"small{remember}"
    interface = RING if remember else PLAIN
    step_of().firmware(target, interface).write(folder)
    build(folder)
    return folder


@dataclass
class Cut:
    """A board with its twin, whose power is cut in writes and erasures.

    is_sure: a lesson was the last that happened, so it can be taken back.
    """

    pair: OnChip
    cuts: int = 0
    is_sure: bool = False

    def tell(self, act: Callable[[], object], kind: str, index: int) -> tuple[bool, bool]:
        """Whether a board did what it was told before its power was cut, and did not refuse."""
        device, machine, refused = self.pair.device, self.pair.machine, int(Status.NOT_KEPT)
        is_taken = True
        machine.cut_during(kind, index)
        patience, device.patience = device.patience, Patience(0.01, 2, 0.05)
        try:
            act()
        except RefusedError as error:
            refused, is_taken = error.status, False
        except HostError:
            assert not machine.powered
        assert refused == Status.NOT_KEPT
        device.patience = patience
        machine.cut_during(kind, 1 << 30)
        return machine.powered, is_taken

    def begin_to_hear(self) -> None:
        """Behind a restart, or where all was forgotten."""
        pair = self.pair
        pair.board.ear.begin()
        pair.board.ear.total = pair.sent = 0
        pair.begun = pair.device.learnt()
        pair.board.field.told = []

    def lesson(self, label: int, kind: str, index: int) -> None:
        """One that may be cut."""
        on_board, here = plan(self.pair.replay)
        window = self.pair.board.ear.window(self.pair.board.ear.loudest)
        assert window is not None
        field = self.pair.board.field
        self.do(
            lambda: self.pair.device.teach(label, on_board),
            lambda: field.lesson(window, label, here),
            *(kind, index),
        )

    def do(
        self, on_board: Callable[[], object], here: Callable[[], object], kind: str, index: int
    ) -> None:
        """Do the same on both; behind a cut the desk is what the board is."""
        pair, field = self.pair, self.pair.board.field
        before = (field.newest, field.before, field.position, field.ring)
        state = field.simulator.save()
        is_done, is_taken = self.tell(on_board, kind, index)
        assert is_taken or not self.is_sure
        if not is_taken:
            return
        here()
        self.is_sure = is_done and field.newest is not None and field.newest.is_taught
        if is_done:
            return
        self.cuts += 1
        pair.machine.power_on()
        pair.device.identify()
        found, after = pair.device.read_state(), field.simulator.save()
        assert found in (state, after)
        if found != after:
            field.simulator.load(state)
            field.newest, field.before, field.position, field.ring = before
        self.begin_to_hear()


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("remember", [0, 4])
def test_a_board_is_what_it_was_or_what_it_was_told_to_be(
    projects_root: Path, remember: int
) -> None:
    """Whatever comes next has the desk's bits again: the ring is that of the state."""
    draw = random.Random(remember)
    pair = OnChip(small(projects_root, remember), twin(RING if remember else PLAIN))
    board, field = Cut(pair), pair.board.field
    for number in range(TOLD):
        carry_out(pair, [("hear", 8, LOUD)], number)
        kind, index = draw.choice([*(("program", i) for i in (0, 0, 1, 1, 2, 4)), ("erase", 0)])
        less = ["forget class"] if remember else []
        what = draw.choice(["lesson", "lesson", "lesson", "undo", "forget", *less])
        if what == "lesson":
            board.lesson(number % CLASSES, kind, index)
        elif what == "undo":
            board.do(pair.device.undo, field.undo, kind, index)
        elif what == "forget class":
            forget = partial(pair.device.forget_class, index % CLASSES)
            board.do(forget, partial(field.forget_class, index % CLASSES), kind, index)
        else:
            board.do(pair.device.forget, field.forget, kind, index)
            board.begin_to_hear()
        pair.check()
    assert board.cuts >= TOLD // 3


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_a_lesson_is_taken_back_however_full_the_slot_was(projects_root: Path) -> None:
    pair = OnChip(small(projects_root, 4), twin(RING))
    carry_out(pair, [("hear", 8, LOUD)])
    for saves in range(6, 13):
        for _ in range(saves):
            pair.device.save()
        pair.lesson(saves % CLASSES)
        pair.undo()
        pair.check()
    for _ in range(9):
        pair.lesson(1)
    pair.undo()
    pair.check()
