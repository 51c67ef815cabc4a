"""A board's button: a click begins or ends a lesson, and holding it takes the last one back."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcutrain_host.virtual.board import load_machine
from mcutrain_host.virtual.errors import VirtualBoardError
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine

from mcutrain.simulation.field import FieldButton, FieldLesson
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import BUTTON_BYTES, board_names, load_target
from tests.boards.projects import built
from tests.boards.test_learning import (
    BURST,
    CLASSES,
    PLAIN,
    RING,
    SECONDS,
    OnChip,
    carry_out,
    core,
    project,
    twin,
)

HOW = FieldLesson(LearningRate.of(0.01), 4)
SAMPLES = 5
"""What a click awaits, where nobody says more."""


class Params(ctypes.Structure):
    _fields_ = [("settle", ctypes.c_uint32), ("hold", ctypes.c_uint32)]


class State(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("changed", "down")),
        *((name, ctypes.c_bool) for name in ("level", "is_down", "is_held")),
    ]


@settings(max_examples=200, deadline=None)
@given(
    looks=st.lists(st.tuples(st.booleans(), st.integers(0, 12) | st.just(2**31)), max_size=40),
    settle=st.integers(0, 5),
    hold=st.integers(0, 20),
    begin=st.sampled_from([0, 2**32 - 20]),
)
def test_c_feels_what_python_does(
    looks: list[tuple[bool, int]], settle: int, hold: int, begin: int
) -> None:
    button, state, params, now = FieldButton(settle, hold), State(), Params(settle, hold), begin
    look = core().mct_button_look
    look.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool, ctypes.c_uint32]
    for is_down, later in looks:
        now = (now + later) % 2**32
        found = look(ctypes.addressof(state), ctypes.addressof(params), is_down, now)
        assert ("", "clicked", "held")[found] == button.look(is_down, now)
    wanted = (button.changed, button.down, button.level, button.is_down, button.is_held)
    assert tuple(getattr(state, name) for name, _ in State._fields_) == wanted


@settings(max_examples=100, deadline=None)
@given(
    downs=st.lists(st.tuples(st.integers(10, 99), st.integers(10, 99)), max_size=9),
    bounces=st.lists(st.integers(1, 3), min_size=2, max_size=6),
)
def test_what_bounces_is_one_click(downs: list[tuple[int, int]], bounces: list[int]) -> None:
    """Down for so long, then up for so long, each level after some that did not stay."""
    button, now, found = FieldButton(5, 1000), 0, []
    for spans in downs:
        for level, span in zip((True, False), spans, strict=True):
            for i, short in enumerate(bounces):
                found.append(button.look(level ^ bool(i % 2 == len(bounces) % 2), now))
                now += short
            for _ in range(span):
                found.append(button.look(level, now))
                now += 1
    assert [one for one in found if one] == ["clicked"] * len(downs)


def press(pair: OnChip, milliseconds: int) -> None:
    tick = pair.machine.spec.define["CLOCK_HZ"] // 1000
    for is_down in (True, False, True, False, True):  # it bounces
        pair.machine.press(is_down, 5 * tick)
    for part in (min(milliseconds, 30), max(0, milliseconds - 30)):
        pair.machine.press(True, part * tick)
    pair.machine.press(False, 30 * tick)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("chip", ["nucleo-f446re", "rpi-pico"])
def test_a_word_is_taught_and_taken_back_by_the_button_alone(
    projects_root: Path, chip: str
) -> None:
    pair = OnChip(project(projects_root, chip, RING), twin(RING))
    field = pair.board.field
    carry_out(pair, BURST)
    press(pair, 100)
    field.gather(CLASSES - 1, CLASSES, SAMPLES, HOW)
    carry_out(pair, BURST * SAMPLES)
    assert (pair.device.learnt().left, pair.device.learnt().lessons) == (0, 1)
    taught = field.simulator.save()
    press(pair, 14)  # a bounce
    pair.check()
    press(pair, 1100)
    assert field.undo()
    pair.check()
    assert field.simulator.save() != taught
    press(pair, 1100)  # there is nothing more to undo
    assert not field.undo()
    pair.check()


@pytest.mark.slow
def test_a_second_click_ends_what_is_awaited(projects_root: Path) -> None:
    """The remembered samples are those of before, too."""
    pair = OnChip(project(projects_root, "nucleo-f446re", RING), twin(RING))
    carry_out(pair, [*BURST, ("lesson", 1)])
    before = pair.board.field.newest
    assert before is not None
    press(pair, 100)
    pair.board.field.gather(CLASSES - 1, CLASSES, SAMPLES, HOW)
    carry_out(pair, BURST * 2)
    assert pair.device.learnt().collected == 2
    press(pair, 100)
    pair.board.field.decisions.left = 0
    pair.board.field.ring = before.ring
    pair.check()
    carry_out(pair, [*BURST * 2, ("lesson", 0), ("undo",), ("undo",)])


@pytest.mark.slow
def test_a_click_of_a_program_that_imprints_nothing_learns_the_loudest_window(
    projects_root: Path,
) -> None:
    pair = OnChip(project(projects_root, "nucleo-f446re", PLAIN), twin(PLAIN))
    press(pair, 100)  # nothing was heard
    carry_out(pair, BURST)
    press(pair, 100)
    window = pair.board.ear.window(pair.board.ear.loudest)
    assert window is not None
    pair.board.field.lesson(window, CLASSES - 1, HOW)
    carry_out(pair, [("undo",), *BURST])


@pytest.mark.slow
def test_the_button_of_each_family_is_felt(projects_root: Path) -> None:
    for chip in ("nucleo-h743zi", "nucleo-l476rg", "nucleo-f303re", "nrf52840-dk", "rpi-pico-2"):
        pair = OnChip(project(projects_root, chip, PLAIN), twin(PLAIN))
        carry_out(pair, BURST)
        press(pair, 100)
        assert pair.device.learnt().lessons == 1, chip


def test_a_button_is_counted_where_there_is_one(projects_root: Path) -> None:
    with_button = replace(load_target("nrf52840-dk"), app="learn", listening_bytes=8)
    without = replace(load_target("arduino-nano-33-ble"), app="learn", listening_bytes=8)
    more = with_button.protocol_bytes - without.protocol_bytes
    assert 0 < more - BUTTON_BYTES + 8 < 16
    assert load_target("nrf52840-dk").protocol_bytes == load_target("rpi-pico").protocol_bytes
    assert sum(load_target(name).has_button for name in board_names()) == 19
    machine = load_machine(built(projects_root, "arduino-nano-33-ble"), LoopbackLink())
    with pytest.raises(VirtualBoardError, match="has no button"):
        machine.press(True, 0)


def test_a_button_at_no_port_is_a_sentence(projects_root: Path) -> None:
    spec = load_machine(built(projects_root, "nucleo-f446re"), LoopbackLink()).spec
    for address in (0x50000000, 0x40020801):
        wrong = replace(spec, define={**spec.define, "BUTTON_GPIO": address})
        with pytest.raises(VirtualBoardError, match=r"has its button at 0x.*, which is no port"):
            Machine(wrong, None, LoopbackLink())
