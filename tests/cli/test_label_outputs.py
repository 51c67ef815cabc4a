"""Labels that do not exclude each other, and weights of classes, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcutrain import formats
from mcutrain.ir.graph import Graph
from tests.cli.conftest import Run
from tests.cli.test_other_losses import trained_on_a_board
from tests.simulation.test_label_outputs import NAMES, lessons, network

RATE = ("--epochs", 2, "--lr", 0.02)
PLACE = ("--scheme", "last:1", "--loss", "binary-cross-entropy", "--class-weights", "1,2,1")


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs in the place of files."""
    graphs = {"tags": network(), "logits": network(False), "pair": network(False, 2)}

    def load(path: Path) -> Graph:
        return graphs[str(path)]

    monkeypatch.setattr(formats, "load", load)
    monkeypatch.setattr(formats, "rounding_of", lambda path: "")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    made = lessons(network(), 120).train
    np.savez(tmp_path / "rows.npz", x=made.x, y=made.y, names=NAMES)
    return tmp_path / "rows.npz"


def test_simulate_says_labels_f1_and_auc(run: Run, rows: Path) -> None:
    done = run("simulate", "tags", "--data", rows, "--scheme", "last:1", *RATE, "--log", "l.jsonl")
    assert done.code == 0, done.err
    assert "the cross-entropy of a sigmoid for each of the 3 labels" in " ".join(done.err.split())
    assert "3 labels, 96 training and 24 test samples" in done.err
    assert "after: of the labels" in done.out
    assert "mean F1 " in done.out
    assert "mean AUC " in done.out
    lines = [json.loads(line) for line in Path("l.jsonl").read_text().splitlines()]
    tests = [line for line in lines if line["event"] == "evaluated"]
    assert [sorted({"accuracy", "auc", "f1"} & line.keys()) for line in tests[-1:]] == [
        ["accuracy", "auc", "f1"]
    ]
    steps = [line for line in lines if line["event"] == "step"]
    assert all(0 <= line["right"] <= line["labelled"] <= 3 for line in steps)


@pytest.mark.slow
def test_a_board_learns_labels_with_weights_as_the_simulation_does(run: Run, rows: Path) -> None:
    flags = ("--data", rows, *RATE, "--json")
    simulated = run("simulate", "tags", *PLACE, *flags).json
    made = run("generate", "tags", *PLACE, "--board", "native", "-o", "project")
    assert made.code == 0, made.err
    recipe = json.loads(Path("project/manifest.json").read_text())["recipe"]
    assert recipe["class_weights"] == "1,2,1"
    assert run("build", "project", "-O", "1").code == 0
    found = trained_on_a_board(run, *flags)
    assert found["state_sha256"] == simulated["state_sha256"]
    for name in ("accuracy", "f1", "auc", "class_f1", "class_auc"):
        assert found[name] == simulated[name], name


@pytest.mark.slow
def test_a_board_finds_its_labels_by_the_names_that_it_is_told(
    run: Run, rows: Path, tmp_path: Path
) -> None:
    with np.load(rows) as found:
        x, y = found["x"], found["y"]
    np.savez(tmp_path / "turned.npz", x=x, y=y[:, ::-1], names=NAMES[::-1])
    assert run("generate", "tags", *PLACE, "--board", "native", "-o", "project").code == 0
    assert run("build", "project", "-O", "1").code == 0
    flags, names = (*RATE, "--json"), ("--class-names", ",".join(NAMES))
    plain = trained_on_a_board(run, "--data", rows, *flags)
    turned = ("--data", tmp_path / "turned.npz", *flags, "--fresh")
    assert trained_on_a_board(run, *turned, *names)["state_sha256"] == plain["state_sha256"]
    assert trained_on_a_board(run, *turned)["state_sha256"] != plain["state_sha256"]
    wrong = run("train", "project", "--port", "/dev/null", *turned, "--class-names", "a,b,c")
    assert (wrong.code, "the data has labels of 'right'" in wrong.err) == (2, True), wrong.err


@pytest.mark.slow
def test_a_board_of_two_classes_says_f1_and_auc_as_the_simulation_does(
    run: Run, tmp_path: Path
) -> None:
    made = lessons(network(), 60).train
    np.savez(tmp_path / "pair.npz", x=made.x, y=made.y[:, 0] % 2, names=("no", "yes"))
    flags = ("--data", tmp_path / "pair.npz", *RATE)
    done = run("simulate", "pair", "--scheme", "head", *flags, "--json", "--log", "l.jsonl")
    assert (
        run("generate", "pair", "--scheme", "head", "--board", "native", "-o", "project").code == 0
    )
    assert run("build", "project", "-O", "1").code == 0
    found = trained_on_a_board(run, *flags, "--json")
    names = ("accuracy", "f1", "auc")
    for name in (*names, *(f"{name}_before" for name in names), "class_f1"):
        assert found[name] == done.json[name], name
    logs = (Path("l.jsonl"), Path("project/train.jsonl"))
    events = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    tests = [[e for e in log if e["event"] == "evaluated"] for log in events]
    for i in (0, -1):
        assert [tests[0][i][name] for name in names] == [tests[1][i][name] for name in names]


@pytest.mark.slow
def test_a_board_of_real_targets_says_its_error_and_remembers_the_first_one(
    run: Run, tmp_path: Path
) -> None:
    x = lessons(network(), 60).train.x
    graph = network(False)
    scale = np.float32(graph.tensors[graph.outputs[0]].type.scale)
    y = scale * (60 + x.reshape(60, -1)[:, :3] / np.float32(4))
    np.savez(tmp_path / "reals.npz", x=x, y=y.astype(np.float32))
    data = ("--data", tmp_path / "reals.npz")
    flags = (*data, "--lr", 0.02, "--json")
    auto = ("logits", "--scheme", "auto", *data)
    simulated = run("simulate", *auto, *flags[2:], "--epochs", 1).json
    made = run("generate", *auto, "--board", "native", "-o", "project")
    assert made.code == 0, made.err
    assert run("build", "project", "-O", "1").code == 0
    first = trained_on_a_board(run, *flags, "--epochs", 1)
    assert first["r2_before"] < 0
    more = trained_on_a_board(run, *flags, "--epochs", 2)
    for name in ("loss", "mae", "r2"):
        assert first[name] == more[f"{name}_resumed"] == simulated[name], name
        assert first[f"{name}_before"] == more[f"{name}_before"] == simulated[f"{name}_before"]


def test_a_classifier_says_f1_and_what_is_no_weight_gets_a_sentence(
    run: Run, tmp_path: Path
) -> None:
    made = lessons(network(), 60).train
    np.savez(tmp_path / "kinds.npz", x=made.x, y=np.arange(60) % 3, names=NAMES)
    simulate = ("simulate", "logits", "--data", tmp_path / "kinds.npz", "--scheme", "head", *RATE)
    facts = run(*simulate, "--class-weights", "balanced", "--json").json
    assert len(facts["class_f1"]) == 3
    assert facts["f1"] == pytest.approx(np.mean(facts["class_f1"]))
    for given, says in (("1,x", "numbers joined by commas"), ("1,2", "2 class_weights for 3")):
        assert says in run(*simulate, "--class-weights", given).sentence
    generate = run("generate", "logits", "--class-weights", "balanced", "-o", "p")
    assert "give the numbers that `mcutrain simulate` says" in generate.sentence
