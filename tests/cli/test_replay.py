"""`--replay` on the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.manifest import FILE, BoardProject, Manifest

from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import McutrainError
from mcutrain.functions.planning import plan as plan_of
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


@pytest.mark.draws(3)
@pytest.mark.parametrize("board", [(), ("--board", "rpi-pico"), ("--board", "native")])
@pytest.mark.parametrize("remember", [3, 500])
def test_plan_and_generate_say_the_same_of_a_ring(
    run: Run, board: tuple[str, ...], remember: int
) -> None:
    """On the board its slots' own 192 KB hold the one, and not the other."""
    flags = (MODEL, "--scheme", "last:2", *board)
    ring = ("--remember", remember)
    lines = [
        {line for line in out.splitlines() if f"ring of {remember} latents" in line}
        for out in (run("plan", *flags, *ring).out, run("generate", *flags, *ring, "-o", "p").out)
    ]
    assert lines[0] == lines[1]
    planned, made = (
        run(*command, "--json").json
        for command in (("plan", *flags, *ring), ("generate", *flags, *ring, "-o", "p"))
    )
    without = run("plan", *flags, "--json").json
    assert without.pop("ring") is None
    found = planned.pop("ring")
    assert found == made.get("ring")
    manifest = BoardProject.read(Path("p")).manifest if board else Manifest.read(Path("p") / FILE)
    if board and found:
        (line,) = lines[0]
        memory = manifest.board.memory
        assert found["sram_bytes"] == 2 * remember
        assert [found["slot_bytes"]] * 2 == [size for _, size in memory.slots]
        assert found["program_bytes"] == memory.flash.bytes
        assert (found["slot_bytes"] > 0x30000) == (remember == 500)
        assert f"{found['slot_bytes']:,} bytes of flash, which leave " in line
        more = planned["board"]["sram_bytes"] - without["board"]["sram_bytes"]
        assert 0 < more - found["sram_bytes"] <= 24 + 7
        assert planned["board"]["saves"] <= without["board"]["saves"]
    elif found:
        (line,) = lines[0]
        assert line.startswith(f"{found['sram_bytes']:,} bytes of SRAM besides, ")
        assert planned == without
    else:
        assert board[1] == "native"


def test_a_ring_that_cannot_be_is_a_sentence_of_plan_too(run: Run) -> None:
    plan = ("plan", MODEL, "--scheme", "last:2", "--remember")
    assert run(*plan, -1).code == 2
    assert "latents of 1,024 bytes fit beside" in run(*plan, 900, "--board", "rpi-pico").sentence
    assert "--remember keeps latents, and no " in run(*plan[:3], "full", *plan[4:], 3).sentence
    off = run(*plan, 3, "--board", "rpi-pico", "--slots", "off").sentence
    assert "cannot remember latents: the program has the flash of its slots" in off
    named = run(*plan, 3, "--latent", "block3/depthwise", "--json").json["ring"]
    assert named["latent_bytes"] > 1_024
    with pytest.raises(McutrainError, match="remember is -1"):
        plan_of(MODEL, "last:2", remember=-1)
