"""`--replay` on the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from mcutrain.demo import IMAGES, MODEL
from mcutrain.pipeline import prepare
from mcutrain.runs import training
from tests.cli.conftest import Run
from tests.cli.test_simulate_log import COMMAND, COUNT, SETTINGS, events, split, stop_after

__all__ = ["split"]

REPLAY = (*COMMAND[:-1], "--replay", 2, "--remember", 5, "--json")


def test_simulate_replays_with_the_same_bits_from_latents(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    found = run(*REPLAY, "--log", log).json
    assert found["steps"] == 3 * 40 * 3
    assert found["latent"]
    assert run(*REPLAY, "--latent", "off").json["state_sha256"] == found["state_sha256"]
    other = run(*REPLAY[:-1], "--remember", 6, "--json").json
    assert other["state_sha256"] != found["state_sha256"]
    lines = events(log)
    steps = [line for line in lines if line["event"] == "step"]
    assert [step.get("is_replay", False) for step in steps] == [False, True, True] * 120
    tests = [line["position"] for line in lines if line["event"] == "evaluated"]
    assert tests == [0, 120, 240, 360]


def test_a_checkpoint_within_a_group_of_replays_goes_on_to_the_same_bits(
    split: Any, tmp_path: Path
) -> None:
    step = prepare(MODEL)
    settings = replace(SETTINGS, replay=2, remember=5)
    runs = [training.prepare_run(step, split, settings) for _ in range(2)]
    expected = runs[0].train().saved
    stop_after(runs[1], 3 * COUNT + 8, tmp_path / "run.npz")
    assert runs[1].state.trained % 3 != 0
    again = training.prepare_run(step, split, settings)
    again.resume(tmp_path / "run.npz")
    assert again.train().saved == expected


def test_simulate_refuses_to_replay_varied_samples_before_it_reads_any(run: Run) -> None:
    command = ("simulate", MODEL, "--data", IMAGES, "--lr", 0.03, "--flip", "--replay", 1)
    said = run(*command).sentence
    assert said.startswith("a remembered sample is replayed as it was, but here epochs vary the ")


def test_what_is_remembered_without_a_replay_is_not_ignored(run: Run) -> None:
    outcome = run("simulate", MODEL, "--data", IMAGES, "--remember", 5)
    assert outcome.code == 2
    said = " ".join(outcome.err.replace("│", " ").split())
    assert "is how many samples --replay remembers: give that, too" in said
