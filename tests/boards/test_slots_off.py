"""A board whose slots are given to the program: the same bits, and all say that it forgets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.errors import BuildError, RefusedError
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.errors import TargetError
from mcutrain.target import Target, load_target, target_of
from tests.boards.projects import (
    RATE,
    TRAINING_THE_DEMO,
    built,
    quick_lessons,
    quick_state,
    quick_step,
    training_step,
)

KB = 1024
STEPS = 3
GIVEN = "the program has the flash of the slots"


def forgetful(board: str) -> Target:
    return load_target(board).without_slots()


@pytest.mark.parametrize(
    ("board", "origin", "flash_kb", "gained_kb"),
    [
        ("nucleo-f446re", 0x08000000, 512, 256),
        ("nucleo-f303re", 0x08000000, 512, 96),
        ("nucleo-f401re", 0x08000000, 512, 256),
        ("netduinoplus2", 0x08000000, 1024, 256),
        ("stm32f746g-disco", 0x08000000, 1024, 256),  # sectors 0 to 4, vectors and all
        ("rpi-pico", 0x10000000, 2048, 384),
        ("mps2-an386", 0, 4096, 1024),
    ],
)
def test_the_program_gets_all_of_the_flash(board, origin, flash_kb, gained_kb):
    given = forgetful(board)
    assert (given.flash.origin, given.flash.size_bytes) == (origin, flash_kb * KB)
    assert given.vectors is None
    assert load_target(board).slots_flash_bytes == gained_kb * KB
    assert given.slots_flash_bytes == 0
    assert given.without_slots() == given
    assert (given.can_save(4), given.saves(4)) == (False, None)


def test_slots_that_do_not_adjoin_the_program_stay_unused(tmp_path):
    own = tmp_path / "b"
    own.mkdir()
    text = (load_target("mps2-an386").folder / "board.toml").read_text()
    (own / "board.toml").write_text(text.replace("origins = [0x00300000", "origins = [0x00300100"))
    assert load_target(own).slots_flash_bytes == 0


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("board", TRAINING_THE_DEMO)
def test_a_board_without_slots_trains_to_the_same_bits_and_forgets(tmp_path, board):
    target, plan = forgetful(board), quick_step().plan
    quick_step().firmware(target).write(tmp_path)
    build(tmp_path)
    memory = linked_memory(tmp_path)
    assert memory.agrees
    assert memory.linked_bytes == target.sram_bytes(plan.arena_bytes, plan.state_bytes)
    machine = load_machine(tmp_path, LoopbackLink())
    device = Device(DirectLink(machine))
    assert not device.identify().has_slots
    x, y = quick_lessons()
    for i in range(STEPS):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, Rate(RATE.mult_q31, RATE.shift))
    assert device.read_state() == quick_state(STEPS)
    with pytest.raises(RefusedError, match="the board refused SAVE: this board cannot do that"):
        device.save()
    machine.power_cut()
    machine.power_on()
    assert Device(DirectLink(machine)).identify().position == 0


@pytest.mark.parametrize("board", ["nucleo-f303re", "nucleo-f446re", "rpi-pico"])
def test_slots_that_held_a_program_hold_states_again(projects_root, board):
    machine = load_machine(built(projects_root, board, step=quick_step()), LoopbackLink())
    target = load_target(board)
    for slot in target.slots:
        machine.write(slot, b"\x5a" * target.slot_bytes)
    device = Device(DirectLink(machine))
    assert device.identify().save_number == 0
    x, y = quick_lessons()
    for i in range(STEPS):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, Rate(RATE.mult_q31, RATE.shift))
        assert device.save().number == i + 1
    machine.power_cut()
    machine.power_on()
    again = Device(DirectLink(machine))
    assert again.identify().position == STEPS
    assert again.read_state() == quick_state(STEPS)


@pytest.mark.parametrize("board", ["nucleo-f303re", "nucleo-f446re"])
def test_a_save_erases_all_that_it_needs_and_leaves_the_flash_locked(projects_root, board):
    machine = load_machine(built(projects_root, board), LoopbackLink())
    target, controller = load_target(board), machine.chip.controller
    assert training_step().plan.state_bytes > 2 * 2048
    for slot in target.slots:
        machine.write(slot, b"\x5a" * target.slot_bytes)
    device = Device(DirectLink(machine))
    held = device.read_state()
    controller.values[0x0C] = 1 << 4  # FLASH_SR: an earlier write was to what is write-protected
    assert device.save().number == 1
    assert controller.load(0x10) & controller.lock  # FLASH_CR
    machine.power_cut()
    machine.power_on()
    again = Device(DirectLink(machine))
    assert again.identify().save_number == 1
    assert again.read_state() == held


def test_the_project_says_that_nothing_is_saved():
    project = quick_step().firmware(forgetful("nucleo-f446re"))
    assert f"survive a power cut:\n * {GIVEN}. */" in project.files["mct_board_config.h"]
    assert "#define MCT_SLOT_0 " not in project.files["mct_board_config.h"]
    assert "ORIGIN = 0x08000000, LENGTH = 524288" in project.files["memory.ld"]
    usual = quick_step().firmware(load_target("nucleo-f446re"))
    assert "power cut" not in usual.files["mct_board_config.h"]


def test_a_state_that_no_slot_holds_is_not_saved_either():
    target = replace(load_target("nucleo-f446re"), slot_bytes=256)
    project = quick_step().firmware(target)
    memory = json.loads(project.files["manifest.json"])["board"]["memory"]
    assert memory["slots"] == []
    assert memory["why_no_saves"].endswith("bytes does not fit a slot of nucleo-f446re")
    assert "#define MCT_SLOT_BYTES 0\n" in project.files["mct_board_config.h"]
    own = replace(target, slots=(), values={k: v for k, v in target.values.items() if k != "slots"})
    assert own.why_no_saves(1) == "nucleo-f446re has no slots"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_a_program_that_fits_only_without_slots_is_told_so(tmp_path: Path, compiler):
    quick_step().firmware(load_target("nucleo-f446re")).write(tmp_path)
    script, manifest = tmp_path / "memory.ld", tmp_path / "manifest.json"
    script.write_text(re.sub(r"(FLASH .*LENGTH = )\d+", r"\g<1>20000", script.read_text()))
    text = manifest.read_text()
    assert '"slots_flash_bytes": 262144' in text

    def refusal() -> str:
        with pytest.raises(BuildError, match=r"\d+ bytes too many for the board's flash") as caught:
            build(tmp_path, compiler, "-Os")
        return str(caught.value)

    said = refusal()
    assert "generate the project anew with --slots off" in said
    missing = int(re.search(r"(\d+) bytes too many", said)[1])
    manifest.write_text(text.replace(": 262144\n", f": {missing}\n"))
    assert refusal() == said
    manifest.write_text(text.replace(": 262144\n", f": {missing - 1}\n"))
    assert "--slots" not in refusal()


def test_who_has_no_slots_cannot_give_them_up():
    with pytest.raises(TargetError, match="only a board has slots to give up"):
        target_of(None, "off")
    with pytest.raises(TargetError, match="raspberry-pi keeps the trained state in a file"):
        target_of("raspberry-pi", "off")
    assert target_of(None) is None
    assert target_of("rpi-pico", "off") == forgetful("rpi-pico")


def test_sectors_that_the_flash_does_not_have_are_a_sentence(tmp_path):
    own = tmp_path / "b"
    own.mkdir()
    text = (load_target("nucleo-f446re").folder / "board.toml").read_text()
    (own / "board.toml").write_text(text.replace("sectors = [[6], [7]]", "sectors = [[6], [8]]"))
    with pytest.raises(TargetError, match=r"sectors \[8\] under \[slots\]: \[flash\] knows 0 to 7"):
        load_target(own)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("network", "board"), [("mbv2-w0.35", "nucleo-f401re"), ("proxyless-w0.3", "nucleo-f446re")]
)
def test_published_networks_fit_512_kb_of_flash_without_slots(shared, tmp_path, network, board):
    model = shared / "models" / f"{network}.int8.tflite"
    step = prepare(model, f"{network}-49kb", classes=10)
    step.firmware(forgetful(board)).write(tmp_path)
    build(tmp_path)
    memory = linked_memory(tmp_path)
    assert memory.agrees
    assert memory.flash_bytes > load_target(board).flash.size_bytes
