"""`train --replay` on a board that remembers ends with the state of `simulate --replay`."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.client import Device
from mcutrain_host.saved import HEADER_BYTES, SavedState

from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import MCUTRAIN, Board, Run, done

SCHEME = ("--scheme", "last:2")
DATA = ("--data", str(IMAGES), "--samples", "30", "--test-samples", "10")
FLAGS = (*DATA, "--epochs", "2", "--lr", "0.03", "--replay", "2")
REMEMBER = 7
TOTAL = 30 * 2 * 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ring") / "project"
    flags = (*SCHEME, "--board", "native", "--remember", REMEMBER, "-o", folder)
    done("generate", MODEL, *flags)
    done("build", folder, "-O", "1")
    return folder


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    flags = (*SCHEME, *FLAGS, "--remember", REMEMBER, "--json")
    return json.loads(done("simulate", MODEL, *flags))


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    found = map(json.loads, (folder / "train.jsonl").read_text().splitlines())
    return [line for line in found if line["event"] == event]


@pytest.mark.slow
def test_a_board_that_remembers_ends_with_the_simulations_bits(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any]
) -> None:
    found = run("train", folder, *FLAGS, "--port", board.url, "--json").json
    assert found["state_sha256"] == simulated["state_sha256"]
    assert found["accuracy"] == simulated["accuracy"]
    assert (found["steps"], found["samples_offered"]) == (TOTAL, 60)
    steps = lines(folder, "step")
    assert [step.get("is_replay", False) for step in steps] == [False, True, True] * 60
    (last,) = lines(folder, "finished")
    assert last["samples_offered"] == 60
    assert last["slots_erased"] == found["slots_erased"] > 0
    watched = run("monitor", "--port", board.url, "--once").out
    assert f"{REMEMBER} of 60, room for {REMEMBER}" in watched


OTHER = ("--data", str(IMAGES), "--samples", "10", "--test-samples", "10", "--seed", "5")
THEN = (*OTHER, "--epochs", "2", "--lr", "0.02", "--replay", "6")
THEN_TOTAL = 10 * 2 * 7
"""TOTAL is no multiple of 7: what is replayed counts from where this run begins."""


def state_in(path: Path) -> bytes:
    """Of a file, without its recipe."""
    return SavedState.parse(path.read_bytes(), str(path)).raw


def simulated_after(run: Run, *flags: object) -> dict[str, Any]:
    """Of other samples, replayed otherwise, after the first run."""
    ring = ("--remember", REMEMBER)
    first = ("simulate", MODEL, *SCHEME, *FLAGS, *ring, "--checkpoint", "first.npz")
    assert run(*first, "--json").code == 0
    then = (*SCHEME, *THEN, *ring, "--after", "first.npz", "--save-state", "then.mcts", "--json")
    return run("simulate", MODEL, *then, *flags).json


@pytest.mark.slow
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_board_learns_other_data_after_the_first_with_the_simulations_bits(
    run: Run, board: Board, folder: Path, is_cut: bool
) -> None:
    """It replays what it remembers of the first; also if the power fails between."""
    expected = simulated_after(run)
    on = ("--port", board.url, "--json")
    assert run("train", folder, *FLAGS, *on).json["steps"] == TOTAL
    then = ("train", folder, *THEN, "--after", TOTAL, "--save-every", 10, *on)
    if is_cut:
        process = subprocess.Popen([*MCUTRAIN, *map(str, then)], stdout=subprocess.PIPE)
        log = folder / "train.jsonl"
        while process.poll() is None and log.read_text().count('"step"') < TOTAL + 25:
            time.sleep(0.0005)
        board.cut_power()
        process.communicate()
        board.start()
    found = run(*then).json
    assert found["steps"] == TOTAL + THEN_TOTAL
    assert found["state_sha256"] == expected["state_sha256"]
    assert found["accuracy"] == expected["accuracy"]
    assert found["samples_offered"] == 60 + 20
    steps = lines(folder, "step")[TOTAL:]
    replays = [step.get("is_replay", False) for step in steps if step["position"] > TOTAL]
    assert replays[:8] == [False, *[True] * 6, False]
    again = run(*then)
    assert again.json["steps_of_this_run"] == 0
    assert "other samples" not in again.err


@pytest.mark.slow
def test_simulations_after_another_agree_and_can_be_gone_on_from(run: Run) -> None:
    found = simulated_after(run)
    assert simulated_after(run, "--reference")["state_sha256"] == found["state_sha256"]
    last = simulated_after(run, "--latent", "off", "--checkpoint", "then.npz")
    assert last["state_sha256"] == found["state_sha256"]
    assert (last["training_samples"], last["steps"]) == (10, THEN_TOTAL)
    ring = ("--remember", REMEMBER, "--json")
    third = ("simulate", MODEL, *SCHEME, *FLAGS, *ring, "--after", "then.npz")
    assert run(*third).json["state_sha256"] != run(*third[:-2]).json["state_sha256"]
    plain = run("simulate", MODEL, *SCHEME, *THEN[:-2], "--after", "first.npz", "--json")
    assert plain.json["steps"] == 20


@pytest.mark.slow
def test_what_cannot_come_after_another_run_is_a_sentence(
    run: Run, board: Board, folder: Path, tmp_path: Path
) -> None:
    simulate = ("simulate", MODEL, *SCHEME, *OTHER, "--epochs", 1)
    rate, ring = ("--lr", "0.02"), ("--replay", 1, "--remember", REMEMBER)
    run(*simulate, *rate, *ring, "--checkpoint", "first.npz")
    run(*simulate, *rate, "--checkpoint", "none.npz")
    (tmp_path / "no.npz").write_bytes(b"no")
    for flags, said in (
        (("--after", "no.npz", *rate), "no.npz is no checkpoint of this version"),
        (("--after", "first.npz"), "is searched for the model as it comes"),
        (("--after", "first.npz", *rate, *ring[:3], 4), "give --remember 7"),
        (("--after", "none.npz", *rate, *ring), "give it --replay and --remember, too"),
        (("--after", "first.npz", *rate, "--elastic", "0.5"), "an elastic run begins anew"),
    ):
        assert said in run(*simulate, *flags).sentence
    then = (*simulate, *rate, *ring, "--checkpoint", "then.npz", "--after")
    assert run(*then, "first.npz").code == 0
    run(*simulate, "--lr", "0.01", *ring, "--checkpoint", "other.npz")
    assert "belongs to another model" in run(*then, "other.npz").sentence
    train = ("train", folder, *THEN, "--port", board.url)
    assert run(*train, "--fresh", "--after", 3).code == 2
    early = run(*train, "--after", 60)
    assert "has done 0 steps, and this run begins after 60: finish the one before" in early.sentence
    found = run(*train[:2], *FLAGS, "--port", board.url, "--samples", 10, "--json")
    assert found.json["steps"] == 60
    other = run(*train)
    assert "--after 60 begins with these where those end" in other.err


@pytest.mark.slow
def test_a_tail_remembers_the_latents_that_it_is_given(
    run: Run, simulated: dict[str, Any], tmp_path: Path
) -> None:
    """Of another model hash, so the header of its state differs."""
    tail, whole = tmp_path / "tail", tmp_path / "whole.mcts"
    flags = (*SCHEME, "--part", "tail", "--board", "native", "--remember", REMEMBER, "-o", tail)
    assert run("generate", MODEL, *flags).code == 0
    assert run("build", tail, "-O", "1").code == 0
    made = Board(tail, tmp_path)
    try:
        found = run("train", tail, *FLAGS, "--model", MODEL, "--port", made.url, "--json").json
    finally:
        made.cut_power()
    assert found["samples_offered"] == 60
    ring = ("--remember", REMEMBER, "--save-state", whole, "--json")
    again = run("simulate", MODEL, *SCHEME, *FLAGS, *ring).json
    assert again["state_sha256"] == simulated["state_sha256"]
    assert state_in(tail / "trained.mcts")[HEADER_BYTES:] == state_in(whole)[HEADER_BYTES:]


@pytest.mark.slow
def test_a_run_with_replays_goes_on_after_a_power_cut_to_the_same_bits(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any], tmp_path: Path
) -> None:
    short = (*FLAGS, "--port", board.url, "--save-every", 20, "--json")
    process = subprocess.Popen(
        [*MCUTRAIN, "train", folder, *map(str, short)], stdout=subprocess.PIPE, text=True
    )
    log = folder / "train.jsonl"
    while process.poll() is None and (not log.exists() or log.read_text().count('"step"') < 50):
        time.sleep(0.0005)
    board.cut_power()
    process.communicate()
    board.start()
    found = run("train", folder, *short).json
    assert found["state_sha256"] == simulated["state_sha256"]
    kept = state_in(folder / "trained.mcts")
    assert hashlib.sha256(kept).hexdigest() == found["state_sha256"]


@pytest.mark.slow
@pytest.mark.parametrize("versions", [2, 0])
def test_latents_of_varied_samples_are_sent_too(
    run: Run, board: Board, folder: Path, monkeypatch: pytest.MonkeyPatch, versions: int
) -> None:
    """With the bits of the samples: this computer varies them, and computes the front."""
    varied = (*DATA, "--epochs", 3, "--lr", "0.03", "--flip", "--versions", versions, "--json")
    expected = run("simulate", MODEL, *SCHEME, *varied, "--latent", "off").json
    monkeypatch.delattr(Device, "send_sample")
    found = run("train", folder, *varied, "--port", board.url).json
    assert found["state_sha256"] == expected["state_sha256"]
    assert found["accuracy"] == expected["accuracy"]


def test_a_project_without_a_ring_says_what_to_do(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    run("generate", MODEL, *SCHEME, "--board", "native", "-o", other)
    said = run("train", other, *FLAGS, "--port", "nowhere").sentence
    assert said.endswith("has no remembered samples to replay: generate it with --remember N")


@pytest.mark.slow
def test_what_a_board_remembers_of_another_run_is_said(
    run: Run, board: Board, folder: Path
) -> None:
    plain = (*DATA, "--epochs", 1, "--lr", "0.03", "--port", board.url)
    assert run("train", folder, *plain, "--json").json["steps"] == 30
    found = run("train", folder, *FLAGS, "--port", board.url)
    assert found.code == 0
    assert "remembered      7 of 80 samples; a slot was erased" in found.out
    assert "offered 30 samples to remember, and this run had 10 before position 30" in found.err


def test_a_ring_lies_in_a_librarys_memory_or_in_a_boards_slots(run: Run, tmp_path: Path) -> None:
    command = ("generate", MODEL, *SCHEME, "--remember", 5, "-o", tmp_path / "p")
    made = run(*command)
    assert made.code == 0
    (line,) = (line for line in made.out.splitlines() if "for the ring of 5 latents." in line)
    header = (tmp_path / "p" / "src" / "mct_model.h").read_text()
    assert f"#define MCT_RING_BYTES {line.split()[0].replace(',', '')}\n" in header
    off = run(*command, "--board", "nucleo-f446re", "--slots", "off").sentence
    assert "cannot remember latents: the program has the flash of its slots" in off
    many = run(*command[:-3], 5_000, *command[-2:], "--board", "nucleo-f446re").sentence
    assert "bytes fit beside saved states of" in many
