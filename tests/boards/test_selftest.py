"""A board's self test passes on virtual boards, and says what is wrong with one that is broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import HostError
from mcutrain_host.selftest import Check, difference, run_checks
from mcutrain_host.virtual.board import DirectLink, load_machine

from mcutrain.errors import McutrainError, PlanError
from mcutrain.functions.selftest import (
    Prepared,
    has_our_bits,
    prepare_selftest,
    read_selftest,
    run_selftest,
    write_selftest,
)
from mcutrain.target import FIRMWARE
from tests.boards.projects import built, quick_step

STEPS, CUTS = 4, 1
NAMES = ["the same bits", "damaged frames", "saves and restarts", "power cuts", "cycles"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("selftest")
    return prepare_selftest("bbc-microbit-v2", folder, STEPS, CUTS)


def virtual(folder: Path) -> tuple[Device, Callable[[int], None]]:
    machine = load_machine(folder)

    def cut(number: int) -> None:
        machine.power_cut()
        machine.power_on()

    return Device(DirectLink(machine), Patience(5.0, work_seconds=600.0)), cut


@pytest.mark.slow
def test_a_board_that_works_passes_and_its_report_can_be_read(
    prepared: Prepared, tmp_path: Path
) -> None:
    device, cut = virtual(prepared.project.folder)
    result = run_selftest(prepared, device, CUTS, cut, hardware=False)
    assert [(check.name, check.passed) for check in result.checks] == [(n, True) for n in NAMES]
    assert result.passed
    assert (result.board, result.steps) == ("bbc-microbit-v2", STEPS)
    assert re.search(r"\d+\.\d+", result.compiler)
    assert 0.8 < result.cycles / result.instructions < 1.2
    path = tmp_path / "report.json"
    path.write_text(write_selftest(result))
    assert read_selftest(path) == result
    assert has_our_bits(result)
    assert not has_our_bits(replace(result, digest="00"))


@pytest.mark.draws(1)
@pytest.mark.parametrize("step", [0, STEPS - 1])
def test_the_first_state_that_differs_is_named(prepared: Prepared, step: int) -> None:
    section = prepared.work.table.sections[3]
    broken = bytearray(prepared.work.lessons[step].state)
    broken[-prepared.work.table.sections[-1].end + section.offset] ^= 1
    lessons = list(prepared.work.lessons)
    lessons[step] = replace(lessons[step], state=bytes(broken))
    device, cut = virtual(prepared.project.folder)
    work = replace(prepared.work, lessons=tuple(lessons))
    first = next(iter(run_checks(device, work, 0, cut)))
    assert first.passed is False
    assert first.found.startswith(f"after step {step + 1} 1 of {section.count:,} numbers of")
    assert section.name in first.found


def test_states_of_another_size_and_of_another_header_are_told_apart(prepared: Prepared) -> None:
    state, table = prepared.work.state, prepared.work.table
    assert "the simulation's" in difference(table, state, state[:-1])
    assert "header" in difference(table, state, b"X" + state[1:])


def found(checks: object, name: str) -> Check:
    assert isinstance(checks, list)
    return next(check for check in checks if check.name == name)


@pytest.mark.slow
def test_a_board_that_forgets_without_power_fails(prepared: Prepared) -> None:
    machine = load_machine(prepared.project.folder)
    device = Device(DirectLink(machine), Patience(5.0, work_seconds=600.0))
    begin = min(prepared.target.slots)

    def cut(number: int) -> None:
        machine.power_cut()
        machine.chip.flash.bytes[begin:] = b"\xff" * (machine.chip.flash.size_bytes - begin)
        machine.power_on()

    checks = list(run_checks(device, prepared.work, 1, cut))
    assert found(checks, "saves and restarts").passed is True
    assert found(checks, "power cuts").found.startswith("after power cut 1 the board is at step 0")


@pytest.mark.slow
def test_a_board_that_falls_silent_fails_and_the_rest_is_tried(prepared: Prepared) -> None:
    device, cut = virtual(prepared.project.folder)
    silent = [2]

    def progress(what: str, done: int, of: int) -> None:
        if what == "training" and done == silent[0]:
            raise HostError("the cable is out")

    checks = list(run_checks(device, prepared.work, 0, cut, progress))
    assert (checks[0].passed, checks[0].found) == (False, "the cable is out")
    assert [check.name for check in checks] == NAMES[:4]
    assert checks[3].passed is None


def test_another_program_is_a_sentence(prepared: Prepared, projects_root: Path) -> None:
    device, cut = virtual(built(projects_root, "bbc-microbit-v2", step=quick_step()))
    with pytest.raises(HostError, match="another program"):
        run_selftest(prepared, device, 0, cut)


def test_a_board_that_is_too_small_is_a_sentence(tmp_path: Path) -> None:
    own = tmp_path / "tiny"
    own.mkdir()
    text = (FIRMWARE / "boards/bbc-microbit/board.toml").read_text()
    text = text.replace("bytes = 0x4000 }", "bytes = 0x2000 }").replace("bbc-microbit", "tiny")
    (own / "board.toml").write_text(text)
    with pytest.raises(PlanError, match="fits tiny"):
        prepare_selftest(own, tmp_path / "project", 1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1}'])
def test_a_file_that_is_no_report_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(McutrainError):
        read_selftest(path)
