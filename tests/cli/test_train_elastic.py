"""`train --elastic` on a board ends with the state of `simulate --elastic`."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcutrain_host.protocol import Saved

from mcutrain.cli import train
from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import MCUTRAIN, Board, Run, done

SCHEME = ("--scheme", "last:4")
DATA = ("--data", str(IMAGES), "--samples", "50", "--test-samples", "10")
FLAGS = (*DATA, "--epochs", "2", "--lr", "0.03", "--elastic", "0.9", "--every", "40")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elastic") / "project"
    done("generate", MODEL, *SCHEME, "--board", "native", "--elastic", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return json.loads(done("simulate", MODEL, *SCHEME, *FLAGS, "--json"))


@pytest.mark.slow
def test_a_board_ends_with_the_simulations_bits_and_tells_its_choices(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any]
) -> None:
    found = run("train", folder, *FLAGS, "--port", board.url, "--json").json
    assert found["state_sha256"] == simulated["state_sha256"]
    assert found["accuracy"] == simulated["accuracy"]
    lines = map(json.loads, (folder / "train.jsonl").read_text().splitlines())
    selected = [
        (line["position"], line["tensors"]) for line in lines if line["event"] == "selected"
    ]
    assert selected == [(s["step"], s["tensors"]) for s in simulated["selections"]]
    assert [at for at, _ in selected] == [4, 44, 84]


@pytest.mark.slow
def test_a_board_chooses_by_squares_as_the_simulation_does(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any]
) -> None:
    """And saves once less in each period."""
    squares = (*FLAGS, "--importance", "squares")
    expected = json.loads(done("simulate", MODEL, *SCHEME, *squares, "--json"))
    found = run("train", folder, *squares, "--port", board.url, "--json").json
    assert found["state_sha256"] == expected["state_sha256"] != simulated["state_sha256"]
    lines = map(json.loads, (folder / "train.jsonl").read_text().splitlines())
    selected = [(e["position"], e["tensors"]) for e in lines if e["event"] == "selected"]
    assert selected == [(s["step"], s["tensors"]) for s in expected["selections"]]
    saves = run("monitor", "--port", board.url, "--once", "--json").json["save_number"]
    assert saves == len({0, 40, 80, "at the end"})


@pytest.mark.slow
def test_a_run_whose_power_was_cut_goes_on_to_the_same_bits(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any]
) -> None:
    for steps in ("1", "3", "42"):  # within the windows, and behind a choice
        ran = subprocess.Popen(
            [*MCUTRAIN, "train", str(folder), *FLAGS, "--port", board.url, "--save-every", "7"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        log = folder / "train.jsonl"
        while ran.poll() is None and not _has_step(log, int(steps)):
            time.sleep(0.0005)
        board.cut_power()
        ran.communicate()
        board.start()
    found = run("train", folder, *FLAGS, "--port", board.url, "--json").json
    assert found["state_sha256"] == simulated["state_sha256"]


def _has_step(log: Path, steps: int) -> bool:
    text = log.read_text() if log.exists() else ""
    return f'"position": {steps},' in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--elastic", "0.2"), "a step cannot take a share of 0.2 of its time: give 0."),
        (("--elastic", "0.9", "--every", "2"), "selected every 2 steps: give a number, 3 or more"),
        (("--every", "20"), "--every is of a run with --elastic SHARE"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    run: Run, board: Board, folder: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in run("train", folder, *DATA, *flags, "--lr", "0.03", "--port", board.url).sentence


def test_firmware_that_trains_all_is_a_sentence(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    assert run("generate", MODEL, *SCHEME, "--board", "native", "-o", folder).code == 0
    said = run("train", folder, *FLAGS, "--port", "socket://127.0.0.1:9").sentence
    assert "generate it with --elastic" in said
    head = ("generate", MODEL, "--board", "native", "--elastic", "-o", folder)
    assert run(*head).code == 0
    said = run("train", folder, *FLAGS, "--port", "socket://127.0.0.1:9").sentence
    assert "trains the last layer alone, so nothing can be left out" in said
    other = ("generate", MODEL, "--board", "nucleo-f303re", "--slots", "off", "--scheme", "bias:2")
    said = run(*other, "--elastic", "-o", folder).sentence
    assert "it compares states that its slots keep" in said


def test_plan_and_generate_say_what_can_be_left_out(run: Run, tmp_path: Path) -> None:
    plain, elastic = (
        run("plan", MODEL, *SCHEME, *flags, "--json").json for flags in ([], ["--elastic"])
    )
    assert plain["elastic"] is None
    assert elastic["state_bytes"] == plain["state_bytes"] + 4
    assert elastic["elastic"]["tensors"][:2] == ["head/weight", "head/bias"]
    assert 0.3 < elastic["elastic"]["least_share"] < 0.9
    said = run("plan", MODEL, *SCHEME, "--elastic").out
    assert "tensors, of which any but the last layer's can be left out" in said
    sentence = run("generate", MODEL, "--part", "front", "--elastic", "-o", "f.tflite")
    assert sentence.code == 2


@pytest.mark.parametrize(("position", "said"), [(7, "save 3)"), (9, "save 3, of step 7)")])
def test_what_the_board_kept_is_said_as_it_is(position: int, said: str, tmp_path: Path) -> None:
    """An end within the windows leaves the board's flash behind the file."""
    identity = SimpleNamespace(has_slots=True)
    outcome = SimpleNamespace(identity=identity, saved=Saved(3, 7), position=position)
    state = tmp_path / "trained.mcts"
    found = train.kept(SimpleNamespace(outcome=outcome, state=state))  # type: ignore[arg-type]
    assert found == f"on the board ({said} and in {state}"
