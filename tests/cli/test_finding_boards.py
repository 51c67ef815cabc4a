"""Commands find the board that is meant, and two boards learn at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcutrain_host import ports
from mcutrain_host.client import Patience
from mcutrain_host.ports import Port
from mcutrain_host.virtual.board import VirtualBoard

from mcutrain.demo import IMAGES, MODEL
from mcutrain.functions import firmware
from tests.cli.conftest import Run, done
from tests.cli.test_train import ended, started
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_pty

LEARNS = ("--samples", 6, "--epochs", 1, "--lr", "0.03", "--test-samples", 1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project for a virtual board."""
    folder = tmp_path_factory.mktemp("virtual") / "project"
    done("generate", MODEL, "--scheme", "head", "--board", "nucleo-f446re", "-o", folder)
    done("build", folder)
    return folder


@pytest.fixture
def virtual(project: Path) -> Iterator[str]:
    """The port of a virtual board."""
    with VirtualBoard.from_folder(project, "pty") as board:
        yield board.port


def only(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    """Make these the only ports of this computer."""
    monkeypatch.setattr(ports, "find_ports", lambda: [Port(p, "", None, None, None) for p in paths])


@pytest.mark.slow
def test_monitor_takes_the_board_that_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_pty(lambda data: b"") as silent, on_pty(FakeDevice().receive) as path:
        only(monkeypatch, silent, path)
        outcome = run("monitor", "--once", "--json")
        listed = run("ports", "--probe")
    assert outcome.json["model"] == "chain"
    assert f"note: one board answers, at {path}: fake, chain, scheme full" in outcome.err
    assert f"{silent} " in listed.out
    assert "no answer" in listed.out
    assert "fake, chain, scheme full, 0 samples learnt" in listed.out


def test_without_a_board_monitor_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    assert "there is no serial port; is the cable in" in run("monitor").sentence


@pytest.mark.parametrize(("touch_baud", "ports_there"), [(1200, 1), (0, 1), (1200, 2), (1200, 0)])
def test_flash_restarts_the_only_board_that_fits_and_can_be(
    monkeypatch: pytest.MonkeyPatch, touch_baud: int, ports_there: int
) -> None:
    there = [Port(f"/dev/ttyACM{i}", "", 1, 2, None) for i in range(ports_there)]
    monkeypatch.setattr(ports, "find_ports", lambda: there)
    board = SimpleNamespace(
        uart=SimpleNamespace(usb=((1, 2),)), flash=SimpleNamespace(touch_baud=touch_baud)
    )
    found = firmware._that_restarts(cast(Any, SimpleNamespace(board=board)))
    assert found == ("/dev/ttyACM0" if (touch_baud, ports_there) == (1200, 1) else None)


@pytest.mark.slow
def test_train_finds_its_board_and_ends_with_the_simulations_bits(
    run: Run, project: Path, virtual: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = FakeDevice()
    with on_pty(other.receive) as path:
        only(monkeypatch, path, virtual)
        outcome = run("train", project, "--data", IMAGES, *LEARNS, "--json", "--fresh")
    assert f"note: one board answers, at {virtual}: nucleo-f446re" in outcome.err
    simulated = run("simulate", MODEL, "--data", IMAGES, "--scheme", "head", *LEARNS, "--json")
    assert outcome.json["state_sha256"] == simulated.json["state_sha256"]


@pytest.mark.slow
def test_two_boards_learn_at_once_each_with_its_port_and_files(
    run: Run, project: Path, virtual: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with VirtualBoard.from_folder(project, "pty") as second:
        only(monkeypatch, virtual, second.port)
        monkeypatch.setattr(ports, "PROBE", Patience(answer_seconds=1.0, attempts=2))
        sentence = run("train", project, "--data", IMAGES, *LEARNS).sentence
        assert sentence.startswith("2 boards with the project's firmware answer (")
        assert all(f"{p}: nucleo-f446re, " in sentence for p in (virtual, second.port))
        runs = [
            started(project, *LEARNS, "--port", port, "--json", *files)
            for port, files in (
                (virtual, ("--state", tmp_path / "a.mcts", "--log", tmp_path / "a.jsonl")),
                (second.port, ("--state", tmp_path / "b.mcts", "--log", tmp_path / "b.jsonl")),
            )
        ]
        outcomes = [ended(process) for process in runs]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    assert (tmp_path / "a.mcts").read_bytes() == (tmp_path / "b.mcts").read_bytes()
    for name, port in (("a", virtual), ("b", second.port)):
        first = json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[0])
        assert first["port"] == port


@pytest.mark.slow
def test_a_second_run_into_the_same_files_is_a_sentence(
    run: Run, project: Path, virtual: str, tmp_path: Path
) -> None:
    from mcutrain_host.locks import alone

    files = ("--state", tmp_path / "a.mcts", "--log", tmp_path / "a.jsonl")
    for file in (tmp_path / "a.mcts", tmp_path / "a.jsonl"):
        with alone(file):
            again = run("train", project, "--data", IMAGES, *LEARNS, "--port", virtual, *files)
        assert f"{file} is written by another mcutrain" in again.sentence
