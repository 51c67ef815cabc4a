"""`mcutrain selftest` on a virtual board, and what it says of reports."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.selftest import Check, SelfTest

import mcutrain
from mcutrain.errors import ArgumentError
from mcutrain.functions.selftest import SelfTestResult, read_selftest, write_selftest
from tests.cli.conftest import Run


def test_it_asks_for_a_board(run: Run) -> None:
    done = run("selftest")
    assert done.code == 2
    assert "name the board to test" in " ".join(done.err.split())
    assert "no-such-board" in run("selftest", "no-such-board", "--emulator").sentence


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_report_of_a_virtual_board_can_be_compared(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    few = ("--emulator", "--steps", "4", "--power-cuts", "1")
    done = run("selftest", "nucleo-f446re", *few, "-o", path, "--json")
    assert done.code == 0
    assert done.json["passed"] is True
    result = read_selftest(path)
    assert (result.passed, result.hardware, result.board) == (True, False, "nucleo-f446re")
    for changed, code, word in (
        (result, 0, "are those"),
        (replace(result, digest="00"), 1, "are NOT those"),
        (replace(result, checks=(Check(name="x", passed=False, found="y"),)), 1, "FAILED"),
    ):
        path.write_text(write_selftest(changed))
        compared = run("selftest", "--compare", path)
        assert compared.code == code
        assert word in compared.out


def test_in_python_cuts_of_a_board_with_a_cable_need_who_cuts() -> None:
    with pytest.raises(ArgumentError, match="cut"):
        mcutrain.selftest("nucleo-f446re", power_cuts=1)
    with pytest.raises(ArgumentError, match="power_cuts"):
        mcutrain.selftest("nucleo-f446re", power_cuts=501, emulator=True)


@pytest.mark.parametrize(
    ("ours", "passed", "all_passed"),
    [(None, True, True), (True, True, True), (False, True, False), (None, False, False)],
)
def test_a_result_passes_by_its_checks_and_bits(
    ours: bool | None, passed: bool, all_passed: bool
) -> None:
    check = Check(name="x", passed=passed, found="y")
    texts: dict[str, Any] = dict.fromkeys(
        ("generator", "board", "title", "core", "compiler", "scheme"), "x"
    )
    report = SelfTest(**texts, digest="00", hardware=False, clock_hz=0, steps=4, checks=(check,))
    result = SelfTestResult(report, ours)
    assert result.passed == all_passed
    assert result.records() == [{"name": "x", "passed": passed, "found": "y"}]
    assert result.to_dict()["passed"] == passed
    assert ("bits_of_this_version" in result.to_dict()) == (ours is not None)
    assert ("FAILED" in result.summary()) == (not all_passed)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}'])
def test_a_file_that_is_no_report_is_a_sentence(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    assert "report.json" in run("selftest", "--compare", path).sentence


@pytest.mark.parametrize("steps", [-1, 0, 10**12])
def test_a_report_of_impossible_steps_is_a_sentence(run: Run, tmp_path: Path, steps: int) -> None:
    facts = dict.fromkeys(("generator", "board", "title", "core", "compiler", "scheme"), "x")
    facts |= {"digest": "00", "hardware": False, "clock_hz": 0, "format": 1, "checks": []}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(facts | {"steps": steps}))
    assert "steps were trained" in run("selftest", "--compare", path).sentence


def test_a_report_that_cannot_be_written_is_refused_before_the_work(run: Run) -> None:
    refused = run("selftest", "nucleo-f446re", "--emulator", "-o", "nowhere/report.json")
    assert "nowhere" in refused.sentence
