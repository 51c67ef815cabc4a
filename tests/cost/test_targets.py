"""What boards say of time."""

from __future__ import annotations

import shutil

import pytest

from mcutrain import demo, prepare
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.instructions import estimate, load_costs
from mcutrain.cost.time import step_time
from mcutrain.errors import TargetError
from mcutrain.target import board_names, load_target


@pytest.mark.parametrize("board", board_names())
def test_a_board_with_a_clock_plans_time(board):
    target = load_target(board)
    if target.is_hosted:
        assert target.clock_hz is None
        assert target.step_seconds(1000) is None
    else:
        assert target.clock_hz == target.values["define"]["CLOCK_HZ"]
        assert 0.5 < target.cycles_per_instruction < 3


def test_a_step_takes_instructions_times_cycles_by_clock():
    assert load_target("nucleo-f446re").step_seconds(180_000_000) == pytest.approx(1.6)


@pytest.mark.parametrize(
    ("change", "clock", "cycles"),
    [
        ("cycles_per_instruction = 2", 25_000_000, 2.0),
        ("# unknown", 25_000_000, None),
    ],
)
def test_the_rate_is_optional_and_may_be_whole(tmp_path, change, clock, cycles):
    given = "cycles_per_instruction = 1.5\ncycles_range = [1.4, 1.6]"
    target = load_target(_board(tmp_path, given, change))
    assert (target.clock_hz, target.cycles_per_instruction) == (clock, cycles)
    assert (target.step_seconds(5) is None) == (cycles is None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("instruction = 1.5", "instruction = 0", "cycles_per_instruction = 0 is not a positive"),
        ("instruction = 1.5", "instruction = -1.5", "= -1.5 is not a positive number"),
        ("instruction = 1.5", "instruction = nan", "= nan is not a positive number"),
        ("instruction = 1.5", "instruction = inf", "= inf is not a positive number"),
        ("instruction = 1.5", "instruction = true", "= True is not a positive number"),
        ("instruction = 1.5", "instruction = '1.5'", "= '1.5' is not a positive number"),
        ("CLOCK_HZ = 25000000", "CLOCK_HZ = 0", "CLOCK_HZ = 0 under .define. is not a whole"),
        ("CLOCK_HZ = 25000000", "CLOCK_HZ = '25 MHz'", "CLOCK_HZ = '25 MHz' under"),
    ],
)
def test_a_wrong_value_is_a_sentence(tmp_path, old, new, message):
    with pytest.raises(TargetError, match=message):
        load_target(_board(tmp_path, old, new))


@pytest.mark.parametrize(
    ("board", "old", "new", "message"),
    [
        ("nucleo-f401re", "BUTTON_GPIO = 0x40020800", "", "BUTTON_PIN without BUTTON_GPIO under"),
        (
            "nucleo-f401re",
            "BUTTON_PIN = 13",
            "BUTTON_PIN = 16",
            "BUTTON_PIN = 16 under .define",
        ),
        ("nucleo-f401re", "BUTTON_PIN = 13", "BUTTON_PIN = 'PC13'", "BUTTON_PIN = 'PC13' under"),
        ("nucleo-f401re", "BUTTON_PRESSED = 0", "BUTTON_PRESSED = 2", "is down, 0 or 1 on this c"),
        ("nrf52840-dk", "BUTTON_PRESSED = 0", "BUTTON_PRESSED = 1", "is down, 0 on this chip"),
        ("rpi-pico", "BUTTON_PIN = 14", "BUTTON_PIN = 30", "BUTTON_PIN = 30 under"),
        ("rpi-pico", "BUTTON_PRESSED = 0", "", "BUTTON_PIN without BUTTON_PRESSED"),
    ],
)
def test_a_button_that_no_driver_can_read_is_a_sentence(tmp_path, board, old, new, message):
    with pytest.raises(TargetError, match=message):
        load_target(_board(tmp_path, old, new, board))


@pytest.mark.parametrize("board", board_names())
def test_a_board_has_the_costs_of_its_kernels_or_of_its_core(board):
    target = load_target(board)
    own = {"RV32IMC": "rv32imc"}
    assert target.costs == own.get(target.core, target.isa)
    if not target.is_hosted:
        assert load_costs(target.costs)
        assert code_sizes(target.costs) is not None


def test_costs_that_nobody_fitted_are_a_sentence(tmp_path):
    with pytest.raises(TargetError, match=r"costs = 'rv64gc' is none of armv6m, dsp, .*rv32imc"):
        load_target(_board(tmp_path, 'isa = "dsp"', 'isa = "dsp"\ncosts = "rv64gc"'))


def test_a_step_on_a_board_takes_the_instructions_of_its_costs():
    plan = prepare(demo.network(), "last:3").plan
    own, other = load_target("esp32-c3-devkit"), load_target("nucleo-f446re")
    for target in (own, other):
        time = step_time(plan, target)
        assert time is not None
        counts = estimate(plan.training, target.costs, plan.segments)
        assert time.instructions == sum(counts.values())
    portable = estimate(plan.training, own.isa, plan.segments)
    assert step_time(plan, own).instructions != sum(portable.values())


def _board(tmp_path, old: str, new: str, board: str = "mps2-an386"):
    folder = tmp_path / "board"
    shutil.copytree(load_target(board).folder, folder)
    text = (folder / "board.toml").read_text(encoding="utf-8")
    assert old in text
    (folder / "board.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder
