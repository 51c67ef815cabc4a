"""--gate: what commands say of the samples that a step skips, and that all mean the same ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcutrain_host.manifest import Manifest

from mcutrain import prepare
from mcutrain.features import FACTS
from mcutrain.pipeline.recipe import of_json
from tests.cli.conftest import Board, Run, done
from tests.cli.test_train import events

HEAD = ("--scheme", "head")
FEW = ("--samples", 40, "--test-samples", 4, "--epochs", 2, "--lr", "0.03", "--gate", 1)
STEPS = 80


@pytest.mark.slow
def test_ways_to_compute_skip_the_same_samples_and_say_how_many(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    flags = ("simulate", model, "--data", images, *HEAD, *FEW)
    ways = (["--reference"], ["--portable", "--latent", "off"], ["--log", "log.jsonl"])
    found = [run(*flags, *way, "--json").json for way in ways]
    assert len({facts["state_sha256"] for facts in found}) == 1
    (skipped,) = {facts["skipped"] for facts in found}
    assert 5 < skipped < STEPS - 5
    each = [epoch["skipped"] for epoch in found[0]["epochs"]]
    assert len(each) == 2
    assert sum(each) == skipped
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["skipped"]) == ("finished", skipped)
    said = run(*flags)
    assert f"skipped         {skipped} of {STEPS} steps, " in said.out
    assert f", {each[0]} skipped" in said.err


def test_without_a_gate_nothing_is_said_of_one(run: Run, model: Path, images: Path) -> None:
    flags = ("simulate", model, "--data", images, *HEAD, *FEW[:-2])
    facts = run(*flags, "--json").json
    assert facts["skipped"] is None
    assert not any("skipped" in epoch for epoch in facts["epochs"])
    assert "skipped" not in run(*flags).out
    assert "gate" not in run("plan", model).out


def test_a_gate_takes_two_words_of_state_and_nothing_else(run: Run, model: Path) -> None:
    plain, gated = (run("plan", model, *flags, "--json").json for flags in ([], ["--gate", "0.8"]))
    assert (plain.pop("gate"), gated.pop("gate")) == (None, 0.8)
    for name in ("state_bytes", "sram_bytes"):
        assert gated.pop(name) == plain.pop(name) + 8
    assert gated["state"].pop("counters_and_padding") == (
        plain["state"].pop("counters_and_padding") + 8
    )
    assert gated == plain
    said = run("plan", model, "--gate", "0.8").out
    assert "learns from a sample if its loss > 0.8 · mean of late ones" in said


def test_a_project_keeps_its_gate_and_its_state_is_exported(run: Run, model: Path) -> None:
    flags = ("--scheme", "bias:2", "--gate", 0.5)
    assert run("generate", model, *flags, "-o", "project").code == 0
    manifest = Manifest.read(Path("project/manifest.json"))
    step = prepare(model, "bias:2", gate=0.5)
    assert of_json(json.dumps(manifest.recipe), "it") == step.recipe
    assert manifest.gate is not None
    assert manifest.gate.alpha == 0.5
    assert manifest.table == step.plan.state.table
    reference = step.reference()
    reference.skipped = 12345
    saved = reference.save()
    assert FACTS.read(saved, manifest.table) == {"skipped": 12345}
    Path("project/trained.mcts").write_bytes(saved)
    to = ("-o", "trained.tflite")
    known = ("export", model, "--state", "project/trained.mcts", *to)
    assert run(*known, "--scheme", "bias:2").code == 0
    contradiction = run(*known, "--gate", 0.8).sentence
    assert "was trained with --gate 0.5, and --gate 0.8 is given" in contradiction
    Path("bare.mcts").write_bytes(saved)
    export = ("export", model, "--state", "bare.mcts", *to)
    sentence = run(*export, "--scheme", "bias:2").sentence
    assert "--accumulate 1, no gate; give those of the training" in sentence
    assert run(*export, "--scheme", "bias:2", "--gate", 0.5).code == 0


@pytest.mark.parametrize("command", ["plan", "simulate", "generate", "compare"])
@pytest.mark.parametrize("alpha", ["-1", "nan", "17"])
def test_an_impossible_gate_is_a_sentence(
    run: Run, model: Path, images: Path, command: str, alpha: str
) -> None:
    more = {"plan": [], "generate": ["-o", "project"]}.get(command, ["--data", images])
    done = run(command, model, *more, "--gate", alpha)
    assert "the gate's alpha is" in done.sentence
    assert done.sentence.endswith("give 0 to 16, such as 0.8, or no gate")
    assert not Path("project").exists()


@pytest.mark.slow
def test_a_board_skips_what_the_simulation_skips(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    flags = ("--data", images, *HEAD, *FEW, "--save-state", "state", "--json")
    expected = run("simulate", model, *flags)
    folder = tmp_path / "project"
    done("generate", model, "--board", "native", "--gate", 1, "-o", folder)
    done("build", folder, "-O", "1")
    board = Board(folder, tmp_path)
    try:
        flags = ("train", folder, "--data", images, "--port", board.url, *FEW[:-2])
        facts = run(*flags, "--json").json
        said = run(*flags)
    finally:
        board.cut_power()
    assert (folder / "trained.mcts").read_bytes() == (tmp_path / "state").read_bytes()
    assert facts["skipped"] == expected.json["skipped"] > 0
    assert f"skipped         {facts['skipped']} of {STEPS} steps" in said.out
    assert events(folder, "pulled")[-1]["skipped"] == facts["skipped"]
