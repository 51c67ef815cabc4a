"""Autoencoders and added classes, as a user calls them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host.manifest import BoardProject

from mcutrain import formats
from mcutrain.data import Dataset, Split
from mcutrain.functions.chosen import fitted_to
from mcutrain.functions.listener import SILENT
from mcutrain.functions.preparing import Asked
from mcutrain.ir.graph import Graph
from tests.cli.conftest import Run
from tests.simulation.autoencoders import dense, normal
from tests.simulation.networks import residual_network

LEARN = ("--scheme", "2:1,bias:2", "--epochs", 2, "--lr", 0.3)
NAMES = ("cat", "left", "dog", "bird", "right", "fish")
ADD = ("--add-class", "left", "--add-class", "right")
OLD = 4


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs in the place of files, for modules that are imported here first as for others."""
    graphs = {"autoencoder": dense(), "classifier": residual_network(classes=OLD)}

    def load(path: Path) -> Graph:
        return graphs[str(path)]

    monkeypatch.setattr(formats, "load", load)
    monkeypatch.setattr(formats, "rounding_of", lambda path: "")


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """Normal samples to learn from, and to test on with anomalies between."""
    graph = dense()
    seen, unseen = normal(graph, 200), normal(graph, 30, seed=1)
    strange = np.random.default_rng(2).permutation(unseen.ravel()).reshape(unseen.shape)
    labels = np.repeat([0, 1], 30)
    np.savez(
        tmp_path / "sounds.npz",
        x_train=seen,
        x_test=np.concatenate((unseen, strange)),
        y_test=labels,
    )
    np.savez(tmp_path / "unlabelled.npz", x=seen)
    return tmp_path / "sounds.npz"


def test_a_head_and_a_loss_are_fitted_to_data() -> None:
    part = Dataset(np.zeros((6, 8, 8, 3), np.uint8), np.arange(6), NAMES)
    graph, split = residual_network(classes=OLD), Split(part, part)
    fitted = fitted_to(graph, split, "auto", Asked(), SILENT)
    assert fitted.classes == len(NAMES)
    assert (fitted.loss, fitted.class_names) == ("cross-entropy", NAMES)
    assert fitted.split.names == NAMES
    assert (fitted.split.train.y == split.train.y).all()


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Six classes, the names of the two new ones between those of the old."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % len(NAMES)
    x = rng.integers(-128, 128, (48, 8, 8, 3)).astype(np.int8)
    np.savez(tmp_path / "words.npz", x=x, y=y, names=NAMES)
    return tmp_path / "words.npz"


# ------------------------------------------------------------------------------- without labels


def test_an_autoencoder_learns_what_is_normal(run: Run, sounds: Path) -> None:
    done = run("simulate", "autoencoder", "--data", sounds, *LEARN)
    assert done.code == 0, done.err
    assert "test loss " in done.out
    assert "mean squared error in squared steps of the input" in done.out
    assert "AUC " in done.out
    assert "accuracy" not in done.out + done.err
    assert "its own input, 200 training and 60 test samples" in done.err


def test_a_rate_is_found_for_an_autoencoder_too(run: Run, sounds: Path) -> None:
    flags = ("--scheme", "2:1,bias:2", "--epochs", 2, "--json")
    facts = run("simulate", "autoencoder", "--data", sounds, *flags).json
    small = run("simulate", "autoencoder", "--data", sounds, *flags, "--lr", "0.1/256").json
    assert facts["loss"] < facts["loss_before"]
    assert facts["loss"] < small["loss"]


def test_facts_of_an_autoencoder_are_loss_and_auc(run: Run, sounds: Path) -> None:
    facts = run("simulate", "autoencoder", "--data", sounds, *LEARN, "--json").json
    assert facts["loss"] < facts["loss_before"]
    assert 0.5 < facts["auc"] <= 1
    assert [e["test_auc"] for e in facts["epochs"]][-1] == facts["auc"]
    assert not [name for name in facts if "accuracy" in name]
    unlabelled = run("simulate", "autoencoder", "--data", "unlabelled.npz", *LEARN, "--json").json
    assert unlabelled["auc"] is None
    assert unlabelled["loss"] < unlabelled["loss_before"]


def test_an_autoencoder_is_tested_as_often_as_told(run: Run, sounds: Path) -> None:
    command = ("simulate", "autoencoder", "--data", sounds, *LEARN, "--epochs", 3, "--samples", 40)
    usual, rare = (run(*command, "--test-every", n, "--json").json for n in (1, 2))
    assert rare["state_sha256"] == usual["state_sha256"]
    assert (rare["auc"], rare["loss"]) == (usual["auc"], usual["loss"])
    assert ["test_auc" in epoch for epoch in usual["epochs"]] == [True, True, True]
    assert ["test_loss" in epoch for epoch in rare["epochs"]] == [False, True, True]
    told = run(*command, "--test-every", 0, "--log", "log.jsonl").err
    assert "epoch 1/3: loss" in told
    lines = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    tests = [line for line in lines if line["event"] == "evaluated"]
    assert [line["position"] for line in tests] == [0, 120]
    assert tests[1]["auc"] == usual["auc"]
    assert not any("accuracy" in line or "label" in line for line in lines)


def test_numpy_learns_the_same(run: Run, sounds: Path) -> None:
    few = (*LEARN, "--samples", 6, "--test-samples", 4, "--json")
    hashes = {
        run("simulate", "autoencoder", "--data", sounds, *few, *how).json["state_sha256"]
        for how in ((), ("--reference",))
    }
    assert len(hashes) == 1


def test_an_interrupted_autoencoder_goes_on_from_its_checkpoint(run: Run, sounds: Path) -> None:
    flags = ("simulate", "autoencoder", "--data", sounds, *LEARN, "--json")
    whole = run(*flags).json
    kept = (*flags, "--checkpoint", "run.npz")
    first = run(*kept).json
    again = run(*kept).json
    changing = {"step_us", "epochs"}
    for facts in (whole, first, again):
        for name in changing:
            facts.pop(name)
    assert whole == first == again


def test_labels_are_not_needed_but_must_be_meant(run: Run, sounds: Path, words: Path) -> None:
    data = ("--data", "unlabelled.npz")
    missing = "the data has no labels, which cross-entropy needs: save y"
    assert missing in run("simulate", "classifier", *data).sentence
    assert missing in run("simulate", "autoencoder", *data, "--loss", "cross-entropy").sentence
    for command in ("analyze", "compare"):
        assert "unlabelled.npz has no labels" in run(command, "autoencoder", *data).sentence
    sentence = run("simulate", "classifier", "--data", words, "--loss", "mse").sentence
    assert "it has 4 outputs and 192 inputs" in sentence


@pytest.mark.slow
def test_the_firmware_of_an_autoencoder_learns_the_simulations_bits(
    run: Run, sounds: Path, tmp_path: Path
) -> None:
    flags = (*LEARN, "--test-samples", 60, "--json")
    simulated = run("simulate", "autoencoder", "--data", sounds, *flags).json
    scheme = ("--scheme", "2:1,bias:2", "--loss", "mse", "--board", "native")
    assert run("generate", "autoencoder", *scheme, "-o", "project").code == 0
    assert run("build", "project", "-O", "1").code == 0
    facts = json.loads((tmp_path / "project" / "manifest.json").read_text())
    assert (facts["classes"], facts["loss"]) == (1, "mse")
    found = trained_on_a_board(run, "--data", sounds, *flags[2:])
    for name in ("loss_before", "loss", "auc_before", "auc"):
        assert found[name] == pytest.approx(simulated[name], rel=1e-12)
    assert found["state_sha256"] == simulated["state_sha256"]
    log = (tmp_path / "project" / "train.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert all("is_right" not in e for e in events if e["event"] == "step")
    assert run("report", "project").code == 0


def trained_on_a_board(run: Run, *flags: object) -> dict[str, Any]:
    """What the firmware in the folder `project`, run as a program, learnt."""
    program = [BoardProject.read(Path("project")).elf, "--port", "tcp:0", "--state", "slots"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as board:
        try:
            port = board.stdout.readline().split()[1]
            return run("train", "project", "--port", port, *flags).json
        finally:
            board.kill()


# -------------------------------------------------------------------------------- added classes


def test_added_classes_come_last_whatever_the_order_of_the_data(run: Run, words: Path) -> None:
    facts = run("simulate", "classifier", "--data", words, *ADD, "--epochs", 1, "--json").json
    assert facts["class_names"] == ["cat", "dog", "bird", "fish", "left", "right"]
    assert facts["classes"] == OLD + 2


@pytest.mark.slow
def test_a_board_learns_added_classes_as_the_simulation_does(
    run: Run, words: Path, tmp_path: Path
) -> None:
    assert run("plan", "classifier", *ADD, "--json").json["classes"] == OLD + 2
    flags = ("--data", words, "--epochs", 2, "--lr", 0.03, "--json")
    simulated = run("simulate", "classifier", "--scheme", "bias:2", *ADD, *flags).json
    made = ("--scheme", "bias:2", *ADD, "--board", "native", "-o", "project")
    assert run("generate", "classifier", *made).code == 0
    facts = json.loads((tmp_path / "project" / "manifest.json").read_text())
    assert facts["recipe"]["added"] == ["left", "right"]
    assert "#define MCT_CLASSES 6" in (tmp_path / "project" / "src" / "mct_model.h").read_text()
    assert run("build", "project", "-O", "1").code == 0
    found = trained_on_a_board(run, *flags)
    assert found["state_sha256"] == simulated["state_sha256"]
    assert found["accuracy"] == simulated["accuracy"]


def test_added_classes_must_be_in_the_data(run: Run, words: Path, sounds: Path) -> None:
    simulate = ("simulate", "classifier", "--data")
    assert (
        "gets 'up', but the data has 6: 'cat'"
        in run(*simulate, words, "--add-class", "up").sentence
    )
    unlabelled = run(*simulate, "unlabelled.npz", *ADD).sentence
    assert "the data has no labels" in unlabelled
    twice = run(*simulate, words, "--add-class", "left", "--add-class", "left").sentence
    assert "the class name left is used 2 times" in twice
