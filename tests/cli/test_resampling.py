"""`--resample`: plan, generate, simulate and train, and the model in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.demo import IMAGES, MODEL
from mcutrain.pipeline import load
from tests.cli.conftest import Board, Run, done

SCHEME = ("--scheme", "22:0.25,19:0.25,bias:4")
DATA = ("--data", str(IMAGES), "--samples", "50", "--test-samples", "10")
FLAGS = (*DATA, "--epochs", "2", "--lr", "0.05", "--every", "20")
RULE = ("--resample", "fisher")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resampling") / "project"
    done("generate", MODEL, *SCHEME, "--board", "native", *RULE, "-o", folder)
    done("build", folder, "-O", "1")
    return folder


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return json.loads(done("simulate", MODEL, *SCHEME, *FLAGS, *RULE, "--json"))


@pytest.mark.slow
def test_a_board_ends_with_the_simulations_bits_and_its_model_has_all_columns(
    run: Run, board: Board, folder: Path, simulated: dict[str, Any], tmp_path: Path
) -> None:
    found = run("train", folder, *FLAGS, "--resample", "--port", board.url, "--json").json
    assert found["state_sha256"] == simulated["state_sha256"]
    assert found["accuracy"] == simulated["accuracy"]
    lines = map(json.loads, (folder / "train.jsonl").read_text().splitlines())
    assert [e["position"] for e in lines if e["event"] == "swapped"] == [0, 20, 40, 60, 80]
    trained = tmp_path / "trained.tflite"
    done("export", MODEL, "--state", folder / "trained.mcts", "-o", trained)
    before, after = load(MODEL), load(trained)
    name = next(n for n in before.tensors if "block8" in n and "expand/weight" in n)
    moved = after.tensors[name].data != before.tensors[name].data
    columns = moved.reshape(-1, moved.shape[-1]).any(axis=0).sum()
    assert columns > np.ceil(0.25 * moved.shape[-1])


def test_a_resampling_board_takes_no_state_over_the_line(
    run: Run, board: Board, folder: Path
) -> None:
    run("train", folder, *FLAGS, "--resample", "--port", board.url)
    state = folder / "trained.mcts"
    again = run("train", folder, *FLAGS, "--resample", "--from", state, "--port", board.url)
    assert "where no state is written over the line" in again.sentence


@pytest.mark.slow
def test_a_comparison_has_a_row_of_resampled_columns(run: Run, simulated: dict[str, Any]) -> None:
    flags = (*FLAGS, *RULE, "--seeds", "1", "--jobs", "1", "--json")
    found = run("compare", MODEL, *SCHEME, *flags).json
    row = found["rows"][-1]
    assert row["name"] == f"resampled, fisher: {SCHEME[1]}"
    assert row["accuracies"] == [simulated["accuracy"]]
    assert row["state_bytes"] > found["rows"][-2]["state_bytes"]
    assert "train layers in part" in run("compare", MODEL, *flags).sentence.replace(
        "trains", "train"
    )


def test_a_plan_says_what_is_kept_in_flash(run: Run) -> None:
    found = run("plan", MODEL, *SCHEME, *RULE, "--board", "rpi-pico", "--json").json
    assert found["shelf"]["bytes"] > 0
    assert len(found["shelf"]["weights"]) == 2
    assert found["board"]["why_no_saves"] == ""
    plain = run("plan", MODEL, *SCHEME, "--board", "rpi-pico", "--json").json
    assert plain["shelf"] is None
    assert 0 < found["state_bytes"] - plain["state_bytes"] < 200
    assert found["board"]["saves"] < plain["board"]["saves"]
    assert "of which other input channels can be trained" in run("plan", MODEL, *SCHEME, *RULE).out


@pytest.mark.parametrize(
    ("command", "flags", "said"),
    [
        (
            "simulate",
            (*DATA, *RULE, "--scheme", "head"),
            "trains no layer in part, so no input channels can be resampled",
        ),
        ("generate", (*RULE, "-o", "p"), "trains no layer in part, so no input"),
        ("simulate", (*DATA, "--every", "20"), "--every is of a run with --elastic SHARE"),
    ],
)
def test_what_cannot_be_resampled_is_a_sentence(
    run: Run, command: str, flags: tuple[str, ...], said: str
) -> None:
    assert said in run(command, MODEL, *flags).sentence


def test_firmware_that_trains_the_same_columns_is_a_sentence(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    assert run("generate", MODEL, *SCHEME, "--board", "native", "-o", folder).code == 0
    found = run("train", folder, *DATA, "--resample", "--lr", "0.03", "--port", "socket://x:1")
    assert "generate it with --resample" in found.sentence
